"""Every named loss over every contrast it works with, compiled and under autocast: what it gives without."""

import pytest
import torch

import rince
from support.losses.loss_cases import CONTRASTS, WIDTH, batch

LOSSES = {
    "GCE": rince.GCE,
    "SCE": rince.SymmetricCrossEntropy,
    "DCL": rince.DCL,
    "Debiased": rince.Debiased,
    "HardNegatives": rince.HardNegatives,
    "MILNCE": rince.MILNCE,
    "Sigmoid": rince.Sigmoid,
}
SEVERAL_POSITIVES = ("GCE", "SCE", "DCL")
CASES = [(name, kind) for kind in CONTRASTS for name in LOSSES if kind != "Supervised" or name in SEVERAL_POSITIVES]


def made(name, kind, n):
    """The loss, and the arguments of a call; a queue that is the same for every call."""
    z1, z2, labels, queue = batch(n)
    contrast = rince.Queue(WIDTH, 40) if kind == "Queue" else CONTRASTS[kind]()
    loss = LOSSES[name](temperature=0.2, contrast=contrast).eval()
    if kind == "Queue":
        loss.contrast.push(queue)
    others = {"labels": labels} if kind == "Supervised" else {"ids": torch.arange(n) // 2}
    return loss, (z1, z2), others


def value_and_gradient(loss, z, others):
    value = loss(*z, **others)
    return value, torch.autograd.grad(value, z[0])[0]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_compiled_it_is_the_same(name, kind):
    loss, z, others = made(name, kind, 6)
    expected = value_and_gradient(loss, z, others)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=kind not in ("Queue", "Supervised"))
    for ours, theirs in zip(value_and_gradient(compiled, z, others), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_autocast_takes_scores_in_full_precision(name, kind, dtype):
    loss, z, others = made(name, kind, 9)
    expected = value_and_gradient(loss, z, others)
    with torch.autocast("cpu", dtype=dtype):
        value = loss(*z, **others)
    found = value, torch.autograd.grad(value, z[0])[0]  # outside, as torch wants it
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "kind"), [(rince.InfoNCE, "CrossView one way"), (rince.GCE, "TwoView"), (rince.RINCE, "CrossView")]
)
def test_small_batches_compile_without_graph_breaks_for_dynamic_sizes(make, kind):
    loss = make(contrast=CONTRASTS[kind]())
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (6, 33):
        z1, z2 = (torch.randn(n, WIDTH, requires_grad=True) for _ in range(2))
        others = {"ids": torch.arange(n) // 2, "weights": torch.rand(n)}
        for q in (1e-8, 0.3) if make is not rince.InfoNCE else (0,):
            if q:
                loss.q = q
            expected = value_and_gradient(loss, (z1, z2), others)
            torch.testing.assert_close(value_and_gradient(compiled, (z1, z2), others), expected, rtol=2e-4, atol=1e-6)
