"""RINCE against the published formula and against peers: time and memory of forward + backward, as ratios in one run.

    make bench                                  (or: python benchmarks/loss.py --sizes 256 4096 --rounds 9)
    python benchmarks/loss.py --ratios --sizes 256 4096         (only what a loss costs beside another, in CPU seconds)
    python benchmarks/loss.py --small                           (only batches of 32 to 512 beside plain PyTorch)

Every loss takes two views of N x 128 embeddings. Times are medians over rounds in which all losses take turns, so that
what else the machine does hits them alike. Memory is the peak of a process of its own above what it held before.
"""

import argparse
import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence

import process_status
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

import rince

WIDTH = 128
SLOW = 20.0  # seconds after which two rounds of a loss will do
Loss = Callable[[Tensor, Tensor], Tensor]


def published(z1: Tensor, z2: Tensor, temperature: float = 0.5, q: float = 0.5, lam: float = 0.01) -> Tensor:
    """The formula as it is usually written: all exponentials at once, and a mask for the negatives."""
    n = len(z1)
    z1, z2 = normalize(z1, dim=1), normalize(z2, dim=1)
    z = torch.cat([z1, z2])
    mask = ~torch.eye(n, dtype=torch.bool).repeat(2, 2)
    neg = torch.exp(z @ z.T / temperature).masked_select(mask).view(2 * n, -1).sum(1)
    pos = torch.exp((z1 * z2).sum(1) / temperature).repeat(2)
    return (-(pos**q) / q + (lam * (pos + neg)) ** q / q).mean()


def lightly(temperature: float) -> Loss:
    from lightly.loss import NTXentLoss

    return NTXentLoss(temperature=temperature)


def metric_learning(temperature: float) -> Loss:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    return SelfSupervisedLoss(NTXentLoss(temperature=temperature))


