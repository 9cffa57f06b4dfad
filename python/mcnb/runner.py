"""Compares policies in an environment."""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, List, Mapping, Tuple, Type, Union

from . import _core
from .bandit import Bandit
from .environment import Environment
from .environments import NamedEnvironment, make
from .options import whole_number
from .policy import Policy, Setup
from .progress import Progress, progress_for
from .results import Result

MakeEnvironment = Callable[[int], Environment]
PolicyLike = Union[str, Bandit, Policy, Type[Policy], Callable[[Setup], Union[Policy, Bandit]]]


def run(environment: Union[str, NamedEnvironment, MakeEnvironment],
        policies: Union[str, Mapping[str, PolicyLike], Iterable[PolicyLike]],
        rounds: int = 10_000, seeds: Union[int, Iterable[int]] = 5, *, threads: int = 0,
        progress: Union[None, bool, Progress] = None) -> Result:
    """Lets every policy play with every seed, all in the same rounds at the same seed.

    environment  a name, one of `mcnb.environments`, or a class or function of your own that makes
                 an `mcnb.Environment` for a seed
    policies     names with options ("mcnb:gamma=0.2", "linucb"), bandits (copies of them play),
                 classes derived from `mcnb.Policy`, or functions of a `Setup`; a dict gives labels
    seeds        how many, from 1 up, or which
    threads      runs side by side; 0: one per processor. Results do not depend on it
    progress     whether to show it; None: on a terminal and in a notebook. Or a function of (rounds
                 done, rounds in all, runs done, runs in all)

    Ctrl-C stops it between two rounds.
    """
    seed_list = _seeds(seeds)
    show = progress_for(progress)
    try:
        cells = _core.run(_environment(environment), _labelled_policies(policies),
                          whole_number("rounds", rounds, 1), seed_list,
                          whole_number("threads", threads), show)
    finally:
        close = getattr(show, "close", None)
        if close is not None:
            close()
    return Result.from_cells(cells, seed_list, int(rounds))


def _seeds(seeds: Union[int, Iterable[int]]) -> List[int]:
    if hasattr(seeds, "__iter__"):
        listed = [whole_number("seeds", seed) for seed in seeds]
    else:
        listed = list(range(1, whole_number("seeds", seeds, 1) + 1))
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"seeds: expected at least one, each once, got {listed}")
    return listed


def _environment(environment: Any) -> Any:
    if isinstance(environment, str):
        return make(environment).core
    if isinstance(environment, NamedEnvironment):
        return environment.core
    if isinstance(environment, Environment) or not callable(environment):
        raise TypeError("environment: expected a name, one of mcnb.environments, or a class or "
                        "function that makes an mcnb.Environment for a seed, got "
                        + ("an object, which could be played in only once"
                           if isinstance(environment, Environment) else type(environment).__name__))

    def own(seed: int) -> Environment:
        made = environment(seed)
        if not isinstance(made, Environment):
            raise TypeError(f"environment: expected it to make an mcnb.Environment, "
                            f"got {type(made).__name__}")
        return made

    return own


def _labelled_policies(policies: Any) -> List[Tuple[str, Any]]:
    if isinstance(policies, str):
        policies = policies.split(",")
    if isinstance(policies, Mapping):
        listed = [(label, policies[label]) for label in policies]
    elif hasattr(policies, "__iter__"):
        listed = [(None, policy) for policy in policies]
    else:
        listed = [(None, policies)]
    labelled = [(_label(policy) if label is None else str(label), _maker(policy))
                for label, policy in listed]
    labels = [label for label, _ in labelled]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"policies: expected every label once, got {label!r} "
                             f"{labels.count(label)} times; a dict can give others")
    if not labels:
        raise ValueError("policies: expected at least one, got none")
    return labelled


def _label(policy: Any) -> str:
    if isinstance(policy, str):
        return policy
    if isinstance(policy, Bandit):
        return policy.policy
    return getattr(policy, "__name__", type(policy).__name__)


def _maker(policy: Any) -> Any:
    if isinstance(policy, str):
        return policy
    if isinstance(policy, (Bandit, Policy)):
        def create(setup: Setup) -> Any:
            return copy.deepcopy(policy)
    elif callable(policy):
        create = policy
    else:
        raise TypeError("policies: expected names, bandits, classes of mcnb.Policy or functions of "
                        f"a Setup, got {type(policy).__name__}")

    def made(features: int, users: int, seed: int, user_features: Any, block: int) -> Any:
        player = create(Setup(features, users, seed, user_features, block))
        if not isinstance(player, (Bandit, Policy)):
            raise TypeError(f"policies: expected {_label(policy)} to make an mcnb.Policy or an "
                            f"mcnb.Bandit, got {type(player).__name__}")
        if isinstance(player, Policy):
            player._users = users
            return player
        for name in ("choose", "learn"):
            if getattr(type(player), name) is not getattr(Bandit, name):
                raise TypeError(f"policies: expected a Bandit with its own {name}, got "
                                f"{type(player).__name__}, which has another: make it an "
                                "mcnb.Policy that holds a Bandit")
        return player.copy()  # several runs may use the same bandit

    return made
