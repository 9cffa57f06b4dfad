"""A policy that chooses and learns, one call at a time."""

from __future__ import annotations

import copy
import json
import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Type, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import _core
from .options import option_texts, path_text, whole_number

if TYPE_CHECKING:
    from .logs import Log

Self = TypeVar("Self", bound="Bandit")
Optionally = Optional[npt.ArrayLike]
# Arms as arrays of numbers, or their features as in requests to the service.
Arms = Union[npt.ArrayLike, Mapping[str, Any], Sequence[Any]]


class Bandit(_core.Bandit):
    """A policy of the engine with its learners.

    policy         its name ("mcnb", "linucb", "club", ...: `mcnb.policies()`), perhaps with
                   options: "mcnb:gamma=0.2"
    features       length of the vectors that describe arms
    users          number of users; `add_users` adds more
    preset         a named set of options, for policies that have presets
    seed           seed of all random numbers: the same seed and calls give the same answers
    threads        threads per call; 0: one per processor. Answers do not depend on it
    block          length of the blocks, if arms are blocks of a longer, otherwise zero vector
    user_features  features of users, of shape (users, numbers), for policies that use them
    device         "cpu", or "cuda" for a GPU (mcnb with preset="algorithm"; docs/GPU.md). The
                   answers are the same, and saved states fit both; a pickle comes back on the CPU
    **options      options of the policy; if an argument above has the same name, use
                   options={"users": "each"}

    `choose`, `scores`, `predict` and `predict_expectations` take `arms` of shape (arms, features),
    or (rounds, arms, features) for a batch; `user` is one number, or one for each round, or one for
    each arm. `learn`, `start` and `cluster` take one arm of shape (features,), or (arms, features).
    Contiguous arrays of float32 are not copied.

    Users may have names: `user` is then a text, and a new name is a new user. Arms may have named
    features, as in requests to the service: `arms` is a dict {id: features} or a list of features,
    an `arm` the features alone, and `context` the features of the user and the situation. They are
    hashed to `features` numbers with the same result as in the service. If `arms` is a dict,
    `choose` and `predict` return an id.

    Calls from several threads run one after the
    other; the GIL is free while they compute.
    """

    def __init__(self, policy: str = "mcnb", *, features: int, users: int = 1,
                 preset: Optional[str] = None, seed: int = 0, threads: int = 1, block: int = 0,
                 user_features: Optional[npt.ArrayLike] = None, device: str = "cpu",
                 options: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        if not isinstance(policy, str):
            raise TypeError(f"policy: expected a name, got {type(policy).__name__}")
        both = sorted(set(options or {}) & set(more))
        if both:
            raise ValueError(f"options: expected {both[0]} once, got it twice")
        values = {**(options or {}), **more}
        if preset is not None:
            values["preset"] = preset
        super().__init__(policy, option_texts(values), whole_number("features", features, 1),
                         whole_number("users", users, 1), whole_number("seed", seed),
                         whole_number("threads", threads), whole_number("block", block),
                         user_features, str(device))

    @classmethod
    def load(cls: Type[Self], path: Union[str, "os.PathLike[str]"],
             threads: Optional[int] = None, device: str = "cpu") -> Self:
        """Loads a bandit that `save` wrote. It continues exactly as the saved one would have."""
        name = path_text("path", path)
        count = 0 if threads is None else whole_number("threads", threads, 1)
        with open(name, "rb"):  # raises Python's own FileNotFoundError, PermissionError, ...
            pass
        bandit = cls.__new__(cls)
        _core.Bandit.__init__(bandit, path=name, threads=count, device=str(device))
        return bandit

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Saves the whole state to a file. If this fails, the old file stays unchanged."""
        super().save(path_text("path", path))

    def copy(self: Self) -> Self:
        """Returns another bandit with the same state."""
        return _restored(type(self), self.to_bytes(), dict(self.__dict__), self.device)

    def __copy__(self: Self) -> Self:
        return self.copy()

    def __deepcopy__(self: Self, memo: Any) -> Self:
        return _restored(type(self), self.to_bytes(), copy.deepcopy(self.__dict__, memo),
                         self.device)

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.to_bytes(), dict(self.__dict__))

    def choose(self, user: Any, arms: Arms, *, context: Optional[Mapping[str, Any]] = None,
               items: Optionally = None, offsets: Optionally = None,
               round: Optionally = None) -> Any:
        """Returns the index of the chosen arm, or its id if `arms` is a dict; for a batch of
        rounds, an array of indices."""
        if type(user) is str or context is not None or _has_names(arms):
            index = super().choose(self._known(user), self._numbers(arms, context), items=items,
                                   offsets=offsets, round=round)
            return list(arms)[index] if isinstance(arms, Mapping) else index
        return super().choose(user, arms, items=items, offsets=offsets, round=round)

    def predict(self, user: Any, arms: Arms, *, context: Optional[Mapping[str, Any]] = None,
                items: Optionally = None, offsets: Optionally = None, round: Optionally = None,
                exploit: bool = False) -> Any:
        """Returns the arm that `choose` would return now, without recording a decision. With
        exploit=True, the arm with the highest expected reward."""
        index = super().predict(self._known(user), self._numbers(arms, context), items=items,
                                offsets=offsets, round=round, exploit=exploit)
        return list(arms)[index] if isinstance(arms, Mapping) else index

    def scores(self, user: Any, arms: Arms, *, context: Optional[Mapping[str, Any]] = None,
               items: Optionally = None, offsets: Optionally = None,
               round: Optionally = None) -> npt.NDArray[np.void]:
        """Returns the scores of all arms: a structured array with the fields value, estimate, one
        field for each part of the score, cluster_size and considered. With scan=sampled
        cluster_size is an estimate: cluster_found members were met among cluster_visited learners.
        After choose with the same user and arms they explain that decision; otherwise, or with a
        round, they are those of a decision that is still to come."""
        return super().scores(self._known(user), self._numbers(arms, context), items=items,
                              offsets=offsets, round=round)

    def predict_expectations(self, user: Any, arms: Arms, *,
                             context: Optional[Mapping[str, Any]] = None,
                             items: Optionally = None, offsets: Optionally = None,
                             round: Optionally = None) -> npt.NDArray[np.float64]:
        """Returns the expected reward of every arm."""
        return super().predict_expectations(self._known(user), self._numbers(arms, context),
                                            items=items, offsets=offsets, round=round)

    def cluster(self, user: Any, arm: Any, *, context: Optional[Mapping[str, Any]] = None,
                item: Optionally = None, offset: Optionally = None) -> Any:
        """Returns the users whom the policy now takes to agree with this user about this arm; None
        for policies that do not cluster. For a batch of arms, a list."""
        return super().cluster(self._known(user), self._one(arm, context), item=item, offset=offset)

    def learn(self, user: Any, arm: Any, reward: npt.ArrayLike, *,
              context: Optional[Mapping[str, Any]] = None, item: Optionally = None,
              offset: Optionally = None, round: Optionally = None,
              index: Optionally = None) -> None:
        """Learns the reward of an arm of the last decision, or of an earlier round if round and
        index are given."""
        if type(user) is str or context is not None or isinstance(arm, Mapping):
            user, arm = self._known(user), self._one(arm, context)
        super().learn(user, arm, reward, item=item, offset=offset, round=round, index=index)

    def start(self, user: Any, arm: Any, reward: npt.ArrayLike, *,
              context: Optional[Mapping[str, Any]] = None, offset: Optionally = None) -> None:
        """Learns one sample that is known about a user before the first round."""
        super().start(self._known(user), self._one(arm, context), reward, offset=offset)

    def add_users(self, count: int) -> None:
        """Adds users. Their numbers follow those of the present users."""
        super().add_users(count)

    def forget(self, user: Union[int, str]) -> bool:
        """Resets a user. Returns False if the policy cannot tell users apart."""
        return super().forget(self._known(user))

    def reset(self) -> None:
        """Resets the bandit to its state before it learned anything. Names stay known."""
        super().reset()

    def parameters(self, who: Union[int, str]) -> Any:
        """Returns the weights [W_1, ..., W_L] of a network: views for "meta", copies for a user.
        With two layers, f(x) = relu(x @ W_1) @ W_2."""
        return super().parameters(who)  # type: ignore[arg-type]

    def set_parameters(self, who: Union[int, str], values: Sequence[npt.ArrayLike]) -> None:
        """Replaces the weights of "meta" or of a user."""
        super().set_parameters(who, values)  # type: ignore[arg-type]

    def decide(self, arm: int) -> None:
        """Says that the last decision was for this arm, whatever `choose` returned."""
        super().decide(arm)

    def to_bytes(self) -> bytes:
        """Returns the whole state, as `save` writes it."""
        return super().to_bytes()

    def partial_fit(self: Self, users: Any, arms: Any = None, rewards: Optionally = None, *,
                    passes: int = 1, weighted: bool = False, most_weight: float = 10.0,
                    **more: Any) -> Self:
        """Learns from the rewards of arms, one after the other, as `learn` does, or from a log:
        partial_fit(log). Returns self.

        passes       how often a log is learned
        weighted     learn each reward of a log as often as its importance weight says, as if all
                     actions had been equally likely; cut at `most_weight`
        """
        if arms is None and rewards is None:
            self._learn_log(users, passes, weighted, most_weight)
        else:
            self.learn(users, arms, rewards, **more)  # type: ignore[arg-type]
        return self

    def fit(self: Self, users: Any, arms: Any = None, rewards: Optionally = None,
            **more: Any) -> Self:
        """Calls `reset`, then `partial_fit`. If an argument is refused, nothing changes."""
        trial = self.copy()  # the copy finds wrong arguments
        trial._begin_anew()
        trial.partial_fit(users, arms, rewards, **more)
        self._begin_anew()
        return self.partial_fit(users, arms, rewards, **more)

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        """Returns the arguments that make such a bandit, as in scikit-learn:
        mcnb.Bandit(**bandit.get_params())."""
        return {"policy": self.policy, "features": self.features, "users": self.users,
                "seed": self.seed, "threads": self.threads, "block": self.block,
                "device": self.device, "options": dict(self.options)}

    def _learn_log(self, log: Union["Log", str, "os.PathLike[str]"], passes: int, weighted: bool,
                   most_weight: float) -> None:
        from .logs import Log, open as open_log

        source = log if isinstance(log, Log) else open_log(log)
        if not most_weight > 0:
            raise ValueError(f"most_weight: expected a number above 0, got {most_weight}")
        self.learn_log(source._core, whole_number("passes", passes, 1), bool(weighted),
                       float(most_weight))

    def _known(self, user: Any) -> Any:
        """The numbers of users who have names; anything else as it is."""
        if type(user) is str:
            return self.user_number(user)
        if isinstance(user, (list, tuple)) and user and type(user[0]) is str:
            return [self.user_number(one) for one in user]
        if isinstance(user, np.ndarray) and user.dtype.kind in "OU":
            return [self.user_number(str(one)) for one in user.ravel()]
        return user

    def _numbers(self, arms: Any, context: Optional[Mapping[str, Any]]) -> Any:
        """Arms with named features as numbers; arrays as they are."""
        if not _has_names(arms):
            if context is not None:
                raise TypeError("context: expected arms with named features beside it")
            return arms
        features = list(arms.values()) if isinstance(arms, Mapping) else arms
        return _core.hash_features([_json(one) for one in features],
                                   "" if context is None else _json(context), self.features)

    def _one(self, arm: Any, context: Optional[Mapping[str, Any]]) -> Any:
        if isinstance(arm, Mapping) or context is not None:
            return self._numbers([arm], context)[0]
        return arm

    def _begin_anew(self) -> None:
        count = self.users
        self.reset()
        if count > self.users:  # users who were added later stay known
            self.add_users(count - self.users)

    def __repr__(self) -> str:
        if not _core.is_made(self):  # __init__ has failed, so properties cannot be read
            return "<Bandit that was never made>"
        return (f"Bandit({self.policy!r}, features={self.features}, users={self.users}, "
                f"seed={self.seed})")


def _has_names(arms: Any) -> bool:
    """True for a dict of arms, and for a list with features that are dicts."""
    return isinstance(arms, Mapping) or (
        isinstance(arms, (list, tuple)) and any(isinstance(one, Mapping) for one in arms))


def _json(features: Any) -> str:
    """Features as JSON; an action without features has none."""
    if features is None:
        return "{}"
    try:
        return json.dumps(features, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"features: expected what JSON can hold: {error}") from None


def _restored(cls: Type[Self], state: bytes, attributes: Mapping[str, Any],
              device: str = "cpu") -> Self:
    bandit = cls.__new__(cls)
    _core.Bandit.__init__(bandit, state=state, device=device)
    bandit.__dict__.update(attributes)
    return bandit
