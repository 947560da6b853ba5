"""Time and peak memory of the adapters beside the losses they stand in for, in one run.

    python benchmarks/peers.py

Needs what `make test-peers` installs. A step is forward and backward on embeddings of width 128. Times are those of the
processor on one thread, the median of interleaved repetitions, since a shared machine says little about time on the
wall; memory is what a fresh process needs for one step beyond what it held before. A peer that would need more than
8 GB is left out.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from process_status import peak_megabytes, reset_peak, resident_megabytes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
WIDTH = 128
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def lightly() -> dict[str, tuple[Step, Step]]:
    from integrations.real_peers import lightly_losses
    from rince.integrations import lightly as ours

    ntx, dcl = lightly_losses()
    return {
        "lightly NTXentLoss": (ntx.NTXentLoss(0.2), ours.NTXentLoss(0.2)),
        "lightly DCLLoss": (dcl.DCLLoss(0.2), ours.DCLLoss(0.2)),
    }


def open_clip() -> dict[str, tuple[Step, Step]]:
    from integrations.real_peers import open_clip_losses
    from rince.integrations import open_clip as ours

    theirs = open_clip_losses()
    norm = torch.nn.functional.normalize

    def clip(loss):
        return lambda a, b: loss(norm(a), norm(b), 10.0)

    def siglip(loss):
        return lambda a, b: loss(norm(a), norm(b), 10.0, torch.tensor(-10.0))

    return {
        "open_clip ClipLoss": (clip(theirs.ClipLoss()), clip(ours.ClipLoss())),
        "open_clip SigLipLoss": (siglip(theirs.SigLipLoss()), siglip(ours.SigLipLoss())),
    }


def sentence_transformers() -> dict[str, tuple[Step, Step]]:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from rince.integrations.sentence_transformers import InfoNCELoss

    theirs, ours = MultipleNegativesRankingLoss(None), InfoNCELoss(None)
    return {
        "sentence-transformers MultipleNegativesRankingLoss": (
            lambda a, b: theirs.compute_loss_from_embeddings([a, b], None),
            lambda a, b: ours.compute_loss_from_embeddings([a, b]),
        )
    }


def pytorch_metric_learning() -> dict[str, tuple[Step, Step]]:
    from pytorch_metric_learning import losses

    from rince.integrations import pytorch_metric_learning as ours

    return {
        "pytorch-metric-learning NTXentLoss": (
            losses.SelfSupervisedLoss(losses.NTXentLoss(0.2)),
            ours.SelfSupervisedLoss(ours.NTXentLoss(0.2)),
        ),
        # With one positive each it means the same, and there it is the one that takes large batches.
        "pytorch-metric-learning SupConLoss": (
            losses.SelfSupervisedLoss(losses.SupConLoss(0.2)),
            ours.SelfSupervisedLoss(ours.NTXentLoss(0.2)),
        ),
    }


PEERS = {f.__name__: f for f in (sentence_transformers, lightly, open_clip, pytorch_metric_learning)}
TOO_LARGE = {("pytorch-metric-learning NTXentLoss", 4096)}
"""Every positive pair against every negative pair: (2N)^3 numbers, 2.2 TB each at N = 4096."""
ENOUGH = 40
"""Seconds of one loss after which three repetitions will do."""


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    a = torch.randn(n, WIDTH, generator=g)
    return a.requires_grad_(), (a.detach() + torch.randn(n, WIDTH, generator=g)).requires_grad_()


def step(loss: Step, a: torch.Tensor, b: torch.Tensor) -> float:
    a.grad = b.grad = None
    start = time.process_time()
    loss(a, b).backward()
    return time.process_time() - start


def memory(peer: str, name: str, which: int, n: int) -> float:
    """MB of one step beyond the process before it."""
    run = subprocess.run(
        [sys.executable, __file__, "--one", peer, name, str(which), str(n)], capture_output=True, text=True, check=True
    )
    return float(run.stdout.split()[-1])


def one(peer: str, name: str, which: int, n: int) -> None:
    loss = PEERS[peer]()[name][which]
    step(loss, *batch(8))
    a, b = batch(n)
    # Imports leave a peak far above what is in use: forget it, so that the step's own can be seen.
    reset_peak()
    before = resident_megabytes()
    step(loss, a, b)
    print(peak_megabytes() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(256, 4096))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=tuple(PEERS))
    parser.add_argument("--repetitions", type=int, nargs=2, default=(200, 7), help="up to N = 512, and above")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.one:
        peer, name, which, n = args.one
        return one(peer, name, int(which), int(n))
    print("| loss | N | theirs ms | ours ms | ours / theirs | theirs MB | ours MB |\n" + "| --- " * 7 + "|")
    for peer in args.peers:
        for name, (theirs, ours) in PEERS[peer]().items():
            for n in args.sizes:
                a, b = batch(n)
                alone = (name, n) in TOO_LARGE
                times: list[list[float]] = [[], []]
                for repetition in range(args.repetitions[n > 512] + 1):
                    if repetition > 3 and max(map(sum, times)) > 1000 * ENOUGH:
                        break
                    for i, loss in enumerate((theirs, ours)):
                        if (i or not alone) and (spent := step(loss, a, b)) and repetition:
                            times[i].append(1000 * spent)
                space = [float("nan") if alone and not i else memory(peer, name, i, n) for i in range(2)]
                slow, fast = (statistics.median(t) if t else float("nan") for t in times)
                cells = [f"{slow:.1f}", f"{fast:.1f}", f"{fast / slow:.3f}", f"{space[0]:.0f}", f"{space[1]:.0f}"]
                print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
