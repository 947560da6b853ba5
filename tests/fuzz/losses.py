"""Losses on random batches against the dense float64 reference: values and gradients."""

import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

import rince
from rince.errors import UsageError
from rince.losses import objectives
from support.losses import reference

CONTRASTS: dict[str, Callable[[int], Any]] = {
    "TwoView": lambda width: rince.TwoView(),
    "CrossView": lambda width: rince.CrossView(),
    "CrossView one way": lambda width: rince.CrossView(symmetric=False),
    "Queue": lambda width: rince.Queue(width, 64),
    "Supervised": lambda width: rince.Supervised(),
}
SIZES = (2, 3, 5, 8, 17, 64, 127, 128, 200, 256, 257, 511, 512, 513, 600)
TEMPERATURES = (0.02, 0.0329, 0.033, 0.0331, 0.05, 0.07, 0.1, 0.2, 0.5, 1.0)
WIDTHS = (2, 3, 16, 31, 128)
TYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
HALVES = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # a gradient is rounded to the type of its embedding


class Named(NamedTuple):
    """A loss: what to call it, how to make it for a contrast and a reduction, and its dense form.

    ``plain`` takes (pos, neg); ``whole`` takes all scores of an anchor and has no meaning for several positives.
    """

    name: str
    make: Callable[..., Any]
    plain: Callable[[Tensor, Tensor], Tensor] | None = None
    whole: Callable[[Any], Tensor] | None = None


class Case(NamedTuple):
    """A batch and how it is to be compared."""

    kind: str
    loss: Named
    t: float
    z1: Tensor
    z2: Tensor
    labels: Tensor
    ids: Tensor | None
    weights: Tensor | None
    queue: Tensor
    queue_ids: Tensor
    reduction: str

    def __str__(self) -> str:
        given = [name for name in ("ids", "weights") if getattr(self, name) is not None]
        n, width = self.z1.shape
        return f"{self.loss.name} {self.kind} n={n} d={width} t={self.t} {self.z1.dtype} {self.reduction} {given}"


