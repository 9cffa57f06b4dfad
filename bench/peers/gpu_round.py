"""PyTorch peer on a GPU: one whole round of M-CNB (decide and learn) as CUDA graphs.

The round of round.py: clusters of all K arms over all users, one meta-gradient step for each arm
with one draw from each member's history, scores with the norm of the gradient difference, then
Theta moves to the adapted one of the picked arm and every member of its cluster takes a step. All
users' networks are distinct.

The shapes of all tensors are fixed, so that a decision is one CUDA graph and learning another: the
members of a cluster fill the front of rows of `capacity` entries, and the rest stands for a user
that nobody is. Form `graph` is PyTorch's own operators in these graphs; in form `compiled`
torch.compile has fused them, with the sums over features written out so that one kernel reads all
networks once. The choice goes to the host and the reward comes from there, as in mcnb.

All figures are medians. CSV on stdout, messages on stderr.
"""

import argparse
import math
import time

import torch

import common

NU, S, DELTA, EXPLORATION = 5, 1.0, 0.1, 1.0
ETA_USER, ETA_META = 1e-3, 0.05


def hidden(x, weights):
    """Sums over features written out: x [.., d] and weights [.., d, m] -> [.., m]."""
    total = x[..., 0:1] * weights[..., 0, :]
    for i in range(1, x.shape[-1]):
        total = total + x[..., i:i + 1] * weights[..., i, :]
    return total


def near_batched(x, w1, w2, own, gap):
    """Which users agree about which arm, [K, n], by one batched product."""
    h = torch.matmul(x, w1).relu_()
    f = h.mul_(w2.unsqueeze(1)).sum(2)
    return ((f - own).abs_() <= gap).t().contiguous()


def near_written_out(x, w1, w2, own, gap):
    """The same, for torch.compile."""
    rows = []
    for k in range(x.shape[0]):
        f = (hidden(x[k], w1).relu() * w2).sum(1)
        rows.append((f - own[k]).abs() <= gap)
    return torch.stack(rows)


def members_of(near, capacity):
    """Members [K, capacity], filled up with n, and their numbers [K]."""
    arms, n = near.shape
    rank = near.cumsum(1)
    slot = torch.where(near & (rank <= capacity), rank - 1, capacity)
    everyone = torch.arange(n, device=near.device).expand(arms, n)
    members = torch.full((arms, capacity + 1), n, dtype=torch.long, device=near.device)
    members.scatter_(1, slot, everyone)
    return members[:, :capacity].contiguous(), rank[:, -1]


def adapted(x, t1, t2, xs, rs, weights):
    """W1'x and w2' of all arms from their draws: xs [K, c, d], weights -eta / count or 0."""
    z = torch.matmul(xs, t1)
    h = z.relu()
    e = (torch.matmul(h, t2) - rs) * weights
    last = t2 + torch.bmm(e.unsqueeze(1), h).squeeze(1)
    e = e * torch.bmm(xs, x.unsqueeze(2)).squeeze(2)
    first = torch.matmul(x, t1) + t2 * torch.bmm(e.unsqueeze(1), (z > 0).to(z.dtype)).squeeze(1)
    return first, last


def scores(x, z, v, s1, s2, mu):
    """Upper bounds of all arms."""
    h = z.relu()
    b = v * (z > 0)
    z0 = torch.matmul(x, s1)
    b0 = (z0 > 0) * s2
    norm = ((b - b0).square().sum(1) * x.square().sum(1)
            + (h - z0.relu()).square().sum(1)).sqrt()
    rest = torch.sqrt((S + 1) / (2 * mu)) + torch.sqrt(2 * math.log(1 / DELTA) / mu)
    return (h * v).sum(1) + EXPLORATION * (norm / z.shape[1] ** 0.25 + rest)


def trained(x, reward, w1, w2):
    """One step of networks w1 [c, d, m], w2 [c, m] at (x, reward)."""
    z = hidden(x, w1)
    h = z.relu()
    e = ((h * w2).sum(1, keepdim=True) - reward) * -ETA_USER
    signal = w2 * (z > 0) * e
    return w1 + x.view(1, -1, 1) * signal.unsqueeze(1), w2 + h * e


