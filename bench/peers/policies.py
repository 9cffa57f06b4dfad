"""NumPy and PyTorch peers of single policies, written as people write them today.

CLUB twice: a plain script (loops over arms and neighbours, Sherman-Morrison inverses, a search
through the graph where edges were cut), and the same with every loop over users and arms turned
into array operations. NeuUCB-ONE with the diagonal and with the whole Z, each as a plain script
(automatic differentiation arm by arm, torch.optim.Adam sample by sample), and the whole Z also
with all arms in one product and gradients by hand.

The world: unit vectors, users in five groups, rewards (1 + a.x) / 2 with normal noise.
Rounds are timed without the world. Trainings of the neural ones come as in mcnb (190 in 10,000
rounds, at most 1,500 steps each); decisions and trainings are timed apart and put together for
10,000 rounds. CSV on stdout, messages on stderr.
"""

import argparse
import math
import random
import time

import numpy as np
import torch

import common
from experiments import Network, replay, trainings

FEATURES, ARMS, GROUPS, HORIZON = 10, 10, 5, 10000
LAMBDA, ALPHA, ALPHA_2 = 1.0, 0.1, 0.2
STEPS = 1500


class World:
    """Rounds and rewards."""

    def __init__(self, users):
        self.users = users
        self.random = np.random.default_rng(4)
        self.directions = self.unit(GROUPS)

    def unit(self, count):
        x = self.random.normal(size=(count, FEATURES))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def round(self):
        return int(self.random.integers(self.users)), self.unit(ARMS)

    def reward(self, user, x):
        expected = (1 + float(self.directions[user % GROUPS] @ x)) / 2
        return min(1.0, max(0.0, expected + 0.1 * self.random.normal()))


def width_of(count):
    """F(T) of CLUB."""
    return math.sqrt((1 + math.log(1 + count)) / (1 + count))


class Club:
    """CLUB with plain loops."""

    def __init__(self, users):
        self.users = users
        self.inverse = [np.eye(FEATURES) / LAMBDA for _ in range(users)]
        self.matrix = [LAMBDA * np.eye(FEATURES) for _ in range(users)]
        self.sums = [np.zeros(FEATURES) for _ in range(users)]
        self.weights = [np.zeros(FEATURES) for _ in range(users)]
        self.counts = [0] * users
        self.neighbours = [set(range(users)) - {u} for u in range(users)]
        self.cluster_of = [0] * users
        self.members = {0: set(range(users))}
        self.clusters = {0: [LAMBDA * np.eye(FEATURES), np.eye(FEATURES) / LAMBDA,
                             np.zeros(FEATURES)]}
        self.time = 0

    def decide(self, user, x):
        return int(np.argmax(self.scores(user, x)))

    def scores(self, user, x):
        _, inverse, sums = self.clusters[self.cluster_of[user]]
        weights = inverse @ sums
        scores = []
        for point in x:
            bonus = math.sqrt(point @ inverse @ point * math.log(2 + self.time))
            scores.append(point @ weights + ALPHA * bonus)
        return scores

    def learn(self, user, x, reward):
        self.time += 1
        for matrix, inverse, sums in ((self.matrix[user], self.inverse[user], self.sums[user]),
                                      self.clusters[self.cluster_of[user]]):
            moved = inverse @ x
            inverse -= np.outer(moved, moved) / (1 + x @ moved)
            matrix += np.outer(x, x)
            sums += reward * x
        self.weights[user] = self.inverse[user] @ self.sums[user]
        self.counts[user] += 1
        cut = []
        for other in self.neighbours[user]:
            distance = np.linalg.norm(self.weights[user] - self.weights[other])
            if distance > ALPHA_2 * (width_of(self.counts[user]) + width_of(self.counts[other])):
                cut.append(other)
        for other in cut:
            self.neighbours[user].discard(other)
            self.neighbours[other].discard(user)
        if cut:
            self.split(user)

    def split(self, user):
        """Finds the component of the user; what is left of its cluster becomes others."""
        old = self.cluster_of[user]
        left = self.members.pop(old)
        del self.clusters[old]
        while left:
            first = min(left)
            found, waiting = {first}, [first]
            while waiting:
                for other in self.neighbours[waiting.pop()] - found:
                    found.add(other)
                    waiting.append(other)
            left -= found
            matrix = LAMBDA * np.eye(FEATURES)
            sums = np.zeros(FEATURES)
            for member in found:
                matrix += self.matrix[member] - LAMBDA * np.eye(FEATURES)
                sums += self.sums[member]
                self.cluster_of[member] = first
            self.members[first] = found
            self.clusters[first] = [matrix, np.linalg.inv(matrix), sums]


class ClubInArrays(Club):
    """CLUB with array operations in place of the loops over arms and neighbours."""

    def __init__(self, users):
        super().__init__(users)
        self.weights = np.zeros((users, FEATURES))
        self.widths = np.full(users, width_of(0))
        self.edges = ~np.eye(users, dtype=bool)

    def scores(self, user, x):
        _, inverse, sums = self.clusters[self.cluster_of[user]]
        bonus = np.sqrt(np.einsum("ki,ij,kj->k", x, inverse, x) * math.log(2 + self.time))
        return x @ (inverse @ sums) + ALPHA * bonus

    def learn(self, user, x, reward):
        self.time += 1
        for matrix, inverse, sums in ((self.matrix[user], self.inverse[user], self.sums[user]),
                                      self.clusters[self.cluster_of[user]]):
            moved = inverse @ x
            inverse -= np.outer(moved, moved) / (1 + x @ moved)
            matrix += np.outer(x, x)
            sums += reward * x
        self.weights[user] = self.inverse[user] @ self.sums[user]
        self.counts[user] += 1
        self.widths[user] = width_of(self.counts[user])
        distance = np.linalg.norm(self.weights - self.weights[user], axis=1)
        far = self.edges[user] & (distance > ALPHA_2 * (self.widths + self.widths[user]))
        if far.any():
            self.edges[user, far] = False
            self.edges[far, user] = False
            for other in np.flatnonzero(far):
                self.neighbours[user].discard(int(other))
                self.neighbours[int(other)].discard(user)
            self.split(user)


