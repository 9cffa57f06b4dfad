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


def predict_candidates(w1, w2, x, workers):
    """All formulations for f of n networks at K arms; results as [n, K]."""
    n, m, d = w1.shape
    arms = x.shape[0]
    threads = workers.threads
    xt = x.t().contiguous()

    def rows(reduce):
        def build():
            weights, last = w1.reshape(n * m, d), w2.clone()
            z = torch.empty(n * m, arms)

            def operation():
                torch.mm(weights, xt, out=z)
                z.relu_()
                return reduce(z.view(n, m, arms), last)

            return operation, operation
        return build

    def columns(reduce):
        def build():
            weights, last = w1.reshape(n * m, d).t().contiguous(), w2.reshape(-1).clone()
            z = torch.empty(arms, n * m)

            def operation():
                torch.mm(x, weights, out=z)
                z.relu_()
                return reduce(z, last)

            return operation, lambda: operation().t()
        return build

    def batched_rows():
        weights, last = w1.clone(), w2.view(n, 1, m).clone()
        arms_t = xt.expand(n, d, arms)

        def operation():
            return torch.bmm(last, torch.bmm(weights, arms_t).relu_()).view(n, arms)

        return operation, operation

    def batched_columns():
        weights, last = w1.transpose(1, 2).contiguous(), w2.view(n, m, 1).clone()
        expanded = x.expand(n, arms, d)

        def operation():
            return torch.bmm(torch.bmm(expanded, weights).relu_(), last).view(n, arms)

        return operation, operation

    def einsum():
        weights, last = w1.clone(), w2.clone()

        def operation():
            z = torch.einsum("nmd,kd->nmk", weights, x).relu_()
            return torch.einsum("nmk,nm->nk", z, last)

        return operation, operation

    def chunks(size, units_first, split, script):
        def build():
            a, b = chunked(w1, w2, size, units_first)
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
                workers.run(compiled, shares)

            operation = compiled_loop if script else loop

            def result():
                out.fill_(float("nan"))
                operation()
                return out.transpose(1, 2).reshape(-1, arms)[:n]

            return operation, result
        return build

    def weighted_sum(z, last):
        return z.mul_(last.unsqueeze(2)).sum(1)

    def product(z, last):
        return torch.bmm(last.view(n, 1, m), z).view(n, arms)

    def column_sum(z, last):
        return z.mul_(last).view(arms, n, m).sum(2)

    def column_einsum(z, last):
        return torch.einsum("knm,nm->kn", z.view(arms, n, m), last.view(n, m))

    found = [
        Candidate("rows gemm mul sum", rows(weighted_sum), threads),
        Candidate("rows gemm bmm", rows(product), threads),
        Candidate("columns gemm mul sum", columns(column_sum), threads),
        Candidate("columns gemm mul sum (BLAS 1 thread)", columns(column_sum), threads, 1),
        Candidate("columns gemm einsum", columns(column_einsum), threads),
        Candidate("bmm [n m d]", batched_rows, threads),
        Candidate("bmm [n d m]", batched_columns, threads),
        Candidate("einsum", einsum, threads),
    ]
    for size in chunk_sizes(n, arms, m, d):
        found.append(Candidate(f"chunks {size}", chunks(size, False, 1, False), threads))
        for units in (False, True):
            order = " units-first" if units else ""
            for split in sorted({1, threads}):
                found.append(Candidate(f"chunks {size}{order} script split {split}",
                                       chunks(size, units, split, True), 1))
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


