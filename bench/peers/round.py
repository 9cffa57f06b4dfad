"""PyTorch peer: one whole round of M-CNB (decide and learn) in batched form.

Preset `algorithm`: clusters of all K arms over all users, one meta-gradient step for each arm
with one draw from each member's history, scores with the norm of the gradient difference,
then Theta moves to the adapted one of the picked arm and every member of its cluster takes a
step. Two-layer networks without biases, all users' networks distinct. Feedback is immediate,
so that learning uses the cluster and the adaptation of the decision again.

Weights lie in chunks [n/c, d, c, m] (see networks.py: the fastest layout there); threads share
the chunks, the arms and the members. Chunk size and threads inside operators (beside that
sharing) are taken from a short trial of each case (form `tiled`). Form `batched` is the same
with all users in one chunk and the threads inside operators: without cutting the work by hand
to fit the caches. For the adaptation the exact form without new weights is used: per arm on its
draws (`draws`), or one forward pass over all distinct events that any arm drew, weighted by how
often (`distinct`); the faster of both is taken for each case.

`meta_seconds` holds draws, adaptation and scores; `training_seconds` holds Theta's move, the
steps of all members and the growth of their histories. All figures are medians.
CSV on stdout, messages on stderr.
"""

import argparse
import math
import time

import torch

import common
from common import predict_users_first

CHUNKS = (50, 100)
NU, S, DELTA, EXPLORATION = 5, 1.0, 0.1, 1.0
ETA_USER, ETA_META = 1e-3, 0.05  # a small user rate keeps the cluster size; cost is the same


@torch.jit.script
def compare(x, w1, w2, own, gap: float, near, width: int, first: int, last: int):
    """Whether |f - own| <= gap for the users of chunks [first, last); near [C,K,c]."""
    z = torch.empty([x.size(0), w1.size(2)])
    zv = z.view(x.size(0), -1, width)
    f = torch.empty([x.size(0), zv.size(1)])
    for i in range(first, last):
        torch.mm(x, w1[i], out=z)
        z.relu_()
        z.mul_(w2[i])
        torch.sum(zv, [2], out=f)
        torch.le(f.sub_(own).abs_(), gap, out=near[i])


@torch.jit.script
def adapt_draws(x, w1, w2, xs, rs, starts, z_out, v_out, eta: float, first: int, last: int):
    """W1'x and w2' for the arms [first, last).

    w1 [d,m] is Theta's first layer transposed; xs, rs are the draws of all arms, those of arm
    k from starts[k] to starts[k+1].
    """
    for k in range(first, last):
        a = int(starts[k])
        b = int(starts[k + 1])
        z0 = torch.mv(w1.t(), x[k])
        if b == a:
            z_out[k] = z0
            v_out[k] = w2
        else:
            events = xs[a:b]
            h = torch.mm(events, w1).relu_()
            e = torch.mv(h, w2).sub_(rs[a:b]).mul_(-eta / (b - a))
            v_out[k] = w2 + torch.mv(h.t(), e)
            e.mul_(torch.mv(events, x[k]))
            z_out[k] = z0 + torch.mv(h.sign_().t(), e).mul_(w2)


@torch.jit.script
def adapt_distinct(x, w1, w2, xs, rs, counts, eta: float):
    """The same for all arms at once from distinct events and counts [K,E]."""
    sizes = counts.sum([1], keepdim=True).clamp_min_(1.0)
    h = torch.mm(xs, w1).relu_()
    e = torch.mv(h, w2).sub_(rs)
    c = counts * e
    c.mul_(-eta / sizes)
    v = torch.mm(c, h).add_(w2)
    c.mul_(torch.mm(x, xs.t()))
    z = torch.mm(c, h.sign_()).mul_(w2).add_(torch.mm(x, w1))
    return z, v


@torch.jit.script
def train(rows, x, r: float, eta: float, w1, w2, width: int, members, size: int,
          first: int, last: int):
    """One step of the given members, `size` of them at a time: gather, step, scatter.

    w1 [rows of m], w2 [n,m]; rows [d, members] are the members' rows of w1.
    """
    d = x.size(0)
    column = x.view(-1, 1)
    line = x.view(1, -1)
    at = first
    while at < last:
        end = min(at + size, last)
        index = rows[:, at:end].reshape(-1)
        who = members[at:end]
        a = w1.index_select(0, index)
        b = w2.index_select(0, who)
        wide = a.view(d, -1)
        z = torch.mm(line, wide).view(-1, width)
        g = torch.ops.aten.threshold_backward(b, z, 0)
        h = z.relu_()
        e = (h * b).sum([1], keepdim=True).sub_(r).mul_(-eta)
        g.mul_(e)
        wide.addmm_(column, g.view(1, -1))
        b.addcmul_(h, e)
        w1[index] = a  # index_put_, twice as fast as index_copy_
        w2[who] = b
        at = end


