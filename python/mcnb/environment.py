"""Environments: where rounds and rewards come from."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from .options import whole_number
from .rounds import LARGEST_REWARD, MOST_ARMS, Round, real_numbers, reward_numbers, whole_numbers

StartDatum = Union[Tuple[int, npt.ArrayLike, float], Tuple[int, npt.ArrayLike, float, int]]


class Environment:
    """The base of environments of your own. An object is one world, made for one seed.

    Set `users` and `features` (in the class or in `__init__(self, seed)`), and write `next_round`,
    which returns a `Round`, or just (user, arms, rewards). If not all rewards are known at once,
    leave them out and write `reward(arm)` and, for exact regret, `expected_reward(arm)`, about the
    arms of the last round; each is called at most once per arm and round. `next_round` raises
    StopIteration when the data ends.

    If arms are blocks of a longer, otherwise zero vector, `features` is the length of that vector
    and `block` the length of the blocks. Rounds then have `offsets`, multiples of `block`.

    `true_cluster(arm)` is optional. It returns the users who truly agree with the arm's user about
    an arm of the last round, or None if they are not known.

    Pass the class itself to `mcnb.run`, or any function that makes an object from a seed.
    """

    users: int
    features: int
    block: int = 0
    user_features: Optional[npt.NDArray[np.float32]] = None

    def next_round(self) -> Union[Round, Tuple[Any, ...]]:
        raise NotImplementedError(f"{type(self).__name__} has no next_round")

    def reward(self, arm: int) -> float:
        """Returns the reward of an arm of the last round, if the round did not contain rewards."""
        raise NotImplementedError(f"{type(self).__name__}: expected rewards in the round, or a "
                                  "method reward(arm)")

    def expected_reward(self, arm: int) -> float:
        """Returns the expected reward of an arm of the last round: `reward` without noise."""
        return self.reward(arm)

    def start_data(self) -> Iterable[StartDatum]:
        """Returns the samples known before the first round: (user, features, reward), or (user,
        features, reward, offset) if the features are a block."""
        return ()

    def start(self, bandit: Any) -> None:
        """Gives a bandit the start data, as `mcnb.run` does before the first round."""
        for user, features, reward, *offset in self.start_data():
            if offset:
                bandit.start(user, features, reward, offset=offset[0])
            else:
                bandit.start(user, features, reward)

    def __iter__(self) -> Iterator[Round]:
        """Yields all rounds from here on."""
        while True:
            try:
                yield _as_round(self.next_round())
            except StopIteration:
                return

    # The engine's runner calls the methods below.

    def _about(self) -> Dict[str, Any]:
        users = whole_number("users", getattr(self, "users", None), 1)
        features = whole_number("features", getattr(self, "features", None), 1)
        known = self.user_features
        if known is not None:
            known = real_numbers("user_features", known, (users, None), np.float32)
        block = whole_number("block", self.block)
        if block and features % block:
            raise ValueError(f"block: expected a divisor of features, which is {features}, "
                             f"got {block}")
        self._users, self._features, self._block = users, features, block
        return {
            "users": users,
            "features": features,
            "block": block,
            "knows_clusters": hasattr(self, "true_cluster"),
            "user_features": known,
            "start_data": [self._start_datum(datum) for datum in self.start_data()],
        }

    def _start_datum(self, datum: Any) -> Tuple[int, Any, float, int]:
        if not 3 <= len(datum) <= 4:
            raise ValueError("start_data: expected (user, features, reward) or (user, features, "
                             f"reward, offset), got {len(datum)} values")
        user, features, reward, *offset = datum
        values = real_numbers("start_data, features", features, (self._length(bool(offset)),),
                              np.float32)
        begin = self._offsets("start_data, offset", offset[0], (), len(values)) if offset else 0
        return (int(whole_numbers("start_data, user", user, (), self._users - 1)), values,
                float(reward_numbers("start_data, reward", reward, ())), int(begin))

    def _length(self, blocks: bool) -> Optional[int]:
        """Returns the required length of an arm's features; None if any length is allowed."""
        return (self._block or None) if blocks else self._features

    def _offsets(self, name: str, values: Any, shape: Tuple[int, ...], width: int) -> Any:
        if width > self._features:
            raise ValueError(f"{name}: expected blocks of at most {self._features} features, "
                             f"got {width}")
        offsets = whole_numbers(name, values, shape, self._features - width)
        if self._block and (offsets % self._block).any():
            raise ValueError(f"{name}: expected multiples of block, which is {self._block}, "
                             f"got {offsets.tolist()}")
        return offsets

    def _next_round(self) -> Tuple[Any, ...]:
        try:
            made = _as_round(self.next_round())
        except StopIteration:
            raise ValueError(f"{type(self).__name__}: the rounds have come to an end; expected "
                             "more, as fewer were asked for by rounds=") from None
        self._rewards_told: Dict[int, float] = {}
        self._expected_told: Dict[int, float] = {}
        length = self._length(made.offsets is not None)
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
            offsets = self._offsets("offsets", offsets, (count,), width)
        rewards, expected = made.rewards, made.expected
        if rewards is not None:
            rewards = reward_numbers("rewards", rewards, (count,))
        if expected is not None:
            expected = reward_numbers("expected", expected, (count,))
        elif rewards is not None and type(self).expected_reward is Environment.expected_reward:
            expected = rewards
        return users, arms, items, offsets, rewards, expected

    def _reward(self, arm: int) -> float:
        if arm not in self._rewards_told:
            self._rewards_told[arm] = _one_reward(f"{type(self).__name__}.reward",
                                                  self.reward(arm))
        return self._rewards_told[arm]

    def _expected_reward(self, arm: int) -> float:
        if type(self).expected_reward is Environment.expected_reward:
            return self._reward(arm)
        if arm not in self._expected_told:
            self._expected_told[arm] = _one_reward(f"{type(self).__name__}.expected_reward",
                                                   self.expected_reward(arm))
        return self._expected_told[arm]

    def _true_cluster(self, arm: int) -> Any:
        told = self.true_cluster(arm)  # type: ignore[attr-defined]
        if told is None:
            return []  # the runner then counts nothing
        found = np.unique(np.asarray(told))
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
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}") from None
    if not abs(number) <= LARGEST_REWARD:
        raise ValueError(f"{name}: expected a number from {-LARGEST_REWARD} to {LARGEST_REWARD}, "
                         f"got {number}")
    return number
