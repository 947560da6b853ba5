"""Losses on random batches against the dense float64 reference: values and gradients."""

import random
import warnings

import torch

import reference
import rince
from rince.losses import objectives

CONTRASTS = {
    "TwoView": lambda width: rince.TwoView(),
    "CrossView": lambda width: rince.CrossView(),
    "CrossView one way": lambda width: rince.CrossView(symmetric=False),
    "Queue": lambda width: rince.Queue(width, 64),
    "Supervised": lambda width: rince.Supervised(),
}
SIZES = (2, 3, 5, 8, 17, 64, 127, 128, 200, 256, 257, 511, 512, 513, 600)
TEMPERATURES = (0.02, 0.0329, 0.033, 0.0331, 0.05, 0.07, 0.1, 0.2, 0.5, 1.0)


def one(chance: random.Random) -> tuple[str, str | None]:
    """What was tried, and what is wrong with it or None."""
    kind, n, width = chance.choice(list(CONTRASTS)), chance.choice(SIZES), chance.choice((1, 2, 3, 16, 31, 128))
    n = min(n, 128) if kind == "Supervised" else n
    t, dtype = chance.choice(TEMPERATURES), chance.choice((torch.float32, torch.float64))
    with_ids = chance.random() < 0.4
    name, loss_of, objective = _objective(chance, t)
    what = f"{name} {kind} n={n} d={width} t={t} {dtype}{' ids' if with_ids else ''}"
    g = torch.Generator().manual_seed(chance.getrandbits(32))
    z1 = torch.randn(n, width, generator=g, dtype=dtype)
    z2 = (z1 + chance.choice((0.01, 1.0, 10.0)) * torch.randn(n, width, generator=g, dtype=dtype)).requires_grad_()
    z1.requires_grad_()
    labels = torch.randint(0, max(2, n // 4), (n,), generator=g)
    ids = torch.randint(0, max(2, n // 2), (n,), generator=g) if with_ids else None
    queue, queue_ids = (
        torch.randn(40, width, generator=g, dtype=dtype),
        torch.randint(0, max(2, n // 2), (40,), generator=g),
    )
    others = {"labels": labels, "queue": queue, "ids": ids, "queue_ids": queue_ids}
    expected = reference.losses(objective, *reference.halves(kind, z1, z2, t, **others)).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = loss_of(CONTRASTS[kind](width))
        if kind == "Queue":
            loss.contrast.push(queue.float(), **({"ids": queue_ids} if with_ids else {}))
        value = loss(z1, z2, labels=labels if kind == "Supervised" else None, ids=ids)
    return what, _difference(value, expected, z1, z2, t)


def _objective(chance: random.Random, t: float):
    kind = chance.choice(("rince", "rince", "info_nce", "dcl"))
    if kind == "rince":
        q, lam = chance.choice((0.0, 1e-8, 1e-3, 0.1, 0.37, 0.5, 1.0)), chance.choice((0.01, 0.1, 0.5, 1.0))
        return f"rince q={q} lam={lam}", lambda c: rince.RINCE(q, lam, t, c), lambda p, n: reference.rince(p, n, q, lam)
    ours, theirs = getattr(objectives, kind), getattr(reference, kind)
    return kind, lambda c: rince.ContrastiveLoss(ours, t, c), theirs


def _difference(value: torch.Tensor, expected: torch.Tensor, z1, z2, t: float) -> str | None:
    """With the limits of tests/losses/test_loss.py."""
    if not expected.abs() < 1e30:
        return None  # no float32 holds the true value
    bound = 1e-5 if t >= 0.1 else 2e-4
    scale = max(abs(expected.item()), 1e-2)
    if not abs(value.item() - expected.item()) <= bound * scale:
        return f"value {value.item()}, expected {expected.item()}"
    got = torch.cat(torch.autograd.grad(value, (z1, z2), materialize_grads=True))
    true = torch.cat(torch.autograd.grad(expected, (z1, z2), materialize_grads=True))
    if true.norm() < 1e30 and not (got.double() - true.double()).norm() <= bound * max(true.norm(), 1e-2 * scale):
        return f"gradient off by {(got.double() - true.double()).norm():.2e} of {true.norm():.2e}"
    return None
