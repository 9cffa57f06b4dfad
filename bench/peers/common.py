"""Shared parts of the PyTorch peers: threads, timing, memory and messages."""

import ctypes
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch

ETA = 1e-3  # learning rate of the steps that are timed


def say(text):
    """A message for people: never on stdout, which carries only the CSV."""
    print(text, file=sys.stderr, flush=True)


def row(*values):
    """One CSV row on stdout, written at once."""
    shown = (f"{v:.6g}" if isinstance(v, float) else str(v) for v in values)
    print(",".join(shown), flush=True)


def integers(text):
    """A list of integers from a comma-separated argument."""
    return [int(part) for part in text.split(",") if part]


def blas_path():
    """The BLAS library that this process has loaded, or None."""
    known = ("libopenblas", "libmkl_rt", "libmkl_core", "libblis", "libblas.so", "libatlas")
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "/" in line}
    except OSError:
        return None
    for name in known:
        for path in sorted(paths):
            if name in path:
                return path
    return None


def _openblas_setter():
    """OpenBLAS's own thread switch (torch.set_num_threads does not reach it), or None."""
    path = blas_path()
    if path is None:
        return None
    try:
        return ctypes.CDLL(path).openblas_set_num_threads
    except (OSError, AttributeError):
        return None


torch.mm(torch.ones(2, 2), torch.ones(2, 2))  # makes sure that the BLAS is loaded
_set_openblas = _openblas_setter()


def set_threads(operators, blas=None):
    """Threads inside one torch operator, and inside one BLAS call."""
    torch.set_num_threads(operators)
    if _set_openblas is not None:
        _set_openblas(operators if blas is None else blas)


def banner(threads):
    """Says on stderr what is being measured with."""
    say(f"# torch {torch.__version__}, threads {threads}, BLAS {blas_path() or 'built in'}, "
        f"CPU capability {cpu_capability()}")


def cpu_capability():
    """The vector instructions that torch's own kernels use."""
    for line in torch.__config__.show().splitlines():
        if "CPU capability" in line:
            return line.split(":")[-1].replace("CPU capability usage", "").strip()
    return "unknown"


def fits(need, what):
    """Whether `need` bytes leave a quarter of the available memory free; says so if not."""
    available = None
    try:
        with open("/proc/meminfo") as info:
            for line in info:
                if line.startswith("MemAvailable:"):
                    available = int(line.split()[1]) * 1024
    except OSError:
        pass
    if available is None or need <= 0.75 * available:
        return True
    say(f"skipped: {what} needs {need / 2**30:.1f} GiB, {available / 2**30:.1f} GiB available")
    return False


def spread(count, parts):
    """`count` things in at most `parts` contiguous shares: [(first, last), ...]."""
    parts = max(1, min(parts, count))
    edges = [count * i // parts for i in range(parts + 1)]
    return list(zip(edges[:-1], edges[1:]))


class Workers:
    """Runs function(share) for several shares at once: the caller and threads - 1 helpers.

    With compiled (TorchScript) functions the interpreter lock is free while they run, so that
    this splits work over users once per operation, not once per operator.
    """

    def __init__(self, threads):
        self.threads = threads
        self.pool = ThreadPoolExecutor(max(1, threads - 1))

    def run(self, function, shares):
        """Calls function(*share) for each share and waits for all."""
        if len(shares) == 1:
            function(*shares[0])
            return
        others = [self.pool.submit(_inference, function, share) for share in shares[1:]]
        function(*shares[0])
        for other in others:
            other.result()


def _inference(function, share):
    with torch.inference_mode():
        return function(*share)


def fastest(function, seconds, least=3):
    """Smallest time of one call within about `seconds`, after a warm-up."""
    for _ in range(3):  # TorchScript profiles and compiles in its first calls
        function()
    best = float("inf")
    end = time.perf_counter() + seconds
    count = 0
    while count < least or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def in_turn(step, samples):
    """A function that calls step(*sample) with the next sample, so that errors do not die out."""
    calls = [0]

    def operation():
        sample = samples[calls[0] % len(samples)]
        calls[0] += 1
        step(*sample)

    return operation


class Candidate:
    """One way to do an operation.

    build() returns (operation, result): a function without arguments that is timed, and a
    function that runs it once on fresh data and returns the outcome for the comparison with
    the reference. `inside` is the number of threads inside one operator, `blas` inside BLAS.
    `tiled`: cut into pieces by hand.
    """

    def __init__(self, name, build, inside, blas=None):
        self.name = name
        self.build = build
        self.inside = inside
        self.blas = inside if blas is None else blas
        self.tiled = "script" in name or name.startswith("chunks")


def best_of(candidates, reference, seconds, verbose):
    """Checks every candidate against the reference, times all; returns them, fastest first,
    as [seconds, candidate].

    Half of the budget screens all of them, the other half goes to the three best.
    """
    screened = []
    share = 0.5 * seconds / len(candidates)
    for candidate in candidates:
        set_threads(candidate.inside, candidate.blas)
        operation, result = candidate.build()
        if not torch.allclose(result(), reference, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"formulation {candidate.name} disagrees with the reference")
        taken = fastest(operation, share)
        screened.append([taken, candidate])
        if verbose:
            say(f"  {taken * 1e3:10.4f} ms  {candidate.name}")
        del operation, result
    screened.sort(key=lambda entry: entry[0])
    for entry in screened[:3]:
        candidate = entry[1]
        set_threads(candidate.inside, candidate.blas)
        operation, _ = candidate.build()
        entry[0] = min(entry[0], fastest(operation, seconds / 6))
        del operation
    screened.sort(key=lambda entry: entry[0])
    return screened


def unit(*shape):
    """Random vectors of length 1."""
    x = torch.randn(*shape)
    return x / x.norm(dim=-1, keepdim=True)


@torch.jit.script
def step_users_first(x, r: float, eta: float, w1, w2, width: int, gemm: bool,
                     first: int, last: int):
    """In place on chunks [first, last); order (user, unit)."""
    column = x.view(-1, 1)
    line = x.view(1, -1)
    for i in range(first, last):
        a = w1[i]
        b = w2[i]
        z = torch.mm(line, a).view(-1)
        g = torch.ops.aten.threshold_backward(b, z, 0)
        h = z.relu_()
        e = (h * b).view(-1, width).sum([1], keepdim=True).sub_(r).mul_(-eta)
        g.view(-1, width).mul_(e)
        if gemm:
            a.addmm_(column, g.view(1, -1))
        else:
            a.addcmul_(column, g.view(1, -1))
        b.view(-1, width).addcmul_(h.view(-1, width), e)


@torch.jit.script
def predict_users_first(x, w1, w2, out, width: int, first: int, last: int):
    """Chunks [first, last): w1 [C,d,c*m], w2 [C,c*m], order (user, unit); out [C,K,c]."""
    z = torch.empty([x.size(0), w1.size(2)])
    zv = z.view(x.size(0), -1, width)
    for i in range(first, last):
        torch.mm(x, w1[i], out=z)
        z.relu_()
        z.mul_(w2[i])
        torch.sum(zv, [2], out=out[i])
