"""Two small towers on two halves of images, some of them mismatched: what the demo and its benchmark share."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince import small_towers
from rince.audit.fit.towers import Recipe, tower
from rince.losses import ContrastiveLoss
from rince.small_towers import Split, TwoNetworks
from rince.trust.cross_fitted import judge_embeddings

if TYPE_CHECKING:
    from rince.audit import Audit

BATCH = 256
RECIPE = Recipe(dropout=0.0, layers=2)


def split(a: NDArray[np.float32], b: NDArray[np.float32], rate: float, seed: int, choose: int, test: int) -> Split:
    """``test`` pairs for testing, ``choose`` for choosing a temperature, the rest for training with wrong pairs."""
    return small_towers.split(torch.from_numpy(a), torch.from_numpy(b), rate, seed, choose, test)


def batches(pairs: int, epochs: int, seed: int, batch: int = BATCH) -> list[list[Tensor]]:
    """The rows of every batch of every epoch; the last, smaller one of an epoch is left out."""
    return small_towers.batches(pairs, epochs, torch.Generator().manual_seed(seed), batch)


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int, weights: Tensor | None = None
) -> TwoNetworks:
    """Two towers, trained on the pairs as far as ``weights`` trusts each of them."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        towers = tower(a.shape[1], RECIPE), tower(b.shape[1], RECIPE)
    optimizer = torch.optim.Adam([p for one in towers for p in one.parameters()], lr=1e-3, fused=True)
    return small_towers.fit(towers, optimizer, a, b, loss, batches(len(a), epochs, seed), weights)


def found_trust(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, temperature: float, seed: int, epochs: int, folds: int = 3
) -> "Audit":
    """What models find that never saw the pairs they judge, as ``rince train --trust auto`` does it.

    All of them together take as many steps as one training on all pairs.
    """
    fold = torch.randperm(len(a), generator=torch.Generator().manual_seed(seed)) % folds

    def train(rows: Tensor) -> TwoNetworks:
        return train_towers(a[rows], b[rows], loss, seed, max(1, epochs // (folds - 1)))

    sides = small_towers.held_out_embeddings(a, b, fold, RECIPE.dim, train)
    return judge_embeddings(*sides, fold, temperature=temperature, seed=seed)


@torch.no_grad()
def recalls(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """How often the right B is the first, and among the first ten, of all B for an A."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    rank = (~(scores < scores.diagonal()[:, None])).sum(1) - 1  # equal scores and NaN are no success
    return float((rank == 0).float().mean()), float((rank < 10).float().mean())


def auc(scores: NDArray[np.float32], wrong: NDArray[np.bool_]) -> float:
    """The chance that a right pair scores higher than a wrong one; NaN if there are none."""
    if not wrong.any() or wrong.all():
        return float("nan")
    right = np.sort(scores[~wrong])
    below = np.searchsorted(right, scores[wrong], "left") + np.searchsorted(right, scores[wrong], "right")
    return 1 - float(below.mean()) / (2 * len(right))