def with_bags(loss: rince.MILNCE) -> Loss:
    """Two rows per bag."""
    return lambda z1, z2: loss(z1, z2, ids=torch.arange(len(z1)) // 2)


LOSSES: dict[str, Callable[[float], Loss]] = {  # by temperature
    "published": lambda t: functools.partial(published, temperature=t),
    "RINCE": lambda t: rince.RINCE(temperature=t),
    "InfoNCE": lambda t: rince.InfoNCE(temperature=t),
    "HardNegatives": lambda t: rince.HardNegatives(temperature=t),
    "HardNegatives beta 0.5": lambda t: rince.HardNegatives(beta=0.5, temperature=t),
    "HardNegatives beta 2": lambda t: rince.HardNegatives(beta=2, temperature=t),
    "Sigmoid": lambda t: rince.Sigmoid(temperature=t),
    "MILNCE": lambda t: with_bags(rince.MILNCE(temperature=t)),
    "lightly": lightly,
    "metric-learning": metric_learning,
}
USUAL = 0.5
EXTRA = (
    "HardNegatives",
    "HardNegatives beta 0.5",
    "HardNegatives beta 2",
    "Sigmoid",
    "MILNCE",
)  # with an extra reduction over the negatives
LARGEST = {"metric-learning": 256}  # it lists all pairs of negatives: at N = 4096 that would be 550 GB


def step(loss: Loss, z1: Tensor, z2: Tensor) -> None:
    z1.grad = z2.grad = None
    loss(z1, z2).backward()


def embeddings(n: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(n, WIDTH, generator=g, requires_grad=True) for _ in range(2))
    return z1, z2


def seconds(losses: dict[str, Loss], n: int, rounds: int) -> dict[str, float]:
    z1, z2 = embeddings(n)
    times: dict[str, list[float]] = {name: [] for name in losses}
    repeat = max(1, 1024 // n)  # short steps are timed several at a time
    names = list(losses)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody always follows the same one
            if sum(times[name]) * repeat > SLOW and len(times[name]) > 1:
                continue
            start = time.perf_counter()
            for _ in range(repeat):
                step(losses[name], z1, z2)
            times[name].append((time.perf_counter() - start) / repeat)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def paired_ratio(first: str, second: str, n: int, temperature: float = USUAL, budget: float = 20.0) -> float:
    """A loss's CPU time over another's: the median over pairs of steps right after each other, in turning order."""
    z1, z2 = embeddings(n)
    pair, ratios, spent = [LOSSES[name](temperature) for name in (first, second)], [], 0.0
    while len(ratios) < 5 or (spent < budget and len(ratios) < 400):
        taken = [0.0, 0.0]
        for i in (0, 1) if len(ratios) % 2 else (1, 0):
            start = time.process_time()
            step(pair[i], z1, z2)
            taken[i] = time.process_time() - start
        ratios.append(taken[0] / taken[1])
        spent += sum(taken)
    return statistics.median(ratios)


def peak_megabytes(name: str, n: int) -> float:
    """Extra peak memory of one step."""
    return extra_megabytes(LOSSES[name](USUAL), n)


def extra_megabytes(loss: Loss, n: int) -> float:
    """Extra peak memory of one step, in a child that has done nothing else."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        z1, z2 = embeddings(n)
        step(loss, *embeddings(64))  # thread pools and the like are not the loss's
        process_status.reset_peak()
        before = process_status.peak_megabytes()
        step(loss, z1, z2)
        send.send(process_status.peak_megabytes() - before)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    send.close()
    try:
        megabytes = receive.recv()
    except EOFError:  # killed, most likely for want of memory
        megabytes = float("nan")
    process.join()
    return megabytes


def plain_cross_entropy(a: Tensor, b: Tensor, weights: Tensor | None = None, ids: Tensor | None = None) -> Tensor:
    """InfoNCE of two modalities as most people write it: cross-entropy both ways."""
    scores = normalize(a, dim=1) @ normalize(b, dim=1).T / 0.2
    if ids is not None:
        others = (ids[:, None] == ids) & ~torch.eye(len(a), dtype=torch.bool)
        scores = scores.masked_fill(others, -torch.inf)
    targets = torch.arange(len(a))
    if weights is None:
        return (cross_entropy(scores, targets) + cross_entropy(scores.T, targets)) / 2
    both = cross_entropy(scores, targets, reduction="none") + cross_entropy(scores.T, targets, reduction="none")
    return (both * weights).sum() / (2 * weights.sum())


def plain_simclr(a: Tensor, b: Tensor, weights: Tensor | None = None, ids: Tensor | None = None) -> Tensor:
    """SimCLR's loss as most people write it: cross-entropy over a masked matrix."""
    n, z = len(a), normalize(torch.cat([a, b]), dim=1)
    scores = z @ z.T / 0.2
    mask = torch.eye(2 * n, dtype=torch.bool)
    if ids is not None:
        mask = (ids[:, None] == ids).repeat(2, 2) & ~torch.eye(n, dtype=torch.bool).repeat(2, 2) | mask
    scores = scores.masked_fill(mask, -torch.inf)
    targets = torch.arange(2 * n).roll(n)
    if weights is None:
        return cross_entropy(scores, targets)
    return (cross_entropy(scores, targets, reduction="none") * weights.repeat(2)).sum() / (2 * weights.sum())


def print_small(sizes: Sequence[int] = (32, 64, 128, 256, 512), rounds: int = 60) -> None:
    """Small batches beside plain PyTorch: medians of CPU time over rounds in which all take turns."""
    print(
        "\nsmall batches, one thread: times the CPU seconds of plain PyTorch (with weights and ids: the same in both)"
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for contrast, plain in ((rince.CrossView(), plain_cross_entropy), (rince.TwoView(), plain_simclr)):
        ours = {kind.__name__: kind(contrast=contrast) for kind in (rince.InfoNCE, rince.GCE, rince.RINCE)}
        for n in sizes:
            a, b = embeddings(n)
            both = {"weights": torch.rand(n), "ids": torch.arange(n) // 2}
            times: dict[tuple[str, bool], list[float]] = {}
            losses = {"plain": plain, **ours}
            cases = [(name, extra) for name in losses for extra in (False, True)]
            for turn in range(rounds):
                for name, extra in cases[turn % len(cases) :] + cases[: turn % len(cases)]:
                    call = functools.partial(losses[name], **both) if extra else losses[name]
                    start = time.process_time()
                    for _ in range(max(1, 512 // n)):
                        step(call, a, b)
                    times.setdefault((name, extra), []).append(time.process_time() - start)
            middle = {key: statistics.median(values) for key, values in times.items()}
            cells = [
                f"{name} {middle[name, False] / middle['plain', False]:.2f} "
                f"({middle[name, True] / middle['plain', True]:.2f})"
                for name in ours
            ]
            print(f"{n:>6}  {type(contrast).__name__:<10}{'  '.join(cells)}", flush=True)
    torch.set_num_threads(threads)


def print_compiled(sizes: Sequence[int] = (32, 128), rounds: int = 15) -> None:
    """Small batches compiled for all sizes, beside the same in eager mode, on one thread."""
    torch.set_num_threads(1)
    cases = {"InfoNCE, CrossView": rince.InfoNCE(contrast=rince.CrossView()), "GCE, TwoView": rince.GCE()}
    for name, eager in cases.items():
        compiled = torch.compile(eager, fullgraph=True, dynamic=True)
        for n in sizes:
            (a, b), times = embeddings(n), ([], [])
            for turn in range(-3, rounds):  # the first three compile and warm up
                for i in (turn % 2, 1 - turn % 2):
                    start = time.process_time()
                    for _ in range(max(1, 256 // n)):
                        step((eager, compiled)[i], a, b)
                    times[i].append(time.process_time() - start)
            ratio = statistics.median(times[1][3:]) / statistics.median(times[0][3:])
            print(f"{n:>6}  {name:<20}compiled takes {ratio:.2f} of the eager time", flush=True)


def importable(name: str) -> bool:
    try:
        LOSSES[name](USUAL)
    except Exception as error:  # whatever a peer's import trips over
        print(f"{name}: left out, it does not import here ({type(error).__name__}: {str(error).splitlines()[0][:80]})")
        return False
    return True


def print_ratios(n: int, temperatures: Sequence[float] = (USUAL,)) -> None:
    print(f"{n:>6}  RINCE takes {paired_ratio('RINCE', 'InfoNCE', n):.3f} of InfoNCE's time")
    for name in EXTRA:
        for t in temperatures:
            ratio = paired_ratio(name, "RINCE", n, t, budget=10)
            print(f"{n:>6}  {name} at t {t:g} takes {ratio:.3f} of RINCE's time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--memory-only", type=int, nargs="*", default=[16384], help="sizes for memory alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, help="as many as torch takes by default")
    parser.add_argument("--small", action="store_true", help="only small batches beside plain PyTorch")
    parser.add_argument("--compiled", action="store_true", help="only small batches compiled, beside eager ones")
    parser.add_argument("--ratios", action="store_true", help="only what a loss costs beside another, in CPU seconds")
    parser.add_argument(
        "--temperatures",
        type=float,
        nargs="+",
        default=[0.5, 0.05, 0.01],
        metavar="T",
        help="of --ratios (0.5 0.05 0.01)",
    )
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.small:
        print_small()
        return
    if options.compiled:
        print_compiled()
        return
    if options.ratios:
        for n in options.sizes:
            print_ratios(n, options.temperatures)
        return

    names = [name for name in LOSSES if importable(name)]
    fits = {n: [name for name in names if n <= LARGEST.get(name, n)] for n in options.sizes}
    # Memory first: children are forked while this process has no threads yet.
    memory = {(name, n): peak_megabytes(name, n) for n in options.sizes for name in fits[n]}
    memory |= {(name, n): peak_megabytes(name, n) for n in options.memory_only for name in ("RINCE", *EXTRA)}

    print(f"\nforward + backward, D = {WIDTH}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(f"{'N':>6}  {'loss':<24}{'ms':>10}{'speed':>9}{'extra MB':>11}{'memory':>9}")
    for n in options.sizes:
        losses = {name: LOSSES[name](USUAL) for name in fits[n]}
        times = seconds(losses, n, options.rounds if n <= 4096 else 3)
        for name in fits[n]:
            speed, share = times["published"] / times[name], memory[name, n] / memory["published", n]
            print(f"{n:>6}  {name:<24}{1e3 * times[name]:>10.2f}{speed:>8.2f}x{memory[name, n]:>11.1f}{share:>9.3f}")
        print_ratios(n)
    for n in options.memory_only:
        for name in ("RINCE", *EXTRA):
            print(f"{n:>6}  {name:<24}{'':>10}{'':>9}{memory[name, n]:>11.1f}")
    print_small()
    print("\nspeed: times faster than the published formula; memory: share of what the published formula takes")


if __name__ == "__main__":
    main()
