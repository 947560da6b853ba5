import pytest
import torch

import rince
from rince.errors import WrongType
from support.losses import reference


def test_with_labels_of_their_own_it_is_simclr():
    a, b = torch.randn(2, 9, 6)
    y = torch.randperm(9)
    for make in (rince.RINCE, rince.InfoNCE):
        several, one = make(contrast=rince.Supervised())(a, b, labels=y), make()(a, b)
        assert several.item() == pytest.approx(one.item(), rel=1e-5)


def test_anchors_without_positive_are_ignored():
    z = torch.randn(5, 6, requires_grad=True)
    y = torch.tensor([0, 0, 1, 2, 0])
    loss = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised())
    each = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised(), reduction="none")(z, labels=y)
    assert (each[[2, 3]] == 0).all() and (each[[0, 1, 4]] > 0).all()
    assert loss(z, labels=y).item() == pytest.approx(each.sum().item() / 3)
    nobody = loss(z, labels=torch.arange(5))
    nobody.backward()
    assert nobody.item() == 0 and (z.grad == 0).all()


@pytest.mark.parametrize("n", (1, 2, 5))
@pytest.mark.parametrize("q", (0, 0.5, 1))
def test_one_class_is_finite(n, q):
    a, b = torch.randn(2, n, 6, requires_grad=True)
    value = rince.RINCE(q=q, temperature=0.1, scale="unit", contrast=rince.Supervised())(
        a, b, labels=torch.zeros(n, dtype=torch.long)
    )
    (gradient,) = torch.autograd.grad(value, a)
    assert value.isfinite() and gradient.isfinite().all()


def test_ids_stay_out_of_the_denominator():
    a, b = torch.randn(2, 6, 4)
    labels, ids = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([5, 5, 6, 7, 8, 8])
    each = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised(), reduction="none")(a, b, labels=labels, ids=ids)
    halves = reference.halves("Supervised", a, b, 0.5, labels=labels, ids=ids)
    torch.testing.assert_close(each.double(), reference.losses(reference.info_nce, *halves), rtol=1e-5, atol=1e-6)


def test_all_ids_equal_leaves_no_negatives_and_no_nan():
    a, b = torch.randn(2, 4, 4, requires_grad=True)
    labels, ids = torch.zeros(4, dtype=torch.long), torch.ones(4, dtype=torch.long)
    value = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised())(a, b, labels=labels, ids=ids)
    (gradient,) = torch.autograd.grad(value, a)
    assert value.item() == 0 and (gradient == 0).all()


def test_blocks_equal_one_block_and_keep_no_matrix(monkeypatch):
    a, b = torch.randn(2, 40, 8, requires_grad=True)
    labels = torch.arange(40) % 5
    loss = rince.RINCE.paper(contrast=rince.Supervised())
    whole = loss(a, b, labels=labels)
    expected = torch.autograd.grad(whole, a)[0]
    monkeypatch.setattr("rince.losses.supervised.DENSE", 200)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        blocks = loss(a, b, labels=labels)
    assert max(kept) < 40 * 40
    assert blocks.item() == pytest.approx(whole.item(), rel=1e-6)
    torch.testing.assert_close(torch.autograd.grad(blocks, a)[0], expected)


def test_scores_are_those_of_every_pair_of_anchor_and_positive():
    a, b = torch.randn(2, 4, 6)
    positive, negatives = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised()).scores(
        a, b, labels=torch.tensor([0, 0, 1, 2])
    )
    assert positive.shape == negatives.shape == (4 * 3 + 4 * 1,)


def test_num_negatives_counts_the_denominator():
    a, b = torch.randn(2, 6, 4)
    labels, ids = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([5, 5, 6, 7, 8, 8])
    for given in (None, ids):
        _, positive, counts = reference.pairs("Supervised", a, b, 1.0, labels=labels, ids=given)
        anchor, view = positive.nonzero(as_tuple=True)
        expected = counts.sum(1)[anchor] - counts[anchor, view].long()
        assert rince.Supervised()(a, b, 0.5, labels, given).num_negatives.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "labels, error, message",
    [
        (None, ValueError, r"needs labels: call loss\(z1, z2, labels=y\)"),
        (torch.arange(3), ValueError, r"labels must have one value per pair: expected \(4,\), got \(3,\)"),
        (torch.rand(4), WrongType, "labels must be integers"),
    ],
)
def test_bad_labels_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        rince.InfoNCE(temperature=0.5, contrast=rince.Supervised())(torch.randn(4, 2), torch.randn(4, 2), labels=labels)