def step_candidates(w1, w2, samples, workers):
    """All formulations for one step at the first sample; results as [n, m*d + m].

    When timed, the samples take turns, so that the errors do not die out.
    """
    n, m, d = w1.shape
    threads = workers.threads

    def turns(step):
        state = [0]

        def operation():
            x, r = samples[state[0] % len(samples)]
            state[0] += 1
            step(x, r)

        return operation

    def flat(a, b):
        return torch.cat([a.reshape(n, m * d), b.reshape(n, m)], 1)

    def rows(update):
        def build():
            a, b = w1.clone(), w2.clone()

            def step(x, r):
                z = torch.mv(a.view(n * m, d), x).view(n, m)
                g = torch.ops.aten.threshold_backward(b, z, 0)
                h = z.relu_()
                e = (h * b).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                g.mul_(e)
                update(a, g, x)
                b.addcmul_(h, e)

            def result():
                step(*samples[0])
                return flat(a, b)

            return turns(step), result
        return build

    def columns(update):
        def build():
            a, b = w1.reshape(n * m, d).t().contiguous(), w2.clone()

            def step(x, r):
                z = torch.mm(x.view(1, d), a).view(n, m)
                g = torch.ops.aten.threshold_backward(b, z, 0)
                h = z.relu_()
                e = (h * b).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                g.mul_(e)
                update(a, g.view(-1), x)
                b.addcmul_(h, e)

            def result():
                step(*samples[0])
                return flat(a.t(), b)

            return turns(step), result
        return build

    def chunks(size, units_first, gemm, split):
        def build():
            a, b = chunked(w1, w2, size, units_first)
            shares = common.spread(a.shape[0], split)
            compiled = step_units_first if units_first else step_users_first

            def step(x, r):
                workers.run(compiled, [(x, r, ETA, a, b, m, gemm, *s) for s in shares])

            def result():
                step(*samples[0])
                if units_first:
                    u = a.view(-1, d, m, size).permute(0, 3, 2, 1)
                    v = b.view(-1, m, size).transpose(1, 2)
                else:
                    u = a.view(-1, d, size, m).permute(0, 2, 3, 1)
                    v = b.view(-1, size, m)
                return flat(u.reshape(-1, m, d)[:n], v.reshape(-1, m)[:n])

            return turns(step), result
        return build

    def autograd():
        with torch.inference_mode(False), torch.enable_grad():
            a = torch.tensor(w1.numpy(), requires_grad=True)
            b = torch.tensor(w2.numpy(), requires_grad=True)

        def step(x, r):
            with torch.inference_mode(False), torch.enable_grad():
                point = x.clone()
                f = (torch.relu(a @ point) * b).sum(1)
                grads = torch.autograd.grad(((f - r) ** 2 / 2).sum(), [a, b])
                with torch.no_grad():
                    a.sub_(grads[0], alpha=ETA)
                    b.sub_(grads[1], alpha=ETA)

        def result():
            step(*samples[0])
            return flat(a.detach(), b.detach())

        return turns(step), result

    def outer_rows(a, g, x):
        a.addcmul_(g.unsqueeze(2), x)

    def addr_rows(a, g, x):
        a.view(n * m, d).addr_(g.view(-1), x)

    def batched_rows(a, g, x):
        a.baddbmm_(g.unsqueeze(2), x.expand(n, 1, d))

    def outer_columns(a, g, x):
        a.addcmul_(x.view(d, 1), g)

    def addr_columns(a, g, x):
        a.addr_(x, g)

    def gemm_columns(a, g, x):
        a.addmm_(x.view(d, 1), g.view(1, -1))

    found = [
        Candidate("rows addcmul", rows(outer_rows), threads),
        Candidate("rows addr", rows(addr_rows), threads),
        Candidate("rows baddbmm", rows(batched_rows), threads),
        Candidate("columns addcmul", columns(outer_columns), threads),
        Candidate("columns addr", columns(addr_columns), threads),
        Candidate("columns addmm", columns(gemm_columns), threads),
        Candidate("autograd rows", autograd, threads),
    ]
    for size in chunk_sizes(n, 10, m, d):
        for units, gemm in ((False, False), (False, True), (True, False), (True, True)):
            order = (" units-first" if units else "") + (" addmm" if gemm else " addcmul")
            for split in sorted({1, threads}):
                found.append(Candidate(f"chunks {size}{order} script split {split}",
                                       chunks(size, units, gemm, split), 1))
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
            report.time("predict", n, features, predict_candidates(w1, w2, x, workers),
                        reference)
            candidates = step_candidates(w1, w2, samples, workers)
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