class NeuUcb:
    """NeuUCB-ONE; `whole`: the inverse of Z, followed by rank-one updates, else its diagonal."""

    def __init__(self, whole):
        self.net = Network()
        self.whole = whole
        count = sum(p.numel() for p in self.net.parameters())
        self.z = torch.eye(count) / LAMBDA if whole else torch.full((count,), LAMBDA)
        self.history = []

    def gradient(self, x):
        value = self.net(x)
        parts = torch.autograd.grad(value, list(self.net.parameters()))
        return float(value.detach()), torch.cat([part.reshape(-1) for part in parts])

    def decide(self, user, x):
        scores = self.scores(x)
        return max(range(len(scores)), key=scores.__getitem__)

    def scores(self, x):
        scores = []
        for point in torch.as_tensor(x, dtype=torch.float32):
            value, g = self.gradient(point)
            square = float(g @ (self.z @ g)) if self.whole else float((g * g / self.z).sum())
            scores.append(value + ALPHA * math.sqrt(square))
        return scores

    def learn(self, user, x, reward):
        point = torch.as_tensor(x, dtype=torch.float32)
        _, g = self.gradient(point)
        if self.whole:
            moved = self.z @ g
            self.z -= torch.outer(moved, moved) / (1 + g @ moved)
        else:
            self.z += g * g
        self.history.append((point, torch.tensor(reward)))

    def train(self):
        """Single-sample Adam steps over shuffled epochs; fresh optimiser state."""
        return replay(self.net, self.history, STEPS)


class NeuUcbTogether(NeuUcb):
    """The whole Z, all arms in one product, gradients by hand."""

    def gradients(self, x):
        with torch.no_grad():
            hidden = torch.relu(x @ self.net.first.weight.t())
            signals = (hidden > 0) * self.net.last.weight[0]
            first = (signals.unsqueeze(2) * x.unsqueeze(1)).reshape(len(x), -1)
            return hidden @ self.net.last.weight[0], torch.cat([first, hidden], 1)

    def scores(self, x):
        values, g = self.gradients(torch.as_tensor(x, dtype=torch.float32))
        squares = ((g @ self.z) * g).sum(1)
        return (values + ALPHA * squares.sqrt()).tolist()

    def gradient(self, x):
        values, g = self.gradients(x.unsqueeze(0))
        return float(values[0]), g[0]


def check():
    """The two forms of each policy agree."""
    world = World(6)
    plain, arrays = Club(6), ClubInArrays(6)
    for _ in range(300):
        user, x = world.round()
        arm = plain.decide(user, x)
        assert np.allclose(plain.scores(user, x), arrays.scores(user, x))
        reward = world.reward(user, x[arm])
        plain.learn(user, x[arm], reward)
        arrays.learn(user, x[arm], reward)
    assert plain.cluster_of == arrays.cluster_of
    torch.manual_seed(4)
    one = NeuUcb(True)
    together = NeuUcbTogether(True)
    together.net = one.net
    for _ in range(5):
        user, x = world.round()
        arm = one.decide(user, x)
        assert np.allclose(one.scores(x), together.scores(x), atol=1e-5)
        one.learn(user, x[arm], 1.0)
        together.learn(user, x[arm], 1.0)
    assert torch.allclose(one.z, together.z, atol=1e-5)


def measure(name, users, policy, seconds):
    """Plays rounds for about so many seconds and prints a row."""
    world = World(users)
    neural = hasattr(policy, "train")
    for i in range(1000 if neural else 0):  # what is trained on
        policy.history.append((torch.as_tensor(world.unit(1)[0], dtype=torch.float32),
                               torch.tensor(float(i % 2))))
    deciding = training = 0.0
    rounds = trained = 0
    while deciding < seconds and rounds < HORIZON:
        user, x = world.round()
        start = time.perf_counter()
        arm = policy.decide(user, x)
        deciding += time.perf_counter() - start
        reward = world.reward(user, x[arm])
        start = time.perf_counter()
        policy.learn(user, x[arm], reward)
        deciding += time.perf_counter() - start
        rounds += 1
    while neural and (training < seconds or trained < 2):
        start = time.perf_counter()
        policy.train()
        training += time.perf_counter() - start
        trained += 1
    total = HORIZON * deciding / rounds
    if trained:
        total += trainings(HORIZON) * training / trained
    common.row(name, users, rounds, total)


def main():
    """Times all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for every measurement")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--users", type=int, default=50)
    options = parser.parse_args()
    common.set_threads(options.threads)
    common.banner(options.threads)
    torch.manual_seed(4)
    random.seed(4)
    check()
    print("policy,users,rounds_measured,extrapolated_seconds_T10000", flush=True)
    for name, policy in (("club: plain", Club(options.users)),
                         ("club: arrays", ClubInArrays(options.users)),
                         ("neuucb-one diagonal: plain", NeuUcb(False)),
                         ("neuucb-one full: plain", NeuUcb(True)),
                         ("neuucb-one full: one product", NeuUcbTogether(True))):
        measure(name, options.users, policy, options.seconds)


if __name__ == "__main__":
    main()