class Bandit:
    """The whole state of M-CNB for n users; row n of every table is the user that nobody is."""

    def __init__(self, options, n, form, device):
        self.n, self.d, self.m, self.arms = n, options.features, options.width, options.arms
        self.capacity = min(n, math.ceil(2.5 * options.share * n) + 8)
        self.device = device
        d, m, numbers = self.d, self.m, {"device": device}
        self.s1 = torch.randn(d, m, **numbers) * (2 / m) ** 0.5
        self.s2 = torch.randn(m, **numbers) * (1 / m) ** 0.5
        self.t1, self.t2 = self.s1.clone(), self.s2.clone()
        self.w1 = torch.empty(n + 1, d, m, **numbers).normal_(0, (2 / m) ** 0.5)
        self.w2 = torch.empty(n + 1, m, **numbers).normal_(0, (1 / m) ** 0.5)
        room = options.history + options.rounds + 100
        events = n * options.history
        self.event_x = torch.zeros(events + room, d, **numbers)
        self.event_x[:events] = unit(events, d, device=device)
        self.event_r = (torch.rand(events + room, **numbers) < 0.5).float()
        self.events = torch.full((1,), events, dtype=torch.long, **numbers)
        self.history = torch.zeros(n + 1, room, dtype=torch.int32, **numbers)
        self.history[:n, :options.history] = torch.arange(
            events, dtype=torch.int32, **numbers).view(n, -1)
        self.length = torch.full((n + 1,), options.history, **numbers)
        self.mu = self.length.float()
        # What the host sends and receives.
        self.user = torch.zeros(1, dtype=torch.long, **numbers)
        self.x = unit(self.arms, d, device=device)
        self.reward = torch.zeros(1, **numbers)
        self.arm = torch.zeros(1, dtype=torch.long, **numbers)
        self.counts = torch.zeros(self.arms, dtype=torch.long, **numbers)
        self.gap = self.choose_gap(options.share)
        fuse = form == "compiled"
        wrap = (lambda f: torch.compile(f, dynamic=False)) if fuse else (lambda f: f)
        self.near = wrap(near_written_out if fuse else near_batched)
        self.members_of = wrap(members_of)
        self.adapted = wrap(adapted)
        self.scores = wrap(scores)
        self.learn_members = wrap(self._learn_members)

    def values(self, x, users):
        """f of some users at all arms, [K, users]."""
        return torch.einsum("ukm,um->ku", torch.matmul(x, self.w1[users]).relu(), self.w2[users])

    def choose_gap(self, share):
        """The gap for which a cluster holds about this share of all users on average."""
        some = torch.randint(self.n, (min(self.n, 2000),), device=self.device)
        f = torch.cat([self.values(unit(self.arms, self.d, device=self.device), some)
                       for _ in range(4)])
        apart = (f[:, :100].unsqueeze(2) - f.unsqueeze(1)).abs().view(-1)
        return float(apart[torch.randint(len(apart), (100000,), device=self.device)]
                     .quantile(share))

    def decide(self):
        """From self.user and self.x to self.arm; keeps what learning needs."""
        own1 = self.w1.index_select(0, self.user)[0]
        own2 = self.w2.index_select(0, self.user)[0]
        own = torch.mv(torch.mm(self.x, own1).relu(), own2)
        near = self.near(self.x, self.w1[:self.n], self.w2[:self.n], own, self.gap)
        self.members, counts = self.members_of(near, self.capacity)
        self.counts.copy_(counts)
        which = (torch.rand(self.members.shape, device=self.device)
                 * self.length[self.members]).long()
        self.draws = self.history[self.members, which].long()
        inside = torch.arange(self.capacity, device=self.device) < counts.unsqueeze(1)
        self.weights = inside * (-ETA_META / counts.clamp(min=1).unsqueeze(1))
        self.xs = self.event_x[self.draws]
        self.rs = self.event_r[self.draws]
        self.z, self.v = self.adapted(self.x, self.t1, self.t2, self.xs, self.rs, self.weights)
        self.bounds = self.scores(self.x, self.z, self.v, self.s1, self.s2,
                                  self.mu.index_select(0, self.user))
        self.arm.copy_(self.bounds.argmax().view(1))

    def _learn_members(self, x, reward, members, w1, w2):
        """In place."""
        first, last = trained(x, reward, w1[members], w2[members])
        w1[members] = first
        w2[members] = last

    def learn(self):
        """From self.reward of self.arm: Theta, members, histories."""
        x = self.x.index_select(0, self.arm)[0]
        members = self.members.index_select(0, self.arm)[0]
        xs = self.xs.index_select(0, self.arm)[0]
        z = torch.mm(xs, self.t1)
        h = z.relu()
        e = ((torch.mv(h, self.t2) - self.rs.index_select(0, self.arm)[0])
             * self.weights.index_select(0, self.arm)[0])
        step2 = torch.mv(h.t(), e)
        self.t1.add_(torch.mm((xs * e.unsqueeze(1)).t(), (z > 0) * self.t2))
        self.t2.add_(step2)
        self.learn_members(x, self.reward, members, self.w1, self.w2)
        self.event_x.index_copy_(0, self.events, x.unsqueeze(0))
        self.event_r.index_copy_(0, self.events, self.reward)
        length = self.length[members]
        self.history[members, length] = self.events.int()
        self.length[members] = length + 1
        self.mu[members] = self.mu[members] + 1
        self.events.add_(1)


def unit(*shape, device):
    """Random vectors of length 1."""
    x = torch.randn(*shape, device=device)
    return x / x.norm(dim=-1, keepdim=True)


def gradient_step(w1, w2, xs, rs, eta):
    """The reference: one gradient step on the mean loss by automatic differentiation."""
    with torch.enable_grad():
        a = w1.double().clone().requires_grad_()
        b = w2.double().clone().requires_grad_()
        loss = ((torch.relu(xs.double() @ a) @ b - rs.double()) ** 2 / 2).mean()
        ga, gb = torch.autograd.grad(loss, [a, b])
    return w1 - eta * ga, w2 - eta * gb


