"""PyTorch peer: many separate two-layer ReLU networks, f(x) = w2 . relu(W1 x), no biases.

Times the evaluation of all networks on a few arms, and one gradient step of all networks at
one sample, each in many formulations. Two rows for each: the fastest that treats all networks
as one batch (`predict`, `step`), and the fastest that is cut by hand into chunks which fit the
caches, looped over in TorchScript (`predict-tiled`, `step-tiled`). Every formulation is first
compared with the reference. CSV on stdout, messages on stderr.

Names: `rows` weights [n, m, d]; `columns` weights [d, n*m]; `chunks c` weights
[n/c, d, c*m], c users at a time so that what lies between stays in the cache (`units-first`:
inside a chunk the order is unit, user); `script` a TorchScript loop over the chunks,
`split t` the same loop with the chunks shared out over t threads.
"""

import argparse

import torch

import common
from blocks import block_cases
from common import Candidate, predict_users_first, step_users_first, unit

ETA = common.ETA


# ---- all networks on all arms ----------------------------------------------------------------


@torch.jit.script
def predict_units_first(x, w1, w2, out, width: int, first: int, last: int):
    """As predict_users_first, with the order (unit, user): the sum runs over rows."""
    z = torch.empty([x.size(0), w1.size(2)])
    zv = z.view(x.size(0), width, -1)
    for i in range(first, last):
        torch.mm(x, w1[i], out=z)
        z.relu_()
        z.mul_(w2[i])
        torch.sum(zv, [1], out=out[i])


