"""Environments: where rounds and rewards come from."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from .options import whole_number
from .rounds import LARGEST_REWARD, MOST_ARMS, Round, real_numbers, reward_numbers, whole_numbers

StartDatum = Tuple[int, npt.ArrayLike, float]


class Environment:
    """The base of environments of your own. An object is one world, made for one seed.

    Set `users` and `features` (in the class or in `__init__(self, seed)`), and write `next_round`,
    which returns a `Round`, or just (user, arms, rewards). Where not all rewards are known at once,
    leave them out and write `reward(arm)` and, for exact regret, `expected_reward(arm)`, about the
    arms of the last round. `next_round` raises StopIteration when the data ends.

    The class itself (or any function of a seed that makes one) is what `mcnb.run` takes.
    """

    users: int
    features: int
    block: int = 0
    user_features: Optional[npt.NDArray[np.float32]] = None

    def next_round(self) -> Union[Round, Tuple[Any, ...]]:
        raise NotImplementedError(f"{type(self).__name__} has no next_round")

    def reward(self, arm: int) -> float:
        """What the arm of the last round pays, where the round did not say it."""
        raise NotImplementedError(f"{type(self).__name__}: expected rewards in the round, or a "
                                  "method reward(arm)")

    def expected_reward(self, arm: int) -> float:
        """The same without noise."""
        return self.reward(arm)

    def start_data(self) -> Iterable[StartDatum]:
        """Samples (user, features, reward) known before the first round."""
        return ()

    def __iter__(self) -> Iterator[Round]:
        """All rounds from here on."""
        while True:
            try:
                yield _as_round(self.next_round())
            except StopIteration:
                return

    # What the runner of the engine calls.

    def _about(self) -> Dict[str, Any]:
        users = whole_number("users", getattr(self, "users", None), 1)
        features = whole_number("features", getattr(self, "features", None), 1)
        known = self.user_features
        if known is not None:
            known = real_numbers("user_features", known, (users, None), np.float32)
        start = list(self.start_data())
        for datum in start:
            if len(datum) != 3:
                raise ValueError("start_data: expected (user, features, reward), "
                                 f"got {len(datum)} values")
        ids = [datum[0] for datum in start]
        arms = [real_numbers("start_data, features", datum[1], (features,), np.float32)
                for datum in start]
        rewards = [datum[2] for datum in start]
        shape = (len(start),)
        self._users, self._features = users, features
        return {
            "users": users,
            "features": features,
            "block": whole_number("block", self.block),
            "knows_clusters": hasattr(self, "true_cluster"),
            "user_features": known,
            "start_users": whole_numbers("start_data, user", np.array(ids, np.int64), shape,
                                         users - 1),
            "start_arms": np.array(arms, np.float32).reshape(len(start), features),
            "start_rewards": reward_numbers("start_data, reward", np.array(rewards, np.float64),
                                            shape).astype(np.float32),
        }

    def _next_round(self) -> Tuple[Any, ...]:
        try:
            made = _as_round(self.next_round())
        except StopIteration:
            raise ValueError(f"{type(self).__name__}: the rounds have come to an end; expected "
                             "more, as fewer were asked for by rounds=") from None
        length = self._features if made.offsets is None else None
        arms = real_numbers("arms", made.arms, (None, length), np.float32)
        count, width = arms.shape
        if count > MOST_ARMS:
            raise ValueError(f"arms: expected at most {MOST_ARMS}, got {count}")
        users = whole_numbers("user", made.user, (count,), self._users - 1)
        items = made.items
        if items is not None:
            items = whole_numbers("items", items, (count,), 2**32 - 2)
        offsets = made.offsets
        if offsets is not None:
            offsets = whole_numbers("offsets", offsets, (count,), self._features - width)
        rewards, expected = made.rewards, made.expected
        if rewards is not None:
            rewards = reward_numbers("rewards", rewards, (count,))
        if expected is not None:
            expected = reward_numbers("expected", expected, (count,))
        elif rewards is not None and type(self).expected_reward is Environment.expected_reward:
            expected = rewards
        return users, arms, items, offsets, rewards, expected

    def _reward(self, arm: int) -> float:
        return _one_reward(f"{type(self).__name__}.reward", self.reward(arm))

    def _expected_reward(self, arm: int) -> float:
        return _one_reward(f"{type(self).__name__}.expected_reward", self.expected_reward(arm))

    def _true_cluster(self, arm: int) -> Any:
        found = np.unique(np.asarray(self.true_cluster(arm)))  # type: ignore[attr-defined]
        if found.size == 0:
            raise ValueError("true_cluster: expected at least the arm's own user, got nobody")
        return whole_numbers("true_cluster", found, found.shape, self._users - 1).tolist()


def _as_round(made: Union[Round, Tuple[Any, ...]]) -> Round:
    if isinstance(made, Round):
        return made
    if isinstance(made, tuple) and 2 <= len(made) <= 4:
        return Round(*made)
    raise TypeError("next_round: expected a Round or (user, arms, rewards), "
                    f"got {type(made).__name__}")


def _one_reward(name: str, value: Any) -> float:
    number = float(value)
    if not abs(number) <= LARGEST_REWARD:
        raise ValueError(f"{name}: expected a number from {-LARGEST_REWARD} to {LARGEST_REWARD}, "
                         f"got {number}")
    return number