class Bandit:
    """The whole state of M-CNB for n users."""

    def __init__(self, options, n, rounds, workers, chunk):
        self.n, self.d, self.m, self.arms = n, options.features, options.width, options.arms
        self.workers = workers
        self.form = "draws"
        m, d = self.m, self.d
        self.chunk = min(chunk, n)
        self.chunks = -(-n // self.chunk)
        filled = self.chunks * self.chunk
        # Theta and theta_0, first layer transposed
        self.meta1 = torch.randn(d, m) * (2 / m) ** 0.5
        self.meta2 = torch.randn(m) * (1 / m) ** 0.5
        self.start1, self.start2 = self.meta1.clone(), self.meta2.clone()
        # users: around Theta_0, all different
        shape = (self.chunks, d, self.chunk, m)
        self.users1 = self.start1.view(1, d, 1, m) + 0.3 * (2 / m) ** 0.5 * torch.randn(shape)
        self.users2 = self.start2 + 0.3 * (1 / m) ** 0.5 * torch.randn(filled, m)
        self.out = torch.empty(self.chunks, self.arms, self.chunk)
        self.near = torch.empty(self.out.shape, dtype=torch.bool)
        self.edges = torch.arange(self.arms + 1) * n
        self.mu = torch.ones(n)
        # events: one of each user's own at the start, a few shared ones, room for the rounds
        shared = max(10, n // 100)
        self.events = n + shared
        self.event_x = torch.zeros(self.events + rounds, d)
        self.event_x[:self.events] = unit(self.events, d)
        self.event_r = torch.zeros(self.events + rounds)
        self.event_r[:self.events] = torch.rand(self.events).round()
        known = options.history
        self.history = torch.zeros(n, known + rounds, dtype=torch.int64)
        self.history[:, 0] = torch.arange(n)
        self.history[:, 1:known] = n + torch.randint(shared, (n, known - 1))
        self.length = torch.full((n,), known, dtype=torch.int64)
        self.row_step = (torch.arange(d) * self.chunk).view(d, 1)
        self.gap = 0.0

    def predictions(self, x):
        """f of all users at all arms, [K, n]."""
        w1 = self.users1.view(self.chunks, self.d, -1)
        w2 = self.users2.view(self.chunks, -1)
        parts = self.workers.threads
        self.workers.run(predict_users_first, [(x, w1, w2, self.out, self.m, *s)
                                   for s in common.spread(self.chunks, parts)])
        return self.out.transpose(0, 1).reshape(self.arms, -1)[:, :self.n]

    def clusters(self, user, x):
        """Members of all arms' clusters: (users, starts), arm k from starts[k]."""
        self.workers.run(compare, [(x, self.users1.view(self.chunks, self.d, -1),
                                    self.users2.view(self.chunks, -1), self.own(user, x),
                                    self.gap * (NU - 1) / NU, self.near, self.m, *s)
                                   for s in common.spread(self.chunks, self.workers.threads)])
        near = self.near.transpose(0, 1).reshape(self.arms, -1)[:, :self.n]
        members = near.reshape(-1).nonzero().view(-1)
        starts = torch.searchsorted(members, self.edges)
        return members.remainder_(self.n), starts

    def own(self, user, x):
        """f of one user at all arms, [K, 1]."""
        z = torch.mm(x, self.users1[user // self.chunk, :, user % self.chunk])
        return torch.mv(z.relu_(), self.users2[user]).unsqueeze(1)

    def draw(self, members, starts, limit):
        """One event from the history of each member (of at most `limit` members) per arm."""
        if limit:
            edges = starts.tolist()
            parts = []
            for a, b in zip(edges[:-1], edges[1:]):
                part = members[a:b]
                parts.append(part[torch.randperm(b - a)[:limit]] if b - a > limit else part)
            members = torch.cat(parts)
            starts = torch.tensor([0] + [len(p) for p in parts]).cumsum(0)
        which = (torch.rand(len(members)) * self.length[members]).long()
        flat = members * self.history.shape[1] + which
        return self.history.view(-1).index_select(0, flat), starts

    def adapted(self, x, events, starts, form=None):
        """W1'x [K,m] and w2' [K,m] of all arms."""
        if (form or self.form) == "draws":
            xs = self.event_x.index_select(0, events)
            rs = self.event_r.index_select(0, events)
            z = torch.empty(self.arms, self.m)
            v = torch.empty(self.arms, self.m)
            # shares with about equally many draws would need a search; arms are alike here
            self.workers.run(adapt_draws, [(x, self.meta1, self.meta2, xs, rs, starts, z, v,
                                            ETA_META, *s)
                                           for s in self.arm_shares(len(events))])
            return z, v
        distinct, slot = torch.unique(events, return_inverse=True)
        count = len(distinct)
        arm = torch.repeat_interleave(torch.arange(self.arms), starts[1:] - starts[:-1])
        counts = torch.bincount(arm * count + slot, minlength=self.arms * count)
        return adapt_distinct(x, self.meta1, self.meta2, self.event_x.index_select(0, distinct),
                              self.event_r.index_select(0, distinct),
                              counts.view(self.arms, count).float(), ETA_META)

    def arm_shares(self, draws):
        """Arms over threads where there is enough to do."""
        return common.spread(self.arms, self.workers.threads if draws > 2000 else 1)

    def scores(self, user, x, z, v):
        """Upper bounds of all arms from the adapted factors."""
        h = z.relu()
        b = torch.ops.aten.threshold_backward(v, z, 0)
        z0 = torch.mm(x, self.start1)
        h0 = z0.relu()
        b0 = (z0 > 0) * self.start2
        norm = ((b - b0).square_().sum(1) * x.square().sum(1)
                + (h - h0).square_().sum(1)).sqrt_()
        mu = float(self.mu[user])
        rest = math.sqrt((S + 1) / (2 * mu)) + math.sqrt(2 * math.log(1 / DELTA) / mu)
        return (h * v).sum(1) + EXPLORATION * (norm / self.m ** 0.25 + rest)

    def learn(self, x, reward, members, events):
        """Theta's move with the draws of the picked arm, then a step of every member."""
        xs = self.event_x.index_select(0, events)
        h = torch.mm(xs, self.meta1).relu_()
        e = torch.mv(h, self.meta2).sub_(self.event_r.index_select(0, events))
        e.mul_(-ETA_META / max(1, len(events)))
        step2 = torch.mv(h.t(), e)
        self.meta1.addmm_(xs.mul_(e.unsqueeze(1)).t(), h.sign_().mul_(self.meta2))
        self.meta2.add_(step2)
        self.train_members(x, reward, members)
        self.event_x[self.events] = x
        self.event_r[self.events] = reward
        length = self.length.index_select(0, members)
        flat = members * self.history.shape[1] + length
        self.history.view(-1).index_fill_(0, flat, self.events)
        self.length.index_copy_(0, members, length + 1)
        self.mu.index_add_(0, members, torch.ones(len(members)))
        self.events += 1

    def train_members(self, x, reward, members):
        """One step of every member's network at (x, reward)."""
        c = self.chunk
        base = torch.div(members, c, rounding_mode="floor") * (self.d * c) + members % c
        rows = base.unsqueeze(0) + self.row_step
        parts = self.workers.threads if len(members) > 2 * c else 1
        self.workers.run(train, [(rows, x, reward, ETA_USER, self.users1.view(-1, self.m),
                                  self.users2, self.m, members, c, *s)
                                 for s in common.spread(len(members), parts)])

    def round(self, user, x, limit):
        """A whole round; returns the times of its parts and the clusters' sizes."""
        t0 = time.perf_counter()
        members, starts = self.clusters(user, x)
        t1 = time.perf_counter()
        events, draws = self.draw(members, starts, limit)
        z, v = self.adapted(x, events, draws)
        arm = int(self.scores(user, x, z, v).argmax())
        t2 = time.perf_counter()
        a, b = int(starts[arm]), int(starts[arm + 1])
        c, d = int(draws[arm]), int(draws[arm + 1])
        self.learn(x[arm], float(arm % 2), members[a:b], events[c:d])
        t3 = time.perf_counter()
        return t1 - t0, t2 - t1, t3 - t2, t3 - t0, b - a


def unit(*shape):
    """Random vectors of length 1."""
    x = torch.randn(*shape)
    return x / x.norm(dim=-1, keepdim=True)


def network(bandit, user):
    """One user's weights as (W1 [m,d], w2 [m])."""
    w1 = bandit.users1[user // bandit.chunk, :, user % bandit.chunk].t().clone()
    return w1, bandit.users2[user].clone()


def gradient_step(w1, w2, xs, rs, eta):
    """The reference: one gradient step on the mean loss by automatic differentiation."""
    with torch.inference_mode(False), torch.enable_grad():
        a = torch.tensor(w1.numpy(), requires_grad=True)
        b = torch.tensor(w2.numpy(), requires_grad=True)
        loss = ((torch.relu(xs.clone() @ a.t()) @ b - rs.clone()) ** 2 / 2).mean()
        ga, gb = torch.autograd.grad(loss, [a, b])
    return w1 - eta * ga, w2 - eta * gb


def close(a, b, what):
    """Stops when two results differ."""
    if not torch.allclose(a, b, rtol=1e-3, atol=1e-4):
        raise SystemExit(f"{what} disagrees with the reference")


def check(bandit, limit):
    """Compares every part with a plain computation."""
    x = unit(bandit.arms, bandit.d)
    user = 3
    f = bandit.predictions(x)
    own = bandit.own(user, x)
    for other in range(0, bandit.n, max(1, bandit.n // 7)):
        w1, w2 = network(bandit, other)
        close(f[:, other], torch.relu(x @ w1.t()) @ w2, "prediction")
    members, starts = bandit.clusters(user, x)
    for k in range(bandit.arms):
        near = (f[k] - own[k]).abs() <= bandit.gap * (NU - 1) / NU
        if not torch.equal(near.nonzero().view(-1), members[starts[k]:starts[k + 1]]):
            raise SystemExit("cluster disagrees with the reference")
    events, draws = bandit.draw(members, starts, limit)
    z, v = bandit.adapted(x, events, draws, "draws")
    z_other, v_other = bandit.adapted(x, events, draws, "distinct")
    close(z, z_other, "adaptation (distinct)")
    close(v, v_other, "adaptation (distinct)")
    scores = bandit.scores(user, x, z, v)
    for k in range(bandit.arms):
        own = events[draws[k]:draws[k + 1]]
        w1, w2 = gradient_step(bandit.meta1.t(), bandit.meta2, bandit.event_x[own],
                               bandit.event_r[own], ETA_META)
        close(z[k], w1 @ x[k], "adaptation")
        close(v[k], w2, "adaptation")
        close(scores[k], plain_score(bandit, user, x[k], w1, w2), "score")
    arm = 0
    own = events[draws[arm]:draws[arm + 1]]
    picked = members[starts[arm]:starts[arm + 1]]
    inside = set(picked.tolist())
    outside = [v for v in range(bandit.n) if v not in inside][:1]
    probes = picked[::max(1, len(picked) // 5)].tolist()
    expected = [gradient_step(*network(bandit, v), x[arm:arm + 1], torch.ones(1), ETA_USER)
                for v in probes]
    still = [network(bandit, v) for v in outside]
    w1, w2 = gradient_step(bandit.meta1.t(), bandit.meta2, bandit.event_x[own],
                           bandit.event_r[own], ETA_META)
    bandit.learn(x[arm], 1.0, picked, own)
    close(bandit.meta1.t(), w1, "Theta")
    close(bandit.meta2, w2, "Theta")
    for v, pair in zip(probes + outside, expected + still):
        for got, want in zip(network(bandit, v), pair):
            close(got, want, "user training")


def plain_score(bandit, user, x, w1, w2):
    """The score from full gradients."""
    def gradient(a, b):
        h = torch.relu(a @ x)
        return torch.cat([torch.outer(b * (h > 0), x).view(-1), h])
    norm = (gradient(w1, w2) - gradient(bandit.start1.t(), bandit.start2)).norm()
    mu = bandit.mu[user]
    rest = torch.sqrt((S + 1) / (2 * mu)) + torch.sqrt(2 * math.log(1 / DELTA) / mu)
    return torch.relu(w1 @ x) @ w2 + EXPLORATION * (norm / bandit.m ** 0.25 + rest)


def choose_gap(bandit, share):
    """The gap for which a cluster holds about this share of all users on average."""
    distances = []
    for _ in range(8):
        f = bandit.predictions(unit(bandit.arms, bandit.d))
        served = torch.randint(bandit.n, (20,))
        apart = (f[:, served].unsqueeze(2) - f.unsqueeze(1)).abs().view(-1)
        distances.append(apart[torch.randint(len(apart), (100000,))])
    bandit.gap = float(torch.cat(distances).quantile(share)) * NU / (NU - 1)


def choose_form(bandit, limit):
    """Takes the faster form of the adaptation for this case."""
    x = unit(bandit.arms, bandit.d)
    members, starts = bandit.clusters(0, x)
    events, draws = bandit.draw(members, starts, limit)
    times = {}
    for form in ("draws", "distinct"):
        times[form] = common.fastest(lambda: bandit.adapted(x, events, draws, form), 0.2)
    bandit.form = min(times, key=times.get)
    return times


def median(values):
    """The middle value."""
    return sorted(values)[len(values) // 2]


def measure(bandit, limit, options, least, most, seconds):
    """Plays rounds with fresh users and arms; returns what each one took."""
    measured = []
    end = time.perf_counter() + seconds
    while len(measured) < least or (len(measured) < most and time.perf_counter() < end):
        user = int(torch.randint(bandit.n, (1,)))
        measured.append(bandit.round(user, unit(options.arms, options.features), limit))
    return measured


def prepared(options, n, limit, workers, chunk, inside):
    """A checked and warm bandit for one layout and one number of threads inside operators."""
    common.set_threads(inside, inside if chunk == n else 1)
    torch.manual_seed(3)
    bandit = Bandit(options, n, options.rounds + 50, workers, chunk)
    choose_gap(bandit, options.share)
    check(bandit, limit)
    times = choose_form(bandit, limit)
    measure(bandit, limit, options, 10, 10, 0)
    return bandit, times


def case(options, n, limit, workers):
    """Measures one number of users and one limit of draws, in both forms."""
    room = options.rounds + 50
    need = 4 * n * (options.width * (options.features + 1) * 2 + 2 * room + 12 * options.arms)
    whole = 2 * 4 * n * options.width * options.arms  # what a batch lays down between operators
    if common.fits(need + whole, f"users {n}, batched"):
        measure_form("batched", options, n, limit, workers, [n], [options.threads])
    if common.fits(need, f"users {n}, tiled"):
        measure_form("tiled", options, n, limit, workers, CHUNKS,
                     sorted({1, options.threads}))


def measure_form(form, options, n, limit, workers, chunks, insides):
    """Takes the best layout of a short trial, then measures it."""
    best = None
    for chunk in chunks:
        for inside in insides:
            if len(chunks) * len(insides) == 1:
                best = (0, chunk, inside)
                continue
            bandit, _ = prepared(options, n, limit, workers, chunk, inside)
            trial = measure(bandit, limit, options, 5, 20, options.seconds / 8)
            typical = median([entry[3] for entry in trial])
            if best is None or typical < best[0]:
                best = (typical, chunk, inside)
            del bandit
    bandit, times = prepared(options, n, limit, workers, *best[1:])
    measured = measure(bandit, limit, options, 5, options.rounds, options.seconds)
    parts = [median(column) for column in zip(*measured)]
    size = round(sum(entry[4] for entry in measured) / len(measured))
    shown = ", ".join(f"{name} {value * 1e3:.3f} ms" for name, value in times.items())
    common.say(f"users {n}, meta_samples {limit}, {form}: {len(measured)} rounds, chunks of "
               f"{best[1]}, {best[2]} threads inside operators, adaptation {shown}")
    common.row(form, n, limit, size, *parts[:4])


def main():
    """Reads the arguments and runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=common.integers, default=[500, 5000, 10000, 20000])
    parser.add_argument("--meta-samples", type=common.integers, default=[0, 100],
                        help="at most so many members take part; 0: all")
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--history", type=int, default=5, help="events of each user at first")
    parser.add_argument("--share", type=float, default=0.1, help="of all users in a cluster")
    parser.add_argument("--rounds", type=int, default=300, help="at most so many rounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="budget for each case")
    options = parser.parse_args()
    common.set_threads(options.threads)
    common.banner(options.threads)
    workers = common.Workers(options.threads)
    print("form,users,meta_samples,cluster_size,clustering_seconds,meta_seconds,training_seconds,"
          "round_seconds", flush=True)
    with torch.inference_mode():
        for n in options.users:
            for limit in options.meta_samples:
                case(options, n, limit, workers)


if __name__ == "__main__":
    main()
