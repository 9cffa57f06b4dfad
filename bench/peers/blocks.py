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


class BlockPredictions:
    """All formulations for f of all networks at all arms, [B, n].

    w1 [n,m,B,d]; arm i is x[i] in block i.
    """

    def __init__(self, w1, w2, x, workers):
        self.w1, self.w2, self.x, self.workers = w1, w2, x, workers
        self.n, self.m, self.blocks, self.d = w1.shape

    def head(self, z, last):
        """The second layer; changes z."""
        return z.relu_().mul_(last).view(self.blocks, self.n, self.m).sum(2)

    def batched(self, columns):
        """One batched product."""
        n, m, blocks, d, x = self.n, self.m, self.blocks, self.d, self.x

        def build():
            last = self.w2.reshape(-1).clone()
            order = (2, 3, 0, 1) if columns else (2, 0, 1, 3)
            weights = self.w1.permute(*order).contiguous()
            weights = weights.view(blocks, d, n * m) if columns else weights.view(blocks, -1, d)

            def operation():
                if columns:
                    z = torch.bmm(x.view(blocks, 1, d), weights)
                else:
                    z = torch.bmm(weights, x.view(blocks, d, 1))
                return self.head(z.view(blocks, n * m), last)

            return operation, operation
        return build

    def einsum(self):
        """Two Einstein sums."""
        weights, last = self.w1.permute(2, 0, 1, 3).contiguous(), self.w2.clone()

        def operation():
            z = torch.einsum("bnmd,bd->bnm", weights, self.x).relu_()
            return torch.einsum("bnm,nm->bn", z, last)

        return operation, operation

    def split(self, columns, parts):
        """A TorchScript loop over the blocks, shared out over threads."""
        n, m, blocks, d = self.n, self.m, self.blocks, self.d

        def build():
            last = self.w2.reshape(-1).clone()
            if columns:
                weights = self.w1.permute(2, 3, 0, 1).reshape(blocks, d, n * m).contiguous()
                z, layer = torch.empty(blocks, 1, n * m), block_layer
            else:
                weights = self.w1.permute(2, 0, 1, 3).reshape(blocks, n * m, d).contiguous()
                z, layer = torch.empty(blocks, n * m), block_layer_rows
            shares = [(self.x, weights, z, *s) for s in common.spread(blocks, parts)]

            def operation():
                self.workers.run(layer, shares)
                return self.head(z.view(blocks, n * m), last)

            return operation, operation
        return build

    def candidates(self):
        """The formulations with their names and threads."""
        threads = self.workers.threads
        found = [
            Candidate("bmm [B d n*m]", self.batched(True), threads),
            Candidate("bmm [B n*m d]", self.batched(False), threads),
            Candidate("einsum", self.einsum, threads),
        ]
        for parts in sorted({1, threads}):
            found.append(Candidate(f"blocks [B d n*m] script split {parts}",
                                   self.split(True, parts), 1))
            found.append(Candidate(f"blocks [B n*m d] script split {parts}",
                                   self.split(False, parts), 1))
        return found


class BlockSteps:
    """All formulations for one step of all networks at a sample (block, x, r).

    Only that block's weights move. When timed, the samples take turns.
    """

    def __init__(self, w1, w2, samples, workers):
        self.w1, self.w2, self.samples, self.workers = w1, w2, samples, workers
        self.n, self.m, self.blocks, self.d = w1.shape

    def built(self, columns, update):
        """All networks as one batch; `update` changes the weights of the first layer."""
        n, m, blocks, d = self.n, self.m, self.blocks, self.d

        def build():
            order = (2, 3, 0, 1) if columns else (2, 0, 1, 3)
            shape = (blocks, d, n * m) if columns else (blocks, n * m, d)
            weights, last = self.w1.permute(*order).reshape(*shape).contiguous(), self.w2.clone()

            def step(block, x, r):
                a = weights[block]
                z = (torch.mm(x.view(1, d), a) if columns else torch.mv(a, x)).view(n, m)
                g = torch.ops.aten.threshold_backward(last, z, 0)
                h = z.relu_()
                e = (h * last).sum(1, keepdim=True).sub_(r).mul_(-ETA)
                update(a, g.mul_(e).view(-1), x)
                last.addcmul_(h, e)

            def result():
                step(*self.samples[0])
                a = weights[self.samples[0][0]]
                return torch.cat([(a.t() if columns else a).reshape(n, m * d), last], 1)

            return common.in_turn(step, self.samples), result
        return build

    def users(self, gemm, parts):
        """One chunk per network, so that threads can share them."""
        n, m, d = self.n, self.m, self.d

        def build():
            weights = self.w1.permute(2, 0, 3, 1).contiguous()
            last = self.w2.clone()
            shares = common.spread(n, parts)

            def step(block, x, r):
                self.workers.run(step_users_first,
                                 [(x, r, ETA, weights[block], last, m, gemm, *s) for s in shares])

            def result():
                step(*self.samples[0])
                a = weights[self.samples[0][0]].transpose(1, 2)
                return torch.cat([a.reshape(n, m * d), last], 1)

            return common.in_turn(step, self.samples), result
        return build

    def candidates(self):
        """The formulations with their names and threads."""
        d, threads = self.d, self.workers.threads
        found = [
            Candidate("columns addcmul", self.built(
                True, lambda a, g, x: a.addcmul_(x.view(d, 1), g)), threads),
            Candidate("columns addr", self.built(True, lambda a, g, x: a.addr_(x, g)), threads),
            Candidate("columns addmm", self.built(
                True, lambda a, g, x: a.addmm_(x.view(d, 1), g.view(1, -1))), threads),
            Candidate("rows addcmul", self.built(
                False, lambda a, g, x: a.addcmul_(g.view(-1, 1), x)), threads),
            Candidate("rows addr", self.built(False, lambda a, g, x: a.addr_(g, x)), threads),
        ]
        for parts in sorted({1, threads}):
            found.append(Candidate(f"chunks 1 addcmul script split {parts}",
                                   self.users(False, parts), 1))
            found.append(Candidate(f"chunks 1 addmm script split {parts}",
                                   self.users(True, parts), 1))
        return found


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
    report.time("predict-block", n, d, BlockPredictions(w1, w2, x, workers).candidates(),
                reference)

    z = (full[0].view(-1) @ w1.reshape(n * m, blocks * d).t()).view(n, m)
    e = (z.relu() * w2).sum(1, keepdim=True) - samples[0][2]
    g = e * w2 * (z > 0)
    moved = w1[:, :, 0] - ETA * g.unsqueeze(2) * x[0]
    reference = torch.cat([moved.reshape(n, m * d), w2 - ETA * e * z.relu()], 1)
    report.time("step-block", n, d, BlockSteps(w1, w2, samples, workers).candidates(),
                reference)
