"""Rounds: the arms that a policy chooses from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

MOST_ARMS = 10_000
LARGEST_REWARD = 1e6


@dataclass(frozen=True, eq=False)
class Round:
    """One round: the user, the arms and, if they are known, their rewards.

    user      the user of all arms, or an array with the user of each
    arms      their features, of shape (arms, features)
    rewards   the reward of each arm, as a policy sees it; None if not all are known
    expected  rewards without noise, from which regret is computed; None: the rewards
    items     the item of each arm, if items have an identity
    offsets   offset of each arm's features, if they are blocks of a longer vector
    id        addresses the random draws of the decision
    """

    user: Union[int, npt.NDArray[np.int64]]
    arms: npt.NDArray[np.float32]
    rewards: Optional[npt.NDArray[np.float64]] = None
    expected: Optional[npt.NDArray[np.float64]] = None
    items: Optional[npt.NDArray[np.int64]] = None
    offsets: Optional[npt.NDArray[np.int64]] = None
    id: int = 0

    @property
    def users(self) -> npt.NDArray[np.int64]:
        """Returns the user of every arm."""
        return np.broadcast_to(np.asarray(self.user, np.int64), (len(self.arms),))


def user_of(users: npt.NDArray[np.int64]) -> Union[int, npt.NDArray[np.int64]]:
    """Returns one number if all arms have the same user, otherwise the array."""
    return int(users[0]) if (users == users[0]).all() else users


def whole_numbers(name: str, values: Any, shape: Tuple[int, ...], most: int
                  ) -> npt.NDArray[np.int64]:
    """Reads whole numbers from 0 to `most`: one per element of the shape, or one for all."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected whole numbers, got {array.dtype.name}")
    if array.shape not in ((), shape):
        raise ValueError(f"{name}: expected a whole number or shape {shape}, "
                         f"got shape {array.shape}")
    wrong = array[(array < 0) | (array > most)]
    if wrong.size:
        raise ValueError(f"{name}: expected 0 to {most}, got {wrong[0]}")
    return np.require(np.broadcast_to(array, shape), np.int64, ["C", "A"])


def real_numbers(name: str, values: Any, shape: Tuple[Optional[int], ...], dtype: Any) -> Any:
    """Reads finite numbers of the shape; None in the shape allows any length from 1."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: expected real numbers, got {array.dtype.name}")
    fits = len(array.shape) == len(shape) and all(
        length > 0 if wanted is None else length == wanted
        for length, wanted in zip(array.shape, shape))
    if not fits:
        text = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name}: expected shape ({text}), got shape {array.shape}")
    with np.errstate(all="ignore"):  # too large numbers become infinite, and are refused
        array = np.require(array, dtype, ["C", "A"])
    if not np.isfinite(array).all():
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}: expected finite numbers, "
                         f"got {array[position]} at {list(position)}")
    return array


def reward_numbers(name: str, values: Any, shape: Tuple[int, ...]) -> Any:
    array = real_numbers(name, values, shape, np.float64)
    if array.size and np.abs(array).max() > LARGEST_REWARD:
        raise ValueError(f"{name}: expected numbers from {-LARGEST_REWARD} to {LARGEST_REWARD}")
    return array
