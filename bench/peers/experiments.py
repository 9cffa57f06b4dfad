"""PyTorch peer: M-CNB with the preset `experiments`, written as people write it today.

One nn.Module for each user and one for the meta-learner, training sample by sample with
torch.optim.Adam in a Python loop, a copy of Theta adapted for each arm in each decision (the
draws of a step as one batch, by automatic differentiation). Plain, not tuned; correct.

Trainings come every 10 rounds until round 1000 and every 100 rounds afterwards: 190 within
10,000 rounds. The time of a training depends on its steps alone: at most 500 for the served
user and 1,000 for Theta, fewer only where an epoch's loss is small enough. Histories are
filled before the start (--training-history; the default is what 1,000 rounds leave), and
the mean steps taken are reported on stderr: much earlier trainings of a user can stop sooner,
later ones need all steps. Two threads are no faster than one on tensors this small, hence
the default of one.
CSV on stdout, messages on stderr.
"""

import argparse
import copy
import math
import random
import time

import torch
from torch import nn

import common

USERS, CLUSTERS, ARMS, FEATURES, WIDTH = 50, 5, 10, 10, 100
NU, GAMMA, S, DELTA, EXPLORATION = 5, 0.4, 1.0, 0.1, 1.0
META_STEPS, META_SAMPLES, ETA_META, ETA_USER = 5, 20, 0.01, 0.05
USER_LIMIT, META_LIMIT, RATE, LOSS_ENOUGH = 500, 1000, 1e-3, 1e-3
HORIZON = 10000


class Network(nn.Module):
    """f(x) = w2 . relu(W1 x), no biases."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH, bias=False)
        self.last = nn.Linear(WIDTH, 1, bias=False)
        nn.init.normal_(self.first.weight, std=math.sqrt(2 / WIDTH))
        nn.init.normal_(self.last.weight, std=math.sqrt(1 / WIDTH))

    def forward(self, x):
        return self.last(torch.relu(self.first(x))).squeeze(-1)


class Environment:
    """50 users in 5 clusters; the chance of reward 1 is (1 + cos(3 a.x)) / 2."""

    def __init__(self):
        self.directions = self.unit(CLUSTERS)

    @staticmethod
    def unit(count):
        x = torch.randn(count, FEATURES)
        return x / x.norm(dim=1, keepdim=True)

    def arms(self):
        return self.unit(ARMS)

    def reward(self, user, x):
        direction = self.directions[user % CLUSTERS]
        chance = (1 + math.cos(3 * float(direction @ x))) / 2
        return float(random.random() < chance)


class MetaBandit:
    """M-CNB: clusters relative to an arm, meta adaptation, optimistic choice."""

    def __init__(self):
        self.theta = Network()
        self.theta_start = copy.deepcopy(self.theta)
        self.users = [copy.deepcopy(self.theta) for _ in range(USERS)]
        self.count = [0] * USERS
        self.history = [[] for _ in range(USERS)]

    def observe(self, user, x, reward):
        """Adds an event to the user's history."""
        self.history[user].append((x, torch.tensor(reward)))
        self.count[user] += 1

    def start(self, user, x, reward):
        """The first datum of a user: one step of the user's learner."""
        self.observe(user, x, reward)
        net = self.users[user]
        loss = (net(x) - reward) ** 2 / 2
        grads = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(net.parameters(), grads):
                parameter.sub_(grad, alpha=ETA_USER)

    def clusters(self, user, x):
        """The members of every arm's cluster."""
        with torch.no_grad():
            f = torch.stack([net(x) for net in self.users])
            near = (f - f[user]).abs() <= GAMMA * (NU - 1) / NU
        return [near[:, k].nonzero().view(-1).tolist() for k in range(len(x))]

    def adapt(self, members):
        """A copy of Theta after a few steps on draws from the members' histories."""
        adapted = copy.deepcopy(self.theta)
        able = [v for v in members if self.history[v]]
        if not able:
            return adapted
        optimiser = torch.optim.SGD(adapted.parameters(), lr=ETA_META)
        for _ in range(META_STEPS):
            chosen = random.sample(able, min(META_SAMPLES, len(able)))
            events = [random.choice(self.history[v]) for v in chosen]
            xs = torch.stack([event[0] for event in events])
            rs = torch.stack([event[1] for event in events])
            optimiser.zero_grad(set_to_none=True)
            loss = ((adapted(xs) - rs) ** 2).mean() / 2
            loss.backward()
            optimiser.step()
        return adapted

    def score(self, user, x, adapted):
        """Estimate plus exploration with the norm of the gradient difference."""
        f = adapted(x)
        gradient = torch.autograd.grad(f, list(adapted.parameters()))
        start = torch.autograd.grad(self.theta_start(x), list(self.theta_start.parameters()))
        with torch.no_grad():
            norm = math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(gradient, start)))
        mu = max(1, self.count[user])
        return float(f.detach()) + EXPLORATION * (
            norm / WIDTH ** 0.25 + math.sqrt((S + 1) / (2 * mu))
            + math.sqrt(2 * math.log(1 / DELTA) / mu))

    def decide(self, user, x):
        """The arm with the largest score."""
        scores = [self.score(user, point, self.adapt(members))
                  for point, members in zip(x, self.clusters(user, x))]
        return max(range(len(scores)), key=scores.__getitem__)

    def train(self, user):
        """Replay training of the served user's learner and of Theta; returns the steps."""
        steps = replay(self.users[user], self.history[user], USER_LIMIT)
        everything = [event for history in self.history for event in history]
        return steps, replay(self.theta, everything, META_LIMIT)


