"""What other policies would have earned on a log: off-policy evaluation."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy.typing as npt

from . import _core
from .bandit import Bandit
from .exploring import Exploring
from .logs import Log, LoggedRound, _round_of
from .logs import open as open_log
from .options import whole_number

# A name as of `mcnb evaluate`, a bandit, an exploring bandit, or a function that returns the
# probabilities of the actions of a round.
PolicyLike = Union[str, Bandit, Exploring, Callable[[LoggedRound], npt.ArrayLike]]
LogLike = Union[Log, str, "os.PathLike[str]"]


class Evaluation:
    """The answers of `evaluate`. Its text is a table; `json` has all numbers.

    warnings  what is wrong with the log, and which intervals hold less often than they say
    log       counts of the log's rounds
    slots     estimates of all rounds, then of each slot: a list of dicts
    learning  policies that learned from the log as it went
    """

    def __init__(self, tables: str, text: str) -> None:
        self._tables = tables
        self.json: Dict[str, Any] = json.loads(text)
        self.warnings: List[str] = self.json["warnings"]
        self.log: Dict[str, Any] = self.json["log"]
        self.slots: List[Dict[str, Any]] = self.json["slots"]
        self.learning: List[Dict[str, Any]] = self.json["learning"]

    def estimate(self, policy: str, estimator: str, slot: Union[str, int] = "all"
                 ) -> Dict[str, Any]:
        """Returns one estimate: value, bias, error, bootstrap, bernstein, difference and
        differenceInterval, and the policy's anytime interval. What is not known is None.
        Estimators have their names of the table: "SNIPS"."""
        for of_slot in self.slots:
            for one in of_slot["policies"]:
                for found in one["estimates"]:
                    if (of_slot["slot"] == str(slot) and one["policy"] == policy
                            and found["estimator"].lower() == estimator.lower()):
                        return {**found, "anytime": one["anytime"]}
        raise KeyError(f"expected a policy, an estimator and a slot of the table, "
                       f"got {policy!r}, {estimator!r}, {slot!r}")

    def to_frame(self) -> Any:
        """Returns a pandas frame with a row for each slot, policy and estimator."""
        import pandas

        rows = [{"slot": of_slot["slot"], "policy": one["policy"], **found,
                 "anytime": one["anytime"]}
                for of_slot in self.slots for one in of_slot["policies"]
                for found in one["estimates"]]
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        return self._tables + "".join(f"\nwarning: {one}" for one in self.warnings)

    def __repr__(self) -> str:
        return f"Evaluation({self.log['rounds']} rounds)"


def evaluate(log: LogLike, policies: Union[PolicyLike, Sequence[str], Mapping[str, PolicyLike]], *,
             baseline: str = "logged", estimators: Sequence[str] = (),
             reward_range: Tuple[float, float] = (0.0, 1.0), dimension: int = 64,
             reward_model: str = "ridge", penalty: float = 1.0, replicates: int = 1000,
             seed: int = 1) -> Evaluation:
    """Estimates what policies would have earned on a log, as `mcnb evaluate` does.

    log           a `Log`, or the path of one
    policies      a name ("random", "first", "action=tea", "replay=linucb", ...), several names, or
                  a dict {name: policy}. A policy is a name, a Bandit (as it is now; it does not
                  learn), an Exploring bandit, or a function that takes a `LoggedRound` and returns
                  the probabilities of its actions
    baseline      what the policies are compared with: logged, or one that does not learn
    estimators    ips, clipped-ips, snips, dm, dr, switch-dr, dros; none: all
    reward_range  the least and the largest possible reward
    dimension     numbers that features are hashed to; Bandits need as many features
    reward_model  what models the rewards: ridge or network
    penalty       of the ridge regressions
    replicates    samples of the bootstrap
    """
    source = log if isinstance(log, Log) else open_log(log)
    names: List[str] = []
    own: List[Tuple[Any, ...]] = []
    for name, policy in _named(policies).items():
        names.append(policy if isinstance(policy, str) else name)
        if isinstance(policy, str):
            if name != policy:
                raise ValueError(f"policies: expected {policy!r} under its own name, got {name!r}")
        elif isinstance(policy, Exploring):
            own.append((name, policy.bandit, policy.exploration))
        elif isinstance(policy, Bandit):
            own.append((name, policy, "own"))
        elif callable(policy):
            own.append((name, _on_tuples(policy)))
        else:
            raise TypeError(f"policies: expected a name, a Bandit or a function, "
                            f"got {type(policy).__name__}")
    lowest, highest = (float(end) for end in reward_range)
    tables, text = _core.evaluate(
        source._core, names, own, baseline, list(estimators), lowest, highest,
        whole_number("dimension", dimension, 1), reward_model, float(penalty),
        whole_number("replicates", replicates, 1), whole_number("seed", seed))
    return Evaluation(tables, text)


def _named(policies: Any) -> Dict[str, PolicyLike]:
    if isinstance(policies, str):
        return {policies: policies}
    if isinstance(policies, Mapping):
        return dict(policies)
    if isinstance(policies, (Bandit, Exploring)) or callable(policies):
        return {"policy": policies}
    return {name: name for name in policies}


def _on_tuples(policy: Callable[[LoggedRound], npt.ArrayLike]) -> Callable[[Any], npt.ArrayLike]:
    return lambda values: policy(_round_of(values))
