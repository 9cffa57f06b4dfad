"""What a call from Python costs beside the same call in C++: python3 -m mcnb.bench"""

from __future__ import annotations

import argparse
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from .bandit import Bandit

LIMIT_FACTOR = 2.0
LIMIT_MORE = 5e-6  # seconds


def trained_bandit(policy: str, users: int, features: int, arms: int, rounds: int) -> Bandit:
    """Makes a bandit that has played some rounds."""
    chance = np.random.default_rng(1)
    bandit = Bandit(policy, features=features, users=users, seed=1)
    for _ in range(rounds):
        user = int(chance.integers(users))
        offered = unit_rows(chance, arms, features)
        chosen = bandit.choose(user, offered)
        bandit.learn(user, offered[chosen], float(offered[chosen][user % features] > 0))
    return bandit


def unit_rows(chance: np.random.Generator, rows: int, columns: int) -> Any:
    made = chance.normal(size=(rows, columns))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def per_call(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def median(values: List[float]) -> float:
    return float(np.median(values))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--users", type=int, default=50)
    options.add_argument("--features", type=int, default=10)
    options.add_argument("--arms", type=int, default=10)
    options.add_argument("--policies", default="mcnb,linucb,random")
    options.add_argument("--calls", type=int, default=2000, help="of each measurement")
    options.add_argument("--repeats", type=int, default=7, help="measurements; medians are shown")
    given = options.parse_args(arguments)

    print(f"choose, {given.users} users, {given.arms} arms of {given.features} numbers; "
          "microseconds a call")
    print(f"{'policy':12} {'C++':>9} {'float32':>9} {'float64':>9} {'list':>9} {'limit':>9}")
    over = False
    for policy in given.policies.split(","):
        bandit = trained_bandit(policy, given.users, given.features, given.arms, 200)
        single = unit_rows(np.random.default_rng(2), given.arms, given.features)
        forms = {"float32": single, "float64": single.astype(float), "list": single.tolist()}
        answers = {bandit.predict(0, form) for form in forms.values()}
        if len(answers) != 1:
            raise AssertionError(f"{policy}: the forms of the same arms get different answers")
        inside: List[float] = []
        outside: Dict[str, List[float]] = {name: [] for name in forms}
        for _ in range(given.repeats):
            inside.append(bandit.time_choose(0, single, given.calls))
            for name, form in forms.items():
                outside[name].append(per_call(lambda: bandit.choose(0, form), given.calls))
        limit = LIMIT_FACTOR * median(inside) + LIMIT_MORE
        times = [median(inside), *(median(outside[name]) for name in forms), limit]
        print(f"{policy:12} " + " ".join(f"{1e6 * seconds:9.2f}" for seconds in times))
        over = over or median(outside["float32"]) > limit
    print("limit: twice the time of C++ and 5 microseconds, for float32: "
          + ("exceeded" if over else "kept"))
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
