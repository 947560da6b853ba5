"""Accuracy of the audit, beside Storey's estimate and a two-Gaussian mixture.

    python -m experiments audit-accuracy                            digits, rates 0 to 60 %, three seeds
    python -m experiments audit-accuracy --cifar10 DIR              also halves of 6,000 CIFAR-10 images
    python -m experiments audit-accuracy --spoken fsdd.zip          also spoken digits with images of digits

DIR holds cifar-10-batches-py. The mixture is the one of the noisy-correspondence literature: two Gaussians fitted to
the same scores; pairs in the lower component are called wrong.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rince.audit import audit_pairs, storey
from rince.data.digit_halves import digit_pairs
from rince.data.images import CIFAR10
from rince.demo import auc
from rince.noise.pairs import wrong_pairs

RATES = (0.0, 0.1, 0.2, 0.4, 0.6)
Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


def cifar10_halves(folder: Path, start: int, n: int = 6000) -> Pair:
    """Top and bottom halves of images, pooled 2 x 2."""
    images = CIFAR10(str(folder)).read()["train"][0].numpy()[start : start + n]
    pooled = images.reshape(-1, 3, 16, 2, 16, 2).astype(np.float32).mean((3, 5)) / 255
    return pooled[:, :, :8].reshape(n, -1), pooled[:, :, 8:].reshape(n, -1)


def data_sets(options: argparse.Namespace, seed: int) -> Iterator[tuple[str, Pair]]:
    for cut in options.cuts:
        yield f"digits {cut}", digit_pairs(cut)[:2]
    if options.cifar10:
        yield "cifar-10 halves", cifar10_halves(options.cifar10, 6000 * seed % 44_000)
    if options.spoken:
        from experiments.evidence.spoken_pairs import spoken_digit_pairs

        yield "spoken digits", spoken_digit_pairs(options.spoken, seed)[:2]


def two_gaussians(scores: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
    """Weight of the lower Gaussian and every pair's probability of belonging to it."""
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(2, random_state=0, n_init=3).fit(scores[:, None])
    lower = int(mixture.means_[:, 0].argmin())
    return float(mixture.weights_[lower]), mixture.predict_proba(scores[:, None])[:, lower]


def quality(options: argparse.Namespace) -> None:
    head = (
        f"{'data':<20}{'true':>6}{'seed':>5} |{'rate':>7}{'error':>8}{'95 % interval':>16}{'AUC':>7}{'ECE':>7}"
        f"{'flagged':>9}{'false':>7}{'found':>7}{'s':>6} |{'Storey':>8} |{'mixture':>8}{'AUC':>7}{'ECE':>7}"
    )
    print(head + "\n" + "-" * len(head), flush=True)
    for rate in options.rates:
        for seed in range(options.first, options.first + options.seeds):
            for name, (a, b) in data_sets(options, seed):
                partner, wrong = wrong_pairs(len(a), rate, seed)
                start = time.perf_counter()
                audit = audit_pairs(a, b[partner], fit=True, seed=seed)
                print(row(name, rate, seed, audit, wrong, time.perf_counter() - start), flush=True)


def row(name: str, rate: float, seed: int, audit: Any, wrong: NDArray[np.bool_], seconds: float) -> str:
    flags = audit.flag(0.1)
    false = float((~wrong[flags]).mean()) if len(flags) else 0.0
    recall = float(wrong[flags].sum() / max(1, wrong.sum()))
    weight, lower = two_gaussians(audit.scores)
    interval = f"{audit.interval[0]:.3f} - {audit.interval[1]:.3f}"
    return (
        f"{name:<20}{rate:>6.0%}{seed:>5} |{audit.noise_rate:>7.3f}{audit.noise_rate - wrong.mean():>+8.3f}"
        f"{interval:>16}{auc(-audit.p_wrong, wrong):>7.3f}{calibration_error(audit.p_wrong, wrong):>7.3f}"
        f"{len(flags):>9}{false:>7.3f}"
        f"{recall:>7.3f}{seconds:>6.0f} |{storey(audit.p_values) - wrong.mean():>+8.3f} |{weight - wrong.mean():>+8.3f}"
        f"{auc(-lower, wrong):>7.3f}{calibration_error(lower, wrong):>7.3f}"
    )


def calibration_error(chance: NDArray[Any], wrong: NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: mean gap between predicted and true share of wrong pairs over bins."""
    index = np.minimum((chance * bins).astype(int), bins - 1)
    return float(sum(abs((chance - wrong)[index == k].mean()) * (index == k).mean() for k in np.unique(index)))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, metavar="DIR")
    parser.add_argument("--spoken", type=Path, metavar="PATH")
    parser.add_argument("--cuts", nargs="*", default=["rows"], help="how digits are cut (rows, top_bottom, ...)")
    parser.add_argument("--rates", nargs="*", type=float, default=RATES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    quality(options)