def one(chance: random.Random) -> tuple[str, str | None]:
    """What was tried, and what is wrong with it or None."""
    case = drawn(chance)
    expected = dense(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = case.loss.make(contrast=CONTRASTS[case.kind](case.z1.shape[1]), reduction=case.reduction)
        if case.kind == "Queue":
            loss.contrast.push(case.queue.float(), **({} if case.ids is None else {"ids": case.queue_ids}))
        labels = case.labels if case.kind == "Supervised" else None
        try:
            value = loss(case.z1, case.z2, labels=labels, ids=case.ids, weights=case.weights)
        except UsageError as refusal:  # of gradients that halves cannot hold
            honest = case.z1.dtype in HALVES and "has gradients of the size" in str(refusal)
            return str(case), None if honest else f"refused: {refusal}"
    return str(case), difference(case, value, _gradient(value, case), expected)


def _gradient(value: Tensor, case: Case) -> Tensor:
    found = torch.autograd.grad(value, (case.z1, case.z2), materialize_grads=True)
    return torch.cat([gradient.double() for gradient in found])


def drawn(chance: random.Random, most: int = 600, several: bool = False) -> Case:
    kind = chance.choice(list(CONTRASTS))
    n, width = min(most, chance.choice(SIZES)), chance.choice(WIDTHS)
    n = min(n, 128) if kind == "Supervised" else n
    t, dtype = chance.choice(TEMPERATURES), torch.float32 if several else chance.choice(TYPES)
    loss = _loss(chance, t, kind)
    g = torch.Generator().manual_seed(chance.getrandbits(32))
    z1 = torch.randn(n, width, generator=g, dtype=torch.float64)
    z2 = z1 + chance.choice((0.01, 1.0, 10.0)) * torch.randn(n, width, generator=g, dtype=torch.float64)
    labels = torch.randint(0, max(2, n // 4), (n,), generator=g)
    if chance.random() < 0.2:
        labels[0] = labels.max() + 1  # alone in its class
    with_ids = loss.name == "mil_nce" or chance.random() < 0.4
    ids = torch.randint(0, max(2, n // 2), (n,), generator=g) if with_ids else None
    weights = _weights(chance, n, g) if chance.random() < 0.4 else None
    queue, queue_ids = torch.randn(40, width, generator=g), torch.randint(0, max(2, n // 2), (40,), generator=g)
    z1, z2 = (z.to(dtype).requires_grad_() for z in (z1, z2))
    reduction = chance.choice(("mean", "mean", "sum"))
    return Case(kind, loss, t, z1, z2, labels, ids, weights, queue, queue_ids, reduction)


def _weights(chance: random.Random, n: int, g: torch.Generator) -> Tensor:
    weights = torch.rand(n, generator=g)
    if chance.random() < 0.5:
        weights[torch.rand(n, generator=g) < 0.5] = 0
    return weights if weights.any() else torch.ones(n)


def _loss(chance: random.Random, t: float, kind: str) -> Named:
    names = ["rince", "rince", "info_nce", "dcl", "gce", "sce"]
    if kind != "Supervised":
        names += ["debiased", "hard", "mil_nce", "sigmoid"]
    name = chance.choice(names)
    q, lam = chance.choice((0.0, 1e-3, 0.1, 0.37, 0.5, 1.0)), chance.choice((0.01, 0.1, 0.5, 1.0))
    if name == "rince":
        dense = lambda p, n: reference.rince(p, n, q, lam)  # noqa: E731
        return Named(f"rince q={q} lam={lam}", lambda **c: rince.RINCE.paper(q=q, lam=lam, temperature=t, **c), dense)
    if name == "gce":
        return Named(f"gce q={q}", lambda **c: rince.GCE(q=q, temperature=t, **c), lambda p, n: reference.gce(p, n, q))
    if name == "sce":
        a, b = chance.choice((0.0, 0.3, 1.0)), chance.choice((0.5, 2.0))
        dense = lambda p, n: reference.symmetric_cross_entropy(p, n, a, b, -4.0)  # noqa: E731
        return Named(
            f"sce {a} {b}",
            lambda **c: rince.SymmetricCrossEntropy(alpha=a, beta=b, log_zero=-4.0, temperature=t, **c),
            dense,
        )
    tau, beta, bias = chance.choice((0.0, 0.1, 0.6)), chance.choice((0.0, 0.5, 1.0, 2.0)), chance.choice((-10.0, 0.0))
    if name == "debiased":
        dense = lambda rows: reference.debiased(rows, tau)  # noqa: E731
        return Named(f"debiased {tau}", lambda **c: rince.Debiased(tau_plus=tau, temperature=t, **c), whole=dense)
    if name == "hard":
        dense = lambda rows: reference.hard_negatives(rows, beta, tau)  # noqa: E731
        return Named(
            f"hard {beta} {tau}",
            lambda **c: rince.HardNegatives(beta=beta, tau_plus=tau, temperature=t, **c),
            whole=dense,
        )
    if name == "mil_nce":
        return Named(name, lambda **c: rince.MILNCE(temperature=t, **c), whole=reference.mil_nce)
    if name == "sigmoid":
        dense = lambda rows: reference.sigmoid(rows, bias)  # noqa: E731
        return Named(
            f"sigmoid {bias}", lambda **c: rince.Sigmoid(temperature=t, bias=bias, learn_bias=False, **c), whole=dense
        )
    ours, theirs = getattr(objectives, name), getattr(reference, name)
    return Named(name, lambda **c: rince.ContrastiveLoss(ours, temperature=t, **c), theirs)


def dense(case: Case) -> Tensor:
    """The loss of the batch by the reference."""
    if case.loss.whole is not None:
        return _reduced(case, case.loss.whole(reference.rows(case.kind, case.z1, case.z2, case.t, **_others(case))))
    return _reduced(case, reference.losses(case.loss.plain, *_halves(case)))


def _others(case: Case) -> dict[str, Tensor | None]:
    return {"labels": case.labels, "queue": case.queue, "ids": case.ids, "queue_ids": case.queue_ids}


def _halves(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    return reference.halves(case.kind, case.z1, case.z2, case.t, **_others(case))


def _reduced(case: Case, losses: Tensor) -> Tensor:
    weights = torch.ones(len(case.z1)) if case.weights is None else case.weights
    weights = weights.double().repeat(len(losses) // len(case.z1))
    total = (losses * weights).sum()
    return total if case.reduction == "sum" else total / weights.sum()


def difference(case: Case, value: Tensor, got: Tensor, expected: Tensor) -> str | None:
    """With the limits of tests/losses/test_loss.py and, for debiased losses, of test_losses_of_scores.py there.

    Where these are not kept, the errors may be as large as those that rounded embeddings cause by themselves.
    """
    if not expected.abs() < 1e30:
        return None  # no float32 holds the true value
    bound = (1e-5 if case.t >= 0.1 else 2e-4) * (4 if _debiased(case) else 1)
    scale = max(abs(expected.item()), 1e-2)
    true = _gradient(expected, case)
    value_off = abs(value.item() - expected.item()) - bound * scale - _rounding_of_terms(case)
    if not value_off <= 0 and not value_off <= _moved_by_rounding(case, expected, true)[0]:
        return f"value {value.item()}, expected {expected.item()}"
    largest = torch.finfo(case.z1.dtype).max if case.z1.dtype in HALVES else 1e30
    if not true.abs().max() < largest:
        return None
    bound = max(bound, HALVES.get(case.z1.dtype, 0))
    tiny = torch.finfo(case.z1.dtype).tiny * true.numel() ** 0.5
    off = float((got - true).norm()) - bound * max(float(true.norm()), 1e-2 * scale) - tiny
    rounding = _rounding_of_radial_parts(case) + _rounding_of_pulls(case)
    if not off <= 0 and not off <= _moved_by_rounding(case, expected, true)[1] + rounding:
        return f"gradient off by {(got - true).norm():.2e} of {true.norm():.2e}"
    return None


def _debiased(case: Case) -> bool:
    """Whether a share of the positive is taken off the negatives, in less than double precision."""
    named = case.loss.name.startswith(("debiased", "hard")) and not case.loss.name.endswith(" 0.0")
    return named and case.z1.dtype != torch.float64


def _rounding_of_terms(case: Case) -> float:
    """A loss is the difference of terms that float32 rounds, however small the difference is.

    They have the size of the scores or, in RINCE, of pos^q / q, whose limit for q to 0 is the score.
    """
    if case.z1.dtype == torch.float64:
        return 0.0
    q = float(case.loss.name.split("=")[1].split()[0]) if case.loss.name.startswith("rince") else 0.0
    positive, _, _ = _halves(case._replace(z1=case.z1.detach(), z2=case.z2.detach()))
    largest = float((((positive**q - 1) / q) if q else positive.log()).abs().mean())
    return 4e-7 * largest * (len(case.z1) * 2 if case.reduction == "sum" else 1)


def _rounding_of_radial_parts(case: Case) -> float:
    """The gradient of a unit vector also points along it; that part is taken off again, but not what it was rounded by.

    It is large where many pulls point to where the vector is already, and a short embedding enlarges what is left.
    """
    if case.z1.dtype == torch.float64:
        return 0.0
    lengths = [z.detach().double().norm(dim=1, keepdim=True) for z in (case.z1, case.z2)]
    units = [(z.detach().double() / length).requires_grad_() for z, length in zip(case[3:5], lengths, strict=True)]
    near, normalize = case._replace(z1=units[0], z2=units[1]), reference.normalize
    with mock.patch.object(reference, "normalize", lambda z, dim: z if z.requires_grad else normalize(z, dim=dim)):
        of_units = _gradient(dense(near), near)
    return 4 * torch.finfo(torch.float32).eps * float((of_units / torch.cat(lengths)).norm())


def _rounding_of_pulls(case: Case) -> float:
    """With several positives, a gradient is the sum of the pulls of all of them, each rounded before they cancel.

    They cancel to almost nothing where positives share all of the softmax: what one gains, another loses. Four times
    what independent errors of float32 add up to.
    """
    if case.z1.dtype == torch.float64 or case.kind != "Supervised":
        return 0.0
    positive, negative, anchor = _halves(case)
    scores = [x.detach().log().requires_grad_() for x in (positive, negative)]
    value = _reduced(case, reference.losses(case.loss.plain, scores[0].exp(), scores[1].exp(), anchor))
    lengths = torch.cat([z.detach().double().norm(dim=1) for z in (case.z1, case.z2)])[anchor]
    pulls = torch.cat([g / lengths / case.t for g in torch.autograd.grad(value, scores, materialize_grads=True)])
    return 4 * torch.finfo(torch.float32).eps / 2 * float(pulls.norm())


def _moved_by_rounding(case: Case, expected: Tensor, true: Tensor) -> tuple[float, float]:
    """How far the true value and gradient move when unit vectors are rounded to float32, eight times over.

    No formula in float32 can do better than that where a loss amplifies the errors of scores: debiased ones without a
    bound (see test_losses_of_scores.py), the others where large parts of a gradient cancel.
    """
    if case.z1.dtype == torch.float64:
        return 0.0, 0.0
    g, normalize = torch.Generator().manual_seed(0), reference.normalize

    def rounded(z: Tensor, dim: int) -> Tensor:
        return normalize(z, dim=dim) * (1 + 6e-8 * torch.randn(z.shape, generator=g, dtype=torch.float64))

    moved_value = moved = 0.0
    for _ in range(3):
        with mock.patch.object(reference, "normalize", rounded):
            other = dense(case)
        moved_value = max(moved_value, abs(other.item() - expected.item()))
        moved = max(moved, float((_gradient(other, case) - true).norm()))
    return 8 * moved_value, 8 * moved