def chunked(w1, w2, size, units_first):
    """Weights [n,m,d], [n,m] as chunks; the last one is filled up with zero networks."""
    n, m, d = w1.shape
    count = -(-n // size)
    full1 = torch.zeros(count * size, m, d)
    full1[:n] = w1
    full2 = torch.zeros(count * size, m)
    full2[:n] = w2
    full1 = full1.view(count, size, m, d)
    full2 = full2.view(count, size, m)
    if units_first:
        full1 = full1.permute(0, 3, 2, 1)
        full2 = full2.permute(0, 2, 1)
    else:
        full1 = full1.permute(0, 3, 1, 2)
    return (full1.reshape(count, d, -1).contiguous(), full2.reshape(count, -1).contiguous())


def chunk_sizes(n, arms, width, features):
    """Chunk sizes to try; one of them just fits the small-matrix kernels of OpenBLAS."""
    small = max(1, 1000000 // (arms * width * features))
    sizes = {64, 100, 256, small}
    return [c for c in sorted(sizes) if c <= n] or [n]


class Predictions:
    """All formulations for f of n networks at K arms; results as [n, K]."""

    def __init__(self, w1, w2, x, workers):
        self.w1, self.w2, self.x, self.workers = w1, w2, x, workers
        self.n, self.m, self.d = w1.shape
        self.arms = x.shape[0]
        self.xt = x.t().contiguous()

    def rows(self, reduce):
        """One product, weights [n*m, d]; `reduce` is the second layer."""
        n, m, d, arms = self.n, self.m, self.d, self.arms

        def build():
            weights, last = self.w1.reshape(n * m, d), self.w2.clone()
            z = torch.empty(n * m, arms)

            def operation():
                torch.mm(weights, self.xt, out=z)
                z.relu_()
                return reduce(z.view(n, m, arms), last)

            return operation, operation
        return build

    def columns(self, reduce):
        """One product, weights [d, n*m]; `reduce` is the second layer."""
        n, m, d = self.n, self.m, self.d

        def build():
            weights = self.w1.reshape(n * m, d).t().contiguous()
            last = self.w2.reshape(-1).clone()
            z = torch.empty(self.arms, n * m)

            def operation():
                torch.mm(self.x, weights, out=z)
                z.relu_()
                return reduce(z, last)

            return operation, lambda: operation().t()
        return build

    def batched_rows(self):
        """Batched products, weights [n, m, d]."""
        n, m, arms = self.n, self.m, self.arms
        weights, last = self.w1.clone(), self.w2.view(n, 1, m).clone()
        arms_t = self.xt.expand(n, self.d, arms)

        def operation():
            return torch.bmm(last, torch.bmm(weights, arms_t).relu_()).view(n, arms)

        return operation, operation

    def batched_columns(self):
        """Batched products, weights [n, d, m]."""
        n, m, arms = self.n, self.m, self.arms
        weights = self.w1.transpose(1, 2).contiguous()
        last = self.w2.view(n, m, 1).clone()
        expanded = self.x.expand(n, arms, self.d)

        def operation():
            return torch.bmm(torch.bmm(expanded, weights).relu_(), last).view(n, arms)

        return operation, operation

    def einsum(self):
        """Two Einstein sums."""
        weights, last = self.w1.clone(), self.w2.clone()

        def operation():
            z = torch.einsum("nmd,kd->nmk", weights, self.x).relu_()
            return torch.einsum("nmk,nm->nk", z, last)

        return operation, operation

    def chunks(self, size, units_first, split, script):
        """`size` users at a time, in a loop of Python or of TorchScript."""
        n, m, x, arms = self.n, self.m, self.x, self.arms

        def build():
            a, b = chunked(self.w1, self.w2, size, units_first)
            count = a.shape[0]
            out = torch.empty(count, arms, size)
            compiled = predict_units_first if units_first else predict_users_first
            shares = [(x, a, b, out, m, *s) for s in common.spread(count, split)]
            pieces = list(zip(a.unbind(), b.unbind(), out.unbind()))
            z = torch.empty(arms, size * m)
            zv, dim = (z.view(arms, m, size), 1) if units_first else (z.view(arms, size, m), 2)

            def loop():
                for weights, last, target in pieces:
                    torch.mm(x, weights, out=z)
                    z.relu_()
                    z.mul_(last)
                    torch.sum(zv, dim, out=target)

            def compiled_loop():
                self.workers.run(compiled, shares)

            operation = compiled_loop if script else loop

            def result():
                out.fill_(float("nan"))
                operation()
                return out.transpose(1, 2).reshape(-1, arms)[:n]

            return operation, result
        return build

    def weighted_sum(self, z, last):
        """The second layer of `rows`."""
        return z.mul_(last.unsqueeze(2)).sum(1)

    def product(self, z, last):
        """The second layer of `rows`, as a batched product."""
        return torch.bmm(last.view(self.n, 1, self.m), z).view(self.n, self.arms)

    def column_sum(self, z, last):
        """The second layer of `columns`."""
        return z.mul_(last).view(self.arms, self.n, self.m).sum(2)

    def column_einsum(self, z, last):
        """The second layer of `columns`, as an Einstein sum."""
        return torch.einsum("knm,nm->kn", z.view(self.arms, self.n, self.m),
                            last.view(self.n, self.m))

    def candidates(self):
        """The formulations with their names and threads."""
        threads = self.workers.threads
        columns = self.columns(self.column_sum)
        found = [
            Candidate("rows gemm mul sum", self.rows(self.weighted_sum), threads),
            Candidate("rows gemm bmm", self.rows(self.product), threads),
            Candidate("columns gemm mul sum", columns, threads),
            Candidate("columns gemm mul sum (BLAS 1 thread)", columns, threads, 1),
            Candidate("columns gemm einsum", self.columns(self.column_einsum), threads),
            Candidate("bmm [n m d]", self.batched_rows, threads),
            Candidate("bmm [n d m]", self.batched_columns, threads),
            Candidate("einsum", self.einsum, threads),
        ]
        for size in chunk_sizes(self.n, self.arms, self.m, self.d):
            found.append(Candidate(f"chunks {size}", self.chunks(size, False, 1, False), threads))
            for units in (False, True):
                order = " units-first" if units else ""
                for split in sorted({1, threads}):
                    found.append(Candidate(f"chunks {size}{order} script split {split}",
                                           self.chunks(size, units, split, True), 1))
        return found


# ---- one gradient step of all networks at one sample -----------------------------------------


@torch.jit.script
def step_units_first(x, r: float, eta: float, w1, w2, width: int, gemm: bool,
                     first: int, last: int):
    """As above with the order (unit, user)."""
    column = x.view(-1, 1)
    line = x.view(1, -1)
    for i in range(first, last):
        a = w1[i]
        b = w2[i]
        z = torch.mm(line, a).view(-1)
        g = torch.ops.aten.threshold_backward(b, z, 0)
        h = z.relu_()
        e = (h * b).view(width, -1).sum([0]).sub_(r).mul_(-eta)
        g.view(width, -1).mul_(e)
        if gemm:
            a.addmm_(column, g.view(1, -1))
        else:
            a.addcmul_(column, g.view(1, -1))
        b.view(width, -1).addcmul_(h.view(width, -1), e)


class Steps:
    """All formulations for one step at the first sample; results as [n, m*d + m].

    When timed, the samples take turns.
    """

    def __init__(self, w1, w2, samples, workers):
        self.w1, self.w2, self.samples, self.workers = w1, w2, samples, workers
        self.n, self.m, self.d = w1.shape

    def flat(self, a, b):
        """All parameters, network by network."""
        return torch.cat([a.reshape(self.n, self.m * self.d), b.reshape(self.n, self.m)], 1)

    def rows(self, update):
        """Weights [n, m, d]; `update` changes those of the first layer."""
        n, m, d = self.n, self.m, self.d

        def build():
            a, b = self.w1.clone(), self.w2.clone()

            def step(x, r):
                z = torch.mv(a.view(n * m, d), x).view(n, m)
                g = torch.ops.aten.threshold_backward(b, z, 0)
                h = z.relu_()
                e = (h * b).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                g.mul_(e)
                update(a, g, x)
                b.addcmul_(h, e)

            def result():
                step(*self.samples[0])
                return self.flat(a, b)

            return common.in_turn(step, self.samples), result
        return build

    def columns(self, update):
        """Weights [d, n*m]; `update` changes those of the first layer."""
        n, m, d = self.n, self.m, self.d

        def build():
            a, b = self.w1.reshape(n * m, d).t().contiguous(), self.w2.clone()

            def step(x, r):
                z = torch.mm(x.view(1, d), a).view(n, m)
                g = torch.ops.aten.threshold_backward(b, z, 0)
                h = z.relu_()
                e = (h * b).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                g.mul_(e)
                update(a, g.view(-1), x)
                b.addcmul_(h, e)

            def result():
                step(*self.samples[0])
                return self.flat(a.t(), b)

            return common.in_turn(step, self.samples), result
        return build

    def chunks(self, size, units_first, gemm, split):
        """`size` users at a time, in a loop of TorchScript."""
        n, m, d = self.n, self.m, self.d

        def build():
            a, b = chunked(self.w1, self.w2, size, units_first)
            shares = common.spread(a.shape[0], split)
            compiled = step_units_first if units_first else step_users_first

            def step(x, r):
                self.workers.run(compiled, [(x, r, ETA, a, b, m, gemm, *s) for s in shares])

            def result():
                step(*self.samples[0])
                if units_first:
                    u = a.view(-1, d, m, size).permute(0, 3, 2, 1)
                    v = b.view(-1, m, size).transpose(1, 2)
                else:
                    u = a.view(-1, d, size, m).permute(0, 2, 3, 1)
                    v = b.view(-1, size, m)
                return self.flat(u.reshape(-1, m, d)[:n], v.reshape(-1, m)[:n])

            return common.in_turn(step, self.samples), result
        return build

    def autograd(self):
        """torch.autograd, as the reference."""
        with torch.inference_mode(False), torch.enable_grad():
            a = torch.tensor(self.w1.numpy(), requires_grad=True)
            b = torch.tensor(self.w2.numpy(), requires_grad=True)

        def step(x, r):
            with torch.inference_mode(False), torch.enable_grad():
                point = x.clone()
                f = (torch.relu(a @ point) * b).sum(1)
                grads = torch.autograd.grad(((f - r) ** 2 / 2).sum(), [a, b])
                with torch.no_grad():
                    a.sub_(grads[0], alpha=ETA)
                    b.sub_(grads[1], alpha=ETA)

        def result():
            step(*self.samples[0])
            return self.flat(a.detach(), b.detach())

        return common.in_turn(step, self.samples), result

    def row_updates(self):
        """Ways to move the first layer of `rows`, by name."""
        n, m, d = self.n, self.m, self.d
        return {
            "addcmul": lambda a, g, x: a.addcmul_(g.unsqueeze(2), x),
            "addr": lambda a, g, x: a.view(n * m, d).addr_(g.view(-1), x),
            "baddbmm": lambda a, g, x: a.baddbmm_(g.unsqueeze(2), x.expand(n, 1, d)),
        }

    def column_updates(self):
        """Ways to move the first layer of `columns`, by name."""
        d = self.d
        return {
            "addcmul": lambda a, g, x: a.addcmul_(x.view(d, 1), g),
            "addr": lambda a, g, x: a.addr_(x, g),
            "addmm": lambda a, g, x: a.addmm_(x.view(d, 1), g.view(1, -1)),
        }

    def candidates(self):
        """The formulations with their names and threads."""
        threads = self.workers.threads
        found = []
        for name, update in self.row_updates().items():
            found.append(Candidate(f"rows {name}", self.rows(update), threads))
        for name, update in self.column_updates().items():
            found.append(Candidate(f"columns {name}", self.columns(update), threads))
        found.append(Candidate("autograd rows", self.autograd, threads))
        for size in chunk_sizes(self.n, 10, self.m, self.d):
            for units, gemm in ((False, False), (False, True), (True, False), (True, True)):
                order = (" units-first" if units else "") + (" addmm" if gemm else " addcmul")
                for split in sorted({1, threads}):
                    found.append(Candidate(f"chunks {size}{order} script split {split}",
                                           self.chunks(size, units, gemm, split), 1))
        return found


SCREENED = 20000  # above so many users only what was fastest below is timed


class Report:
    """Times the candidates of one operation and prints the fastest of each sort."""

    def __init__(self, options):
        self.options = options
        self.favourites = {}  # the names of the fastest, by operation and features

    def time(self, operation, n, features, candidates, reference):
        """Prints a row for the fastest batched and the fastest tiled candidate."""
        options = self.options
        if options.verbose:
            common.say(f"{operation}: {n} users, {features} features")
        for tiled in (False, True):
            key = (operation, features, tiled)
            some = [c for c in candidates if c.tiled == tiled]
            if n > SCREENED and key in self.favourites:
                some = [c for c in some if c.name in self.favourites[key]]
            if some:
                best = common.best_of(some, reference, options.seconds, options.verbose)
                self.favourites[key] = [c.name for _, c in best[:3]]
                common.row(operation + "-tiled" * tiled, n, features, options.width,
                           options.arms, best[0][0], best[0][1].name)


def dense_cases(options, workers, report):
    """All combinations of users and features."""
    m, arms = options.width, options.arms
    for features in options.features:
        for n in sorted(options.users):
            size = 4 * n * m * (features + 1)
            if not common.fits(4 * size + 3 * 4 * n * m * arms, f"users {n} d {features}"):
                continue
            torch.manual_seed(1)
            w1 = torch.randn(n, m, features) * (2 / m) ** 0.5
            w2 = torch.randn(n, m) * (1 / m) ** 0.5
            x = unit(arms, features)
            samples = [(point, float(i % 2)) for i, point in enumerate(unit(4, features))]
            reference = torch.stack([(torch.relu(w1 @ p) * w2).sum(1) for p in x], 1)
            report.time("predict", n, features, Predictions(w1, w2, x, workers).candidates(),
                        reference)
            candidates = Steps(w1, w2, samples, workers).candidates()
            plain = [c for c in candidates if c.name == "autograd rows"][0]
            common.set_threads(options.threads)
            reference = plain.build()[1]()
            report.time("step", n, features, candidates, reference)


def main():
    """Reads the arguments and runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=common.integers, default=[500, 5000, 20000])
    parser.add_argument("--features", type=common.integers, default=[10, 20])
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--block", action="store_true", help="also the block-feature cases")
    parser.add_argument("--only-block", action="store_true", help="only these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="budget for each case")
    parser.add_argument("--verbose", action="store_true", help="list every formulation")
    options = parser.parse_args()
    common.set_threads(options.threads)
    common.banner(options.threads)
    workers = common.Workers(options.threads)
    report = Report(options)
    print("operation,users,features,width,arms,seconds,formulation", flush=True)
    with torch.inference_mode():
        if not options.only_block:
            dense_cases(options, workers, report)
        if options.block or options.only_block:
            block_cases(options, workers, report)


if __name__ == "__main__":
    main()
