"""The environments of the engine: the synthetic world, the data sets of the paper, your own files.

>>> world = mcnb.environments.synthetic(users=50, seed=7)
>>> for round in world:
...     arm = bandit.choose(round.user, round.arms)
...     bandit.learn(round.user, round.arms[arm], round.rewards[arm])

Every name of `names()` is a function of this module, with "_" for "-" and "+":
`movielens_small(...)`, `mnist_notmnist(...)`. Data sets are looked for as the program does
(docs/DATA.md): in the folder `data`, else in MCNB_DATA, else in the user's data folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Type, Union

import numpy as np
import numpy.typing as npt

from . import _core
from .environment import Environment
from .options import option_texts, path_text, whole_number
from .rounds import Round, user_of

_OF_PACKAGES = "/usr/share/datasets"


def names() -> List[str]:
    """Returns the names of all environments."""
    return list(_core.environments())


def describe(name: str) -> Dict[str, Any]:
    """Returns the description of an environment and its options."""
    known = _core.environments()
    if name not in known:
        raise ValueError(f"environment: expected one of {', '.join(known)}, got {name!r}")
    return known[name]


class NamedEnvironment:
    """An environment of the engine: a world for every seed. Its data is read once.

    Iterating yields the rounds of the world of `seed`; calling it with a seed returns that world.
    """

    def __init__(self, name: str, *, seed: int = 1,
                 data: Union[None, str, "os.PathLike[str]"] = None, **options: Any) -> None:
        self.seed = whole_number("seed", seed)
        self._data = None if data is None else path_text("data", data)
        self._given = options
        self.core = _core.NamedEnvironment(name, option_texts(options), _data_folders(self._data),
                                           _user_folder("XDG_CACHE_HOME", ".cache"))

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def options(self) -> Dict[str, str]:
        """Returns all options with their values, including defaults."""
        return self.core.options

    def __call__(self, seed: int) -> "World":
        return World(_core.World(self.core, whole_number("seed", seed)))

    def __iter__(self) -> Iterator[Round]:
        return iter(self(self.seed))

    def __reduce__(self) -> Any:
        """A pickle holds only the name and the options; unpickling reads the data again."""
        return _remade, (type(self), self.name, self.seed, self._data, self._given)

    def __repr__(self) -> str:
        return f"<environment {self.name}, seed {self.seed}>"


def _remade(cls: Type[NamedEnvironment], name: str, seed: int, data: Optional[str],
            options: Dict[str, Any]) -> NamedEnvironment:
    return cls(name, seed=seed, data=data, **options)


class World(Environment):
    """One world of a named environment: rounds that know their rewards."""

    def __init__(self, core: _core.World) -> None:
        self._core = core
        self.users = core.users
        self.features = core.features
        self.block = core.block
        self.user_features = core.user_features
        self.description = core.description

    def next_round(self) -> Round:
        id, users, arms, items, offsets, rewards, expected = self._core.next_round()
        self._round = Round(user_of(users), arms, rewards, expected, items, offsets, id)
        return self._round

    def reward(self, arm: int) -> float:
        return float(self._last().rewards[arm])  # type: ignore[index]

    def expected_reward(self, arm: int) -> float:
        return float(self._last().expected[arm])  # type: ignore[index]

    def start_data(self) -> List[Any]:
        """Returns (user, features, reward) of every datum; blocks also have their offset."""
        return [(user, values, reward, offset) if len(values) < self.features
                else (user, values, reward)
                for user, values, offset, reward in self._core.start_data()]

    def true_cluster(self, arm: int) -> Optional[npt.NDArray[np.int64]]:
        """Returns the users who truly agree about an arm of the last round; None if unknown."""
        return self._core.true_cluster(arm)

    def _last(self) -> Round:
        if not hasattr(self, "_round"):
            raise ValueError("arm: expected one of the last round; next_round comes first")
        return self._round


def make(name: str, *, seed: int = 1, data: Union[None, str, "os.PathLike[str]"] = None,
         **options: Any) -> NamedEnvironment:
    """Makes an environment from its name and options (see `describe(name)`)."""
    return NamedEnvironment(name, seed=seed, data=data, **options)


def synthetic(*, seed: int = 1, **options: Any) -> NamedEnvironment:
    """Users in true groups with known reward functions; needs no data."""
    return NamedEnvironment("synthetic", seed=seed, **options)


def __getattr__(name: str) -> Callable[..., NamedEnvironment]:
    for known in _core.environments():
        if known.replace("-", "_").replace("+", "_") == name:
            def environment(**options: Any) -> NamedEnvironment:
                return NamedEnvironment(known, **options)
            environment.__name__ = name
            environment.__doc__ = _core.environments()[known]["help"]
            return environment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted(list(globals()) + [n.replace("-", "_").replace("+", "_") for n in names()])


def _user_folder(variable: str, below_home: str) -> str:
    given = os.environ.get(variable, "")
    if os.path.isabs(given):
        return str(Path(given) / "mcnb")
    home = os.environ.get("HOME", "")
    return str(Path(home) / below_home / "mcnb") if home else ""


def _data_folders(data: Optional[str]) -> List[str]:
    given = os.environ.get("MCNB_DATA", "") if data is None else data
    folder = given or _user_folder("XDG_DATA_HOME", ".local/share")
    return ([folder] if folder else []) + [_OF_PACKAGES]
