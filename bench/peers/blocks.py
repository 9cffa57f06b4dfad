"""PyTorch peer, block features: ten networks, a block of 784 inputs for each arm."""

import torch

import common
from common import Candidate, step_users_first, unit

ETA = common.ETA


@torch.jit.script
def block_layer(x, w1, z, first: int, last: int):
    """z[i] = x[i] w1[i] for the blocks [first, last); w1 [B,d,n*m]."""
    for i in range(first, last):
        torch.mm(x[i].view(1, -1), w1[i], out=z[i])


@torch.jit.script
def block_layer_rows(x, w1, z, first: int, last: int):
    """As above with w1 [B,n*m,d]."""
    for i in range(first, last):
        torch.mv(w1[i], x[i], out=z[i])


def block_predict_candidates(w1, w2, x, workers):
    """w1 [n,m,B,d], arm i is x[i] in block i: f of all networks at all arms, [B, n]."""
    n, m, blocks, d = w1.shape
    threads = workers.threads

    def head(z, last):
        return z.relu_().mul_(last).view(blocks, n, m).sum(2)

    def batched(columns):
        def build():
            last = w2.reshape(-1).clone()
            order = (2, 3, 0, 1) if columns else (2, 0, 1, 3)
            weights = w1.permute(*order).contiguous()
            weights = weights.view(blocks, d, n * m) if columns else weights.view(blocks, -1, d)

            def operation():
                if columns:
                    z = torch.bmm(x.view(blocks, 1, d), weights)
                else:
                    z = torch.bmm(weights, x.view(blocks, d, 1))
                return head(z.view(blocks, n * m), last)

            return operation, operation
        return build

    def einsum():
        weights, last = w1.permute(2, 0, 1, 3).contiguous(), w2.clone()

        def operation():
            z = torch.einsum("bnmd,bd->bnm", weights, x).relu_()
            return torch.einsum("bnm,nm->bn", z, last)

        return operation, operation

    def split(columns, parts):
        def build():
            last = w2.reshape(-1).clone()
            if columns:
                weights = w1.permute(2, 3, 0, 1).reshape(blocks, d, n * m).contiguous()
                z, layer = torch.empty(blocks, 1, n * m), block_layer
            else:
                weights = w1.permute(2, 0, 1, 3).reshape(blocks, n * m, d).contiguous()
                z, layer = torch.empty(blocks, n * m), block_layer_rows
            shares = [(x, weights, z, *s) for s in common.spread(blocks, parts)]

            def operation():
                workers.run(layer, shares)
                return head(z.view(blocks, n * m), last)

            return operation, operation
        return build

    found = [
        Candidate("bmm [B d n*m]", batched(True), threads),
        Candidate("bmm [B n*m d]", batched(False), threads),
        Candidate("einsum", einsum, threads),
    ]
    for parts in sorted({1, threads}):
        found.append(Candidate(f"blocks [B d n*m] script split {parts}", split(True, parts), 1))
        found.append(Candidate(f"blocks [B n*m d] script split {parts}", split(False, parts), 1))
    return found


def block_step_candidates(w1, w2, samples, workers):
    """One step of all networks at a sample (block, x, r); only that block's weights move."""
    n, m, blocks, d = w1.shape
    threads = workers.threads

    def turns(step):
        state = [0]

        def operation():
            sample = samples[state[0] % len(samples)]
            state[0] += 1
            step(*sample)

        return operation

    def built(columns, update):
        def build():
            order = (2, 3, 0, 1) if columns else (2, 0, 1, 3)
            shape = (blocks, d, n * m) if columns else (blocks, n * m, d)
            weights, last = w1.permute(*order).reshape(*shape).contiguous(), w2.clone()

            def step(block, x, r):
                a = weights[block]
                z = (torch.mm(x.view(1, d), a) if columns else torch.mv(a, x)).view(n, m)
                g = torch.ops.aten.threshold_backward(last, z, 0)
                h = z.relu_()
                e = (h * last).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                update(a, g.mul_(e).view(-1), x)
                last.addcmul_(h, e)

            def result():
                step(*samples[0])
                a = weights[samples[0][0]]
                return torch.cat([(a.t() if columns else a).reshape(n, m * d), last], 1)

            return turns(step), result
        return build

    def users(gemm, parts):
        """One chunk per network, so that threads can share them."""
        def build():
            weights = w1.permute(2, 0, 3, 1).contiguous()
            last = w2.clone()
            shares = common.spread(n, parts)

            def step(block, x, r):
                workers.run(step_users_first,
                            [(x, r, ETA, weights[block], last, m, gemm, *s) for s in shares])

            def result():
                step(*samples[0])
                a = weights[samples[0][0]].transpose(1, 2)
                return torch.cat([a.reshape(n, m * d), last], 1)

            return turns(step), result
        return build

    found = [
        Candidate("columns addcmul", built(
            True, lambda a, g, x: a.addcmul_(x.view(d, 1), g)), threads),
        Candidate("columns addr", built(True, lambda a, g, x: a.addr_(x, g)), threads),
        Candidate("columns addmm", built(
            True, lambda a, g, x: a.addmm_(x.view(d, 1), g.view(1, -1))), threads),
        Candidate("rows addcmul", built(
            False, lambda a, g, x: a.addcmul_(g.view(-1, 1), x)), threads),
        Candidate("rows addr", built(False, lambda a, g, x: a.addr_(g, x)), threads),
    ]
    for parts in sorted({1, threads}):
        found.append(Candidate(f"chunks 1 addcmul script split {parts}", users(False, parts), 1))
        found.append(Candidate(f"chunks 1 addmm script split {parts}", users(True, parts), 1))
    return found


# ---- cases -----------------------------------------------------------------------------------


def block_cases(options, workers, report):
    """Ten networks, as many blocks of 784 inputs as arms."""
    n, blocks = 10, options.arms
    d, m = 784, options.width
    if not common.fits(8 * n * m * blocks * d, "block features"):
        return
    torch.manual_seed(2)
    w1 = torch.randn(n, m, blocks, d) * (2 / m) ** 0.5
    w2 = torch.randn(n, m) * (1 / m) ** 0.5
    x = unit(blocks, d)
    samples = [(i, x[i], float(i % 2)) for i in range(blocks)]
    full = torch.zeros(blocks, blocks, d)
    for i in range(blocks):
        full[i, i] = x[i]
    z = full.view(blocks, blocks * d) @ w1.reshape(n * m, blocks * d).t()
    reference = (z.relu().view(blocks, n, m) * w2).sum(2)
    report.time("predict-block", n, d, block_predict_candidates(w1, w2, x, workers), reference)

    z = (full[0].view(-1) @ w1.reshape(n * m, blocks * d).t()).view(n, m)
    e = (z.relu() * w2).sum(1, keepdim=True) - samples[0][2]
    g = e * w2 * (z > 0)
    moved = w1[:, :, 0] - ETA * g.unsqueeze(2) * x[0]
    reference = torch.cat([moved.reshape(n, m * d), w2 - ETA * e * z.relu()], 1)
    report.time("step-block", n, d, block_step_candidates(w1, w2, samples, workers), reference)
