"""Contrastive losses, dense, slow, in float64, one obvious line after the other: what the library is held against."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from rince.losses import Contrast, CrossView, Queue, Supervised, TwoView


def rince(pos: Tensor, neg: Tensor, q: float, lam) -> Tensor:
    """The paper's code, on exponentials; its limit at q = 0.

    Where both terms agree in most of their digits, even float64 keeps few of their difference: there the difference of
    their logarithms is taken first.
    """
    apart = info_nce(pos, neg) + torch.log(torch.as_tensor(lam, dtype=pos.dtype))
    if q == 0:
        return apart
    plain = -(pos**q) / q + (lam * (pos + neg)) ** q / q
    return torch.where(apart.abs() < 1e-6, pos**q * torch.expm1(q * apart) / q, plain)


def info_nce(pos: Tensor, neg: Tensor) -> Tensor:
    return torch.log1p(neg / pos)


def dcl(pos: Tensor, neg: Tensor) -> Tensor:
    return torch.log(neg / pos)


def gce(pos: Tensor, neg: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q with p^q = e^-x, in forms that keep small values (first) and small gradients (second)."""
    if q == 0:
        return info_nce(pos, neg)
    x = q * info_nce(pos, neg)
    return torch.where(x < 0.5, -torch.expm1(-x), 1 - torch.exp(-x)) / q


def symmetric_cross_entropy(pos: Tensor, neg: Tensor, alpha: float, beta: float, log_zero: float) -> Tensor:
    """Cross-entropies between (p, 1 - p) and (1, 0), both ways, with log 0 = log_zero."""
    p, rest = pos / (pos + neg), neg / (pos + neg)
    return alpha * info_nce(pos, neg) - beta * (p * 0 + rest * log_zero)


class Rows(NamedTuple):
    """Anchors with one positive each: exponentials of all scores, and what its candidates are to an anchor."""

    exponentials: Tensor
    positive: Tensor
    negatives: Tensor
    bag: Tensor
    t: float

    def of(self, mask: Tensor, power: float = 1.0) -> Tensor:
        """The sum of exp(power * score) over what is marked."""
        return (self.exponentials**power * mask).sum(1)


def debiased(rows: Rows, tau: float, neg: Tensor | None = None) -> Tensor:
    pos, number = rows.of(rows.positive), rows.negatives.sum(1).double()
    neg = rows.of(rows.negatives) if neg is None else neg
    true = torch.maximum(
        (neg - tau * number * pos) / (1 - tau), number * torch.exp(torch.tensor(-1.0 / rows.t).double())
    )
    return torch.log1p(true / pos)


def hard_negatives(rows: Rows, beta: float, tau: float) -> Tensor:
    weight = rows.exponentials**beta * rows.negatives
    mean_weight = weight.sum(1) / rows.negatives.sum(1).double()
    return debiased(rows, tau, (weight * rows.exponentials).sum(1) / mean_weight)


def mil_nce(rows: Rows) -> Tensor:
    return torch.log1p(rows.of(rows.negatives) / rows.of(rows.bag))


def sigmoid(rows: Rows, bias) -> Tensor:
    judged = logsigmoid(torch.where(rows.positive, 1, -1) * (rows.exponentials.log() + bias))
    return -(judged * (rows.positive | rows.negatives)).sum(1)


def contrasts(width: int, queue: int) -> dict[str, Callable[[], Contrast]]:
    """Constructors of all contrasts by name, with a queue of ``queue`` embeddings of ``width`` numbers."""
    return {
        "TwoView": TwoView,
        "CrossView": CrossView,
        "CrossView one way": lambda: CrossView(symmetric=False),
        "Queue": lambda: Queue(width, queue),
        "Supervised": Supervised,
    }


def rows(kind: str, z1: Tensor, z2: Tensor, t: float, ids=None, queue_ids=None, **others) -> Rows:
    exponentials, positive, counts = pairs(kind, z1, z2, t, ids=ids, queue_ids=queue_ids, **others)
    bag = ~counts
    if kind == "TwoView":
        bag = bag & ~torch.eye(len(bag), dtype=torch.bool)
    if kind == "Queue":
        bag[:, : len(z1)] = positive[:, : len(z1)]
    return Rows(exponentials, positive, counts & ~positive, bag, t)


def pairs(kind: str, z1: Tensor, z2: Tensor, t: float, labels=None, ids=None, queue=None, queue_ids=None):
    """Anchors x candidates: exponentials of the scores, and for each pair: is it a positive, does it count in the sum?

    The sum of the negatives of a pair (i, p) runs over the candidates that count for i, without p.
    """
    z1, z2 = normalize(z1.double(), dim=1), normalize(z2.double(), dim=1)
    n = len(z1)
    place = torch.arange(n)
    own = place if ids is None else ids
    if kind == "TwoView":
        z, own, place = torch.cat([z1, z2]), own.repeat(2), place.repeat(2)
        positive = (place[:, None] == place) & ~torch.eye(2 * n, dtype=torch.bool)
        return torch.exp(z @ z.T / t), positive, own[:, None] != own
    if kind == "Supervised":
        z, y = torch.cat([z1, z2]), labels.repeat(2)
        itself = torch.eye(2 * n, dtype=torch.bool)
        counts = ~itself if ids is None else own.repeat(2)[:, None] != own.repeat(2)
        return torch.exp(z @ z.T / t), (y[:, None] == y) & ~itself, counts
    if kind == "Queue":
        candidates = torch.cat([z2.detach(), normalize(queue.double(), dim=1)])
        positive = torch.zeros(n, len(candidates), dtype=torch.bool)
        positive[place, place] = True
        counts = torch.ones_like(positive)
        counts[:, :n] = False
        if ids is not None:
            counts[:, n:] = ids[:, None] != queue_ids
        return torch.exp(z1 @ candidates.T / t), positive, counts
    positive, counts = torch.eye(n, dtype=torch.bool), own[:, None] != own
    forth = torch.exp(z1 @ z2.T / t)
    if kind == "CrossView one way":
        return forth, positive, counts
    return torch.cat([forth, forth.T]), positive.repeat(2, 1), counts.repeat(2, 1)


def halves(kind: str, z1: Tensor, z2: Tensor, t: float, **others) -> tuple[Tensor, Tensor, Tensor]:
    """For every pair of anchor and positive: its exponential, the sum over its negatives, and which anchor it is."""
    exponentials, positive, counts = pairs(kind, z1, z2, t, **others)
    anchor, chosen = positive.nonzero(as_tuple=True)
    neg = []
    for rows in torch.arange(len(anchor)).split(4096):  # few at a time: each pair has a row of its own
        without = counts[anchor[rows]].index_put((torch.arange(len(rows)), chosen[rows]), torch.tensor(False))
        neg.append((exponentials[anchor[rows]] * without).sum(1))
    return exponentials[anchor, chosen], torch.cat(neg), anchor


def losses(objective, pos: Tensor, neg: Tensor, anchor: Tensor) -> Tensor:
    """One loss an anchor, the mean over its positives; ``objective(pos, neg)`` takes exponentials."""
    anchors = int(anchor.max()) + 1
    total = pos.new_zeros(anchors).index_add(0, anchor, objective(pos, neg))
    return total / torch.bincount(anchor, minlength=anchors)
