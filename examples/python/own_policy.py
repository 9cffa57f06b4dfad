#!/usr/bin/env python3
"""A policy of your own beside those of the engine, in the same rounds, and the picture."""

import argparse

import numpy as np

import mcnb


class LinearThompson(mcnb.Policy):
    """Thompson sampling with a linear model for every user."""

    def __init__(self, setup):
        self.chance = np.random.default_rng(setup.seed)
        self.covariance = np.tile(np.eye(setup.features), (setup.users, 1, 1))
        self.sums = np.zeros((setup.users, setup.features))

    def choose(self, user, arms):
        mean = self.covariance[user] @ self.sums[user]
        drawn = self.chance.multivariate_normal(mean, 0.04 * self.covariance[user])
        return int(np.argmax(arms @ drawn))

    def learn(self, user, arm, reward):
        along = self.covariance[user] @ arm
        self.covariance[user] -= np.outer(along, along) / (1 + arm @ along)
        self.sums[user] += reward * arm


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--picture", default="own_policy.png")
    options = arguments.parse_args()

    policies = ["mcnb", "linucb:users=each:alpha=0.3", LinearThompson, "random"]
    world = mcnb.environments.synthetic(users=200, clusters=2)
    result = mcnb.run(world, policies, options.rounds, options.seeds)
    print(result)
    axes = mcnb.plot.regret(result, title="a policy of your own: LinearThompson")
    axes.figure.savefig(options.picture, dpi=80)
    print("picture:", options.picture)


if __name__ == "__main__":
    main()