def close(a, b, what):
    """Stops when two results differ."""
    if not torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4):
        raise SystemExit(f"{what} disagrees with the reference")


def check(bandit):
    """Compares every part of a round with a plain computation."""
    x = bandit.x
    bandit.user.fill_(3)
    t1, t2 = bandit.t1.clone(), bandit.t2.clone()
    bandit.decide()
    f = torch.einsum("nkm,nm->kn", torch.matmul(x.double(), bandit.w1[:bandit.n].double()).relu(),
                     bandit.w2[:bandit.n].double())
    apart = (f - f[:, 3:4]).abs()
    for k in range(bandit.arms):
        count = int(bandit.counts[k])
        found = torch.zeros(bandit.n, dtype=torch.bool, device=x.device)
        found[bandit.members[k, :count]] = True
        sure = (apart[k] - bandit.gap).abs() > 1e-5
        if not torch.equal(found[sure], (apart[k] <= bandit.gap)[sure]):
            raise SystemExit("cluster disagrees with the reference")
        w1, w2 = gradient_step(t1, t2, bandit.xs[k, :count], bandit.rs[k, :count], ETA_META)
        close(bandit.z[k], x[k].double() @ w1, "adaptation")
        close(bandit.v[k], w2, "adaptation")
    arm = int(bandit.arm)
    count = int(bandit.counts[arm])
    members = bandit.members[arm, :count]
    before = bandit.w1.clone(), bandit.w2.clone()
    bandit.reward.fill_(1.0)
    bandit.learn()
    w1, w2 = gradient_step(t1, t2, bandit.xs[arm, :count], bandit.rs[arm, :count], ETA_META)
    close(bandit.t1, w1, "Theta")
    close(bandit.t2, w2, "Theta")
    one = torch.ones(1, device=x.device)
    for user in members[::max(1, count // 5)].tolist():
        w1, w2 = gradient_step(before[0][user], before[1][user], x[arm:arm + 1], one, ETA_USER)
        close(bandit.w1[user], w1, "user training")
        close(bandit.w2[user], w2, "user training")
    outside = torch.ones(bandit.n, dtype=torch.bool, device=x.device)
    outside[members] = False
    if not torch.equal(bandit.w1[:bandit.n][outside], before[0][:bandit.n][outside]):
        raise SystemExit("users outside the cluster have learned")


def graph_of(work):
    """A CUDA graph of some work, after a warm-up of its own."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def median(values):
    """The middle value."""
    return sorted(values)[len(values) // 2]


def case(options, n, form):
    """Measures one number of users in one form."""
    torch.manual_seed(3)
    check(Bandit(options, min(n, 2000), form, "cuda"))
    bandit = Bandit(options, n, form, "cuda")
    bandit.decide()
    bandit.learn()
    decide, learn = graph_of(bandit.decide), graph_of(bandit.learn)
    own = torch.zeros(options.arms, device="cuda")
    scan = graph_of(lambda: bandit.near(bandit.x, bandit.w1[:n], bandit.w2[:n], own, bandit.gap))
    users = torch.randint(n, (options.rounds,)).pin_memory()
    xs = unit(options.rounds, options.arms, options.features, device="cpu").pin_memory()
    rewards = (torch.rand(options.rounds) < 0.5).float().pin_memory()
    times, scans, sizes = [], [], []
    for t in range(options.rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        bandit.user.copy_(users[t:t + 1], non_blocking=True)
        bandit.x.copy_(xs[t], non_blocking=True)
        decide.replay()
        arm = int(bandit.arm)
        bandit.reward.copy_(rewards[t:t + 1], non_blocking=True)
        learn.replay()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        counts = bandit.counts.tolist()
        if max(counts) > bandit.capacity:
            raise SystemExit("a cluster is larger than its room")
        sizes.append(counts[arm])
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        scan.replay()
        end.record()
        torch.cuda.synchronize()
        scans.append(begin.elapsed_time(end) / 1e3)
    size = round(sum(sizes) / len(sizes))
    common.say(f"users {n}, {form}: {len(times)} rounds, {median(times) * 1e3:.3f} ms, "
               f"scan {median(scans) * 1e3:.3f} ms, clusters of {size}")
    common.row(form, n, size, median(scans), median(times))


def main():
    """Reads the arguments and runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=common.integers, default=[500, 20000, 1000000])
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--history", type=int, default=5, help="events of each user at first")
    parser.add_argument("--share", type=float, default=0.1, help="of all users in a cluster")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--forms", default="graph,compiled")
    parser.add_argument("--check-only", action="store_true", help="on the CPU, form graph")
    options = parser.parse_args()
    print("form,users,cluster_size,scan_seconds,round_seconds", flush=True)
    with torch.no_grad():
        if options.check_only:
            check(Bandit(options, options.users[0], "graph", "cpu"))
            return
        torch.backends.cuda.matmul.allow_tf32 = False
        for n in options.users:
            for form in options.forms.split(","):
                try:
                    case(options, n, form)
                except (RuntimeError, SystemExit) as error:
                    common.say(f"users {n}, {form}: {error}")
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
