#!/usr/bin/env python3
"""Asks `mcnb serve` for decisions and sends rewards, for simulated users with different tastes.

Start the service (mcnb serve) first. This program needs only Python's standard library.
"""

import argparse
import json
import random
import urllib.request

DISHES = {
    "soup": {"taste": "salty", "warm": True},
    "stew": {"taste": "salty", "warm": True, "heavy": True},
    "salad": {"taste": "salty", "warm": False},
    "cake": {"taste": "sweet", "warm": False, "heavy": True},
    "fruit": {"taste": "sweet", "warm": False},
    "pie": {"taste": "sweet", "warm": True, "heavy": True},
}


def call(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST",
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def likes(user, dish):
    """Users with even numbers like warm salty dishes, the others like cold sweet ones."""
    features = DISHES[dish]
    if user % 2 == 0:
        return features["taste"] == "salty" and features["warm"]
    return features["taste"] == "sweet" and not features["warm"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", default="http://localhost:8080")
    arguments.add_argument("--model", default="default")
    arguments.add_argument("--rounds", type=int, default=1000)
    options = arguments.parse_args()
    model = f"{options.url}/v1/models/{options.model}"
    chance = random.Random(1)
    actions = [{"id": name, "features": features} for name, features in DISHES.items()]

    liked = []
    for i in range(options.rounds):
        user = chance.randrange(10)
        decision = call(f"{model}/rank", {"userId": f"user-{user}", "actions": actions})
        reward = 1 if likes(user, decision["rewardActionId"]) else 0
        call(f"{model}/events/{decision['eventId']}/reward", {"value": reward})
        liked.append(reward)
        if (i + 1) % 100 == 0:
            share = 100 * sum(liked[-100:]) // 100
            print(f"{i + 1} decisions; users liked {share} % of the last hundred", flush=True)


if __name__ == "__main__":
    main()
