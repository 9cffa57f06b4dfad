"""A policy that chooses and learns, one call at a time."""

from __future__ import annotations

import copy
import os
from typing import Any, Mapping, Optional, Type, TypeVar, Union

import numpy.typing as npt

from . import _core
from .options import option_texts, path_text, whole_number

Self = TypeVar("Self", bound="Bandit")


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
    Contiguous arrays of float32 are not copied. Calls from several threads run one after the
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

    def partial_fit(self: Self, users: npt.ArrayLike, arms: npt.ArrayLike, rewards: npt.ArrayLike,
                    **more: Any) -> Self:
        """Learns from the rewards of arms, one after the other, as `learn` does. Returns self."""
        self.learn(users, arms, rewards, **more)
        return self

    def fit(self: Self, users: npt.ArrayLike, arms: npt.ArrayLike, rewards: npt.ArrayLike,
            **more: Any) -> Self:
        """Calls `reset`, then `partial_fit`. If an argument is refused, nothing changes."""
        trial = self.copy()  # the copy finds wrong arguments
        trial._begin_anew()
        trial.learn(users, arms, rewards, **more)
        self._begin_anew()
        return self.partial_fit(users, arms, rewards, **more)

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


def _restored(cls: Type[Self], state: bytes, attributes: Mapping[str, Any],
              device: str = "cpu") -> Self:
    bandit = cls.__new__(cls)
    _core.Bandit.__init__(bandit, state=state, device=device)
    bandit.__dict__.update(attributes)
    return bandit
