#!/usr/bin/env python3
"""Compares policies in the synthetic world: users in two groups that see items differently.

Prints a table, and draws the regret of every policy (the lower the better).
"""

import argparse

import mcnb


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--picture", default="compare.png")
    options = arguments.parse_args()

    world = mcnb.environments.synthetic(users=200, clusters=2)
    result = mcnb.run(
        world,
        {
            "M-CNB": "mcnb",
            "CLUB": "club",
            "LinUCB, one for each user": "linucb:users=each:alpha=0.3",
            "NeuUCB, one for all": "neuucb-one:alpha=0.01",
            "random": "random",
        },
        rounds=options.rounds,
        seeds=options.seeds,
    )
    print(result)
    axes = mcnb.plot.regret(result, title="200 users in two groups")
    axes.figure.savefig(options.picture, dpi=100)
    print("picture:", options.picture)


if __name__ == "__main__":
    main()
