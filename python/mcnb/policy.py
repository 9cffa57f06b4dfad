"""Policies of your own, which play beside those of the engine."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from .rounds import Round, user_of, whole_numbers


@dataclass(frozen=True)
class Setup:
    """What a policy is given when it is made: the environment's sizes and the seed of the run."""

    features: int
    users: int
    seed: int
    user_features: Optional[npt.NDArray[np.float32]] = None
    block: int = 0


class Policy:
    """The base of policies of your own. `mcnb.run` makes one for every seed: `MyPolicy(setup)`.

    Write `choose` and `learn`. While they run, `self.round` is the current round with
    its users, items, offsets and id, but without its rewards. While `learn`, `start` and
    `cluster` run, `self.arm_offset` is the offset of the arm's features, which matters if they are
    a block of a longer vector.
    """

    memory_bytes: int = 0  # for the table of results
    round: Optional[Round] = None
    arm_offset: int = 0

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def choose(self, user: Union[int, npt.NDArray[np.int64]], arms: npt.NDArray[np.float32]) -> int:
        """Returns the index of the chosen arm. `user` is an array if arms have different users."""
        raise NotImplementedError(f"{type(self).__name__} has no choose")

    def learn(self, user: int, arm: npt.NDArray[np.float32], reward: float) -> None:
        """Learns the reward of the chosen arm; `arm` holds its features."""

    def start(self, user: int, arm: npt.NDArray[np.float32], reward: float) -> None:
        """Learns a sample known before the first round. Calls `learn` unless overridden."""
        self.learn(user, arm, reward)

    def cluster(self, user: int, arm: npt.NDArray[np.float32]) -> Optional[npt.ArrayLike]:
        """Returns the users who agree with this one about the arm, or None if the policy does not
        know. `mcnb.run` counts only the rounds with an answer."""
        return None

    # The engine's runner calls the methods below.

    def _start(self, user: int, arm: Any, offset: int, reward: float) -> None:
        self.round = None
        self.arm_offset = offset
        self.start(user, arm, reward)

    def _choose(self, id: int, users: Any, arms: Any, items: Any, offsets: Any) -> int:
        user = user_of(users)
        self.round = Round(user, arms, items=items, offsets=offsets, id=id)
        chosen = self.choose(user, arms)
        try:
            index = operator.index(chosen)
        except TypeError:
            raise TypeError(f"{type(self).__name__}.choose: expected the index of an arm, "
                            f"got {type(chosen).__name__}") from None
        if not 0 <= index < len(arms):
            raise ValueError(f"{type(self).__name__}.choose: expected 0 to {len(arms) - 1}, "
                             f"got {index}")
        return index

    def _learn(self, id: int, index: int, user: int, arm: Any, item: Any, offset: int,
               reward: float) -> None:
        self.arm_offset = offset
        self.learn(user, arm, reward)

    def _cluster(self, user: int, arm: Any, offset: int) -> Any:
        self.arm_offset = offset
        found = self.cluster(user, arm)
        if found is None:
            return None
        users = np.unique(np.asarray(found))
        if users.size == 0:
            raise ValueError(f"{type(self).__name__}.cluster: expected at least the user, got "
                             "nobody")
        most = self._users - 1
        return whole_numbers(f"{type(self).__name__}.cluster", users, users.shape, most).tolist()

    _users: int = 2**32 - 1
