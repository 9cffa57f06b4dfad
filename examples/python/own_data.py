#!/usr/bin/env python3
"""Your own data, in two ways.

A file of ratings becomes an environment by itself. Anything else becomes one in a few lines: a
class that says whose turn it is, what can be offered, and what each arm would have paid.
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

import mcnb


def write_ratings(path, users=60, items=80):
    """A file as a shop might have it: two tastes, five stars."""
    chance = np.random.default_rng(1)
    taste = chance.normal(size=(2, 4))
    looks = chance.normal(size=(items, 4))
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["user", "item", "rating"])
        for user in range(users):
            for item in chance.choice(items, items // 2, replace=False):
                liked = looks[item] @ taste[user % 2] + chance.normal() / 2 > 0
                rows.writerow([f"user-{user}", f"item-{item}", 5 if liked else 2])


class Wine(mcnb.Environment):
    """Arrays that you have already: guests, bottles, and who liked what."""

    def __init__(self, seed):
        chance = np.random.default_rng(seed)
        self.chance = chance
        self.users, self.features = 30, 6
        self.bottles = chance.normal(size=(100, 6))
        self.bottles /= np.linalg.norm(self.bottles, axis=1, keepdims=True)
        palate = chance.normal(size=(3, 6))
        self.liking = 1 / (1 + np.exp(-3 * self.bottles @ palate.T))  # by bottle and kind of guest

    def next_round(self):
        guest = int(self.chance.integers(self.users))
        offered = self.chance.choice(len(self.bottles), 8, replace=False)
        expected = self.liking[offered, guest % 3]
        rewards = self.chance.random(8) < expected
        return mcnb.Round(guest, self.bottles[offered], rewards, expected, items=offered)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("ratings", nargs="?", help="a CSV with user, item and rating")
    arguments.add_argument("--rounds", type=int, default=2000)
    arguments.add_argument("--seeds", type=int, default=3)
    options = arguments.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = options.ratings or Path(folder) / "ratings.csv"
        if not options.ratings:
            write_ratings(path)
        world = mcnb.environments.ratings(file=str(path), users=10)
        print("ratings from a file")
        print(mcnb.run(world, ["mcnb", "linucb", "random"], options.rounds, options.seeds))

    print("\narrays")
    print(mcnb.run(Wine, ["mcnb", "linucb:users=each", "random"], options.rounds, options.seeds))


if __name__ == "__main__":
    main()
