"""Batches, contrasts and losses with their dense float64 forms, for the tests of losses."""

import torch

import rince
from rince.losses import objectives
from support.losses import reference
from support.losses.reference import contrasts

WIDTH = 16


CONTRASTS = contrasts(WIDTH, 40)
ONE_POSITIVE = [kind for kind in CONTRASTS if kind != "Supervised"]
QS = (0, 1e-8, 1e-3, 0.1, 0.5, 1)
BIAS = -3.0

# Functions of (pos, neg): name, how to make the loss from a temperature and a contrast, dense form.
PLAIN = {
    "info_nce": (
        lambda t, c: rince.ContrastiveLoss(objectives.info_nce, temperature=t, contrast=c),
        reference.info_nce,
    ),
    "DCL": (lambda t, c: rince.DCL(temperature=t, contrast=c), reference.dcl),
    "SCE": (
        lambda t, c: rince.SymmetricCrossEntropy(alpha=0.3, beta=2.0, log_zero=-5.0, temperature=t, contrast=c),
        lambda pos, neg: reference.symmetric_cross_entropy(pos, neg, 0.3, 2.0, -5.0),
    ),
}
for q in QS:
    PLAIN[f"q={q}"] = (
        lambda t, c, q=q: rince.RINCE.paper(q=q, lam=0.01, temperature=t, contrast=c),
        lambda pos, neg, q=q: reference.rince(pos, neg, q, 0.01),
    )
for q in (0, 1e-8, 0.5, 1):
    PLAIN[f"GCE q={q}"] = (
        lambda t, c, q=q: rince.GCE(q=q, temperature=t, contrast=c),
        lambda pos, neg, q=q: reference.gce(pos, neg, q),
    )

# Functions of all scores of an anchor, where it has one positive.
WHOLE = {
    "Debiased": (
        lambda t, c, **o: rince.Debiased(tau_plus=0.1, temperature=t, contrast=c, **o),
        lambda rows: reference.debiased(rows, 0.1),
    ),
    "Debiased often clipped": (
        lambda t, c, **o: rince.Debiased(tau_plus=0.6, temperature=t, contrast=c, **o),
        lambda rows: reference.debiased(rows, 0.6),
    ),
    "Debiased 0": (
        lambda t, c, **o: rince.Debiased(tau_plus=0, temperature=t, contrast=c, **o),
        lambda rows: reference.debiased(rows, 0.0),
    ),
    "Hard 0.5": (
        lambda t, c, **o: rince.HardNegatives(beta=0.5, tau_plus=0.1, temperature=t, contrast=c, **o),
        lambda rows: reference.hard_negatives(rows, 0.5, 0.1),
    ),
    "Hard 1, not debiased": (
        lambda t, c, **o: rince.HardNegatives(beta=1.0, tau_plus=0.0, temperature=t, contrast=c, **o),
        lambda rows: reference.hard_negatives(rows, 1.0, 0.0),
    ),
    "MILNCE": (lambda t, c, **o: rince.MILNCE(temperature=t, contrast=c, **o), reference.mil_nce),
    "Sigmoid": (
        lambda t, c, **o: rince.Sigmoid(temperature=t, bias=BIAS, learn_bias=True, contrast=c, **o),
        lambda rows: reference.sigmoid(rows, BIAS),
    ),
}


def batch(n, seed=0, width=WIDTH):
    """Pairs that mostly belong together, labels, and a queue of earlier keys."""
    g = torch.Generator().manual_seed(seed)
    z1 = torch.randn(n, width, generator=g)
    z2 = z1 + torch.randn(n, width, generator=g)
    labels = torch.randint(0, max(2, n // 4), (n,), generator=g)
    return z1.requires_grad_(), z2.requires_grad_(), labels, torch.randn(40, width, generator=g)


def call(loss, z1, z2, labels, queue, **others):
    if isinstance(loss.contrast, rince.Queue):
        loss.contrast.push(queue)
    return loss(z1, z2, labels=labels if isinstance(loss.contrast, rince.Supervised) else None, **others)


def same(value, expected, inputs, bound, what=""):
    """Value and gradient within a relative bound."""
    tiny = torch.finfo(value.dtype).tiny  # below, there are no numbers
    assert abs(value.item() - expected.item()) <= bound * abs(expected.item()) + tiny, (what, value, expected)
    got = torch.autograd.grad(value, inputs, materialize_grads=True)
    true = torch.autograd.grad(expected, inputs, materialize_grads=True, retain_graph=True)
    # In float64, since the squares of small gradients, such as 1e-30, are 0 in float32 and so would be their norm.
    got, true = torch.cat(got).double(), torch.cat(true).double()
    if true.norm() < 1e37:
        assert (got - true).norm() <= bound * true.norm() + tiny, (what, (got - true).norm() / true.norm())