def replay(net, events, limit):
    """Single-sample Adam steps over shuffled epochs; fresh optimiser state."""
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
    steps = 0
    while steps < limit:
        total = 0.0
        seen = 0
        for x, r in random.sample(events, len(events)):
            optimiser.zero_grad(set_to_none=True)
            loss = (net(x) - r) ** 2 / 2
            loss.backward()
            optimiser.step()
            total += loss.item()
            seen += 1
            steps += 1
            if steps == limit:
                break
        if total / seen <= LOSS_ENOUGH:
            break
    return steps


def trainings(horizon):
    """How many trainings the schedule has until the horizon."""
    return sum(1 for t in range(1, horizon + 1) if t % (10 if t <= 1000 else 100) == 0)


def check(bandit, environment):
    """Compares predictions and one adaptation with the formulas written out."""
    x = environment.arms()
    with torch.no_grad():
        net = bandit.users[3]
        plain = torch.relu(x @ net.first.weight.t()) @ net.last.weight[0]
        assert torch.allclose(net(x), plain, atol=1e-5)
        before = [p.clone() for p in bandit.theta.parameters()]
    bandit.adapt(range(USERS))
    for old, new in zip(before, bandit.theta.parameters()):
        assert torch.equal(old, new.detach()), "the adaptation must not touch Theta"
    assert trainings(HORIZON) == 190


def main():
    """Plays rounds and extrapolates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--training-history", type=int, default=1000,
                        help="events (over all users) before the first measured round")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    common.set_threads(options.threads)
    common.banner(options.threads)
    torch.manual_seed(4)
    random.seed(4)
    environment = Environment()
    bandit = MetaBandit()
    for user in range(USERS):
        x = environment.unit(1)[0]
        bandit.start(user, x, environment.reward(user, x))
    for i in range(max(0, options.training_history - USERS)):
        x = environment.unit(1)[0]
        bandit.observe(i % USERS, x, environment.reward(i % USERS, x))
    check(bandit, environment)
    print("rounds_measured,decision_seconds_per_round,training_seconds_each,"
          "extrapolated_seconds_T10000", flush=True)
    bandit.decide(0, environment.arms())  # warm-up
    decision = training = 0.0
    trained = []
    for t in range(1, options.rounds + 1):
        user = random.randrange(USERS)
        x = environment.arms()
        start = time.perf_counter()
        arm = bandit.decide(user, x)
        decision += time.perf_counter() - start
        bandit.observe(user, x[arm], environment.reward(user, x[arm]))
        if t % (10 if t <= 1000 else 100) == 0:
            start = time.perf_counter()
            trained.append(bandit.train(user))
            training += time.perf_counter() - start
    each = decision / options.rounds
    per_training = training / max(1, len(trained))
    if trained:
        users, metas = (sum(part) / len(trained) for part in zip(*trained))
        common.say(f"{len(trained)} trainings, mean steps: user {users:.0f}, Theta {metas:.0f}")
    common.row(options.rounds, each, per_training,
               HORIZON * each + trainings(HORIZON) * per_training)


if __name__ == "__main__":
    main()
