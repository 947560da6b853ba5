import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rince
from rince.losses import named_loss, objectives
from support.losses import reference
from support.losses.loss_cases import CONTRASTS, PLAIN, QS, WIDTH, batch, call, same

# Every size at the ends, every temperature at one size; 513 is several tiles (test_switches.py: where they begin).
SIZES = [(n, t) for n in (2, 3, 64, 513) for t in (0.01, 0.5)] + [(7, t) for t in (0.01, 0.05, 0.1, 0.5, 1)]


@pytest.mark.filterwarnings("ignore:RINCE with q")
@pytest.mark.parametrize("n, t", SIZES)
@pytest.mark.parametrize("kind", CONTRASTS)
def test_value_and_gradient_equal_the_dense_float64_reference(kind, n, t):
    z1, z2, labels, queue = batch(n)
    bound = 1e-5 if t >= 0.1 else 2e-4
    halves = reference.halves(kind, z1, z2, t, labels=labels, queue=queue)
    for name, (make, objective) in PLAIN.items():
        if (kind, n) == ("Supervised", 513) and name not in ("info_nce", "q=0.5"):
            continue  # the pairs of anchor and positive are many, and what differs at this size is their blocks
        loss = make(t, CONTRASTS[kind]())
        if name == "q=1" and t == 0.01:  # no float32 holds exp(100)
            with pytest.raises(rince.errors.UsageError, match="use scale='unit'"):
                call(loss, z1, z2, labels, queue)
            continue
        expected = reference.losses(objective, *halves).mean()
        value = call(loss, z1, z2, labels, queue)
        if (kind, n, t, name) == ("Supervised", 3, 0.01, "GCE q=1"):
            assert value.item() == pytest.approx(expected.item(), rel=bound)  # the gradient has a test of its own
            continue
        same(value, expected, (z1, z2), bound, name)


@pytest.mark.parametrize("n, t", [(3, 0.01), (7, 0.05), (9, 0.2)])
def test_gce_on_supervised_has_the_right_gradient_for_every_pair(n, t):
    """At q = 1 the loss of an anchor is 1 minus the mean of p over its positives.

    Where they share almost all of the softmax, their p add up to almost 1 and so their gradients cancel: from 2e-10
    down to 7e-18 at n = 3, t = 0.01. What is left of a sum of float32 numbers is right up to 1e-7 of its terms, not of
    itself. So it is the terms, the pairs of anchor and positive, that are held against the reference one by one.
    """
    z1, z2, labels, _ = batch(n)
    pos, neg, anchor = reference.halves("Supervised", z1, z2, t, labels=labels)
    true = reference.gce(pos, neg, 1)
    loss = rince.GCE(q=1, temperature=t, contrast=rince.Supervised(), reduction="none")
    ours = objectives.gce(*loss.scores(z1, z2, labels=labels), 1)
    parts = []
    for value, expected in zip(ours, true, strict=True):
        value, expected = (torch.autograd.grad(v, (z1, z2), retain_graph=True) for v in (value, expected))
        got, part = torch.cat(value).double(), torch.cat(expected).double()
        assert (got - part).norm() <= 2e-4 * part.norm() + torch.finfo(torch.float32).tiny
        parts.append(part.norm())
    of_terms = torch.zeros(2 * n).double().index_add(0, anchor, torch.stack(parts)) / torch.bincount(anchor)
    expected = reference.losses(lambda *_: true, pos, neg, anchor)
    for value, whole, size in zip(loss(z1, z2, labels=labels), expected, of_terms, strict=True):
        got, part = (torch.cat(torch.autograd.grad(v, (z1, z2), retain_graph=True)) for v in (value, whole))
        assert (got - part).norm() <= 1e-5 * size + torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("kind", CONTRASTS)
def test_unit_scale_is_finite_under_autocast(kind, q, dtype):
    z1, z2, labels, queue = batch(17)
    weight = torch.eye(WIDTH, requires_grad=True)
    for t in (0.005, 0.1):
        with torch.autocast("cpu", dtype=dtype):
            loss = rince.RINCE(q=q, lam=0.01, temperature=t, contrast=CONTRASTS[kind](), scale="unit")
            value = call(loss, z1 @ weight, z2 @ weight, labels, queue)
        assert value.dtype == torch.float32
        (gradient,) = torch.autograd.grad(value, weight)
        assert value.isfinite() and gradient.isfinite().all()


def test_autocast_takes_scores_in_full_precision():
    z1, z2, *_ = batch(32)
    loss = rince.RINCE.paper(temperature=0.1)
    plain = loss(z1, z2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(z1, z2).item() == plain.item()
    half = loss(z1.half(), z2.half())
    assert half.dtype == torch.float32 and half.item() == pytest.approx(plain.item(), rel=1e-2)


@pytest.mark.parametrize("q", (0.1, 0.5, 1))
def test_unit_scale_is_the_papers_form_times_a_factor(q):
    z1, z2, *_ = batch(9)
    paper, unit = (
        rince.RINCE.paper(q=q, temperature=0.5)(z1, z2),
        rince.RINCE(q=q, lam=0.01, temperature=0.5, scale="unit")(z1, z2),
    )
    assert unit.item() == pytest.approx(paper.item() * math.exp(-q / 0.5), rel=1e-5)


@given(scale=st.floats(-30, 30), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_the_scale_of_embeddings_does_not_matter(scale, seed):
    z1, z2, *_ = batch(6, seed)
    loss = rince.RINCE.paper()
    assert loss(z1 * 10**scale, z2 * 10**-scale).item() == pytest.approx(loss(z1, z2).item(), rel=1e-5)


@given(n=st.integers(1, 12), seed=st.integers(0, 999), kind=st.sampled_from(list(CONTRASTS)))
@settings(max_examples=60)
def test_the_order_of_pairs_does_not_matter(n, seed, kind):
    z1, z2, labels, queue = batch(n, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    a = call(rince.RINCE.paper(contrast=CONTRASTS[kind]()), z1, z2, labels, queue)
    b = call(rince.RINCE.paper(contrast=CONTRASTS[kind]()), z1[order], z2[order], labels[order], queue)
    assert a.item() == pytest.approx(b.item(), rel=1e-5, abs=1e-6)


def test_none_gives_one_loss_an_anchor_and_sum_adds_them():
    z1, z2, *_ = batch(7)
    each = rince.RINCE.paper(reduction="none")(z1, z2)
    assert each.shape == (14,)
    assert rince.RINCE.paper(reduction="none", contrast=rince.CrossView(symmetric=False))(z1, z2).shape == (7,)
    assert rince.RINCE.paper(reduction="sum")(z1, z2).item() == pytest.approx(each.sum().item(), rel=1e-6)
    assert rince.RINCE.paper()(z1, z2).item() == pytest.approx(each.mean().item(), rel=1e-6)


def test_weights_make_a_weighted_mean_over_pairs():
    z1, z2, *_ = batch(7)
    w = torch.tensor([0.0, 1, 2, 3, 4, 5, 6])
    each = rince.RINCE.paper(reduction="none")(z1, z2)
    expected = (each * w.repeat(2)).sum() / (2 * w.sum())
    assert rince.RINCE.paper()(z1, z2, weights=w).item() == pytest.approx(expected.item(), rel=1e-6)
    nothing = rince.RINCE.paper()(z1, z2, weights=torch.zeros(7))
    nothing.backward()
    assert nothing.item() == 0 and z1.grad.abs().sum() == 0


def test_scores_are_the_two_halves():
    z1, z2, *_ = batch(7)
    for loss in (rince.InfoNCE(temperature=0.1), rince.InfoNCE(temperature=0.1, contrast=rince.CrossView())):
        assert objectives.info_nce(*loss.scores(z1, z2)).mean().item() == pytest.approx(loss(z1, z2).item(), rel=1e-6)
    queue = rince.InfoNCE(temperature=0.5, contrast=rince.Queue(WIDTH, 4))
    queue.scores(z1, z2)
    assert queue.contrast.pushed == 0  # looking changes nothing


def test_density_ratio_follows_the_number_of_negatives():
    z1, z2, *_ = batch(7)
    for lam, r in (("balanced", 1), (rince.DensityRatio(2.5), 2.5)):
        assert rince.RINCE.paper(lam=lam)(z1, z2).item() == pytest.approx(
            rince.RINCE.paper(lam=r / (r + 12))(z1, z2).item()
        )
    ids = torch.tensor([0, 0, 0, 1, 2, 3, 4])
    each = rince.RINCE.paper(lam="balanced", reduction="none")(z1, z2, ids=ids)
    for anchor, negatives in ((0, 8), (3, 12)):
        fixed = rince.RINCE.paper(lam=1 / (1 + negatives), reduction="none")(z1, z2, ids=ids)
        assert each[anchor].item() == pytest.approx(fixed[anchor].item(), rel=1e-6)


def test_balanced_is_where_equal_scores_have_no_gradient_direction():
    """At q = 1 and all scores equal, positives and negatives pull equally hard when lam = 1 / (K + 1)."""
    positive = torch.tensor(0.3, requires_grad=True)
    scores = torch.full((9,), 0.3, requires_grad=True)
    objectives.rince(positive, scores.logsumexp(0), 1, rince.DensityRatio(1)(torch.tensor(9))).backward()
    assert positive.grad.item() == pytest.approx(-scores.grad.sum().item(), rel=1e-5)


@pytest.mark.parametrize("kind", CONTRASTS)
def test_an_empty_batch_is_zero(kind):
    z, nothing = torch.randn(0, WIDTH, requires_grad=True), torch.zeros(0, dtype=torch.long)
    labels = nothing if kind == "Supervised" else None
    loss = rince.RINCE.paper(contrast=CONTRASTS[kind]())
    value = loss(z, z, labels=labels, ids=nothing, weights=torch.rand(0))
    value.backward()
    assert value.item() == 0 and z.grad.shape == (0, WIDTH)
    assert [len(half) for half in loss.scores(z, z, labels=labels)] == [0, 0]


@pytest.mark.parametrize("kind", CONTRASTS)
def test_one_side_may_be_of_another_precision(kind):
    z1, z2, labels, queue = batch(5)
    loss = rince.InfoNCE(temperature=0.5, contrast=CONTRASTS[kind]())
    value, mixed = call(loss, z1, z2, labels, queue), call(loss, z1, z2.double(), labels, queue)
    assert mixed.dtype == torch.float64
    if kind != "Queue":  # which has moved on
        assert mixed.item() == pytest.approx(value.item(), rel=1e-5)


@pytest.mark.parametrize("kind", CONTRASTS)
def test_learned_temperature_stays_float32_in_half_models(kind):
    z1, z2, labels, queue = batch(5)
    temperature = torch.nn.Parameter(torch.tensor([[0.0625]]))  # a number that halves hold exactly, in an odd shape
    half = rince.RINCE(q=0.9, lam=0.1, temperature=temperature, contrast=CONTRASTS[kind](), scale="unit").bfloat16()
    plain = rince.RINCE(q=0.9, lam=0.1, temperature=0.0625, contrast=CONTRASTS[kind](), scale="unit")
    if kind == "Queue":
        half.contrast.float()
    value = call(half, z1, z2, labels, queue)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(call(plain, z1, z2, labels, queue).item(), rel=1e-5)


@pytest.mark.parametrize("kind", CONTRASTS)
def test_a_new_q_before_the_backward_pass_changes_no_gradient(kind, monkeypatch):
    monkeypatch.setattr("rince.losses.supervised.DENSE", 20)  # several blocks, which are computed again
    z1, z2, labels, queue = batch(9)
    gradients = []
    for late in (0.1, 0.9):
        loss = rince.RINCE.paper(q=0.1, contrast=CONTRASTS[kind]())
        value = call(loss, z1, z2, labels, queue)
        loss.q = late
        gradients.append(torch.autograd.grad(value, z1)[0])
    assert torch.equal(*gradients)


def test_labels_for_a_contrast_without_labels_are_remarked_on_once():
    z1, z2, labels, _ = batch(4)
    loss = rince.RINCE.paper()
    with pytest.warns(UserWarning, match="did you mean rince.Supervised"):
        loss(z1, z2, labels=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(z1, z2, labels=labels)


def test_numbers_of_numpy_will_do():
    loss = rince.RINCE.paper(q=np.float32(0.5), lam=np.float64(0.01), temperature=np.float32(0.5))
    assert loss.q == 0.5 and loss(*batch(3)[:2]).isfinite()


def test_q_can_change_between_steps():
    z1, z2, *_ = batch(7)
    loss = rince.RINCE.paper(q=0.1)
    loss.q = 0.7
    assert loss(z1, z2).item() == rince.RINCE.paper(q=0.7)(z1, z2).item()
    with pytest.raises(ValueError, match=r"q must be in \[0, 1\], got 1.5"):
        loss.q = 1.5


def test_a_large_scale_warns_once_and_names_the_way_out():
    with pytest.warns(UserWarning, match="scale='unit'"):
        loss = rince.RINCE.paper(q=1, temperature=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss.q = 0.9
        loss(*batch(3)[:2])
        rince.RINCE(q=1, temperature=0.05, scale="unit")
        rince.RINCE.paper(q=0.5, temperature=0.1)


def test_a_loss_from_plain_values_is_the_loss():
    z1, z2 = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    ratio = {"class_path": "rince.DensityRatio", "init_args": {"r": 2.5}}
    ours = named_loss("RINCE", {"q": 0.1, "lam": ratio, "scale": "unit"}, 0.2, rince.CrossView())
    assert torch.equal(
        ours(z1, z2),
        rince.RINCE(q=0.1, lam=rince.DensityRatio(2.5), temperature=0.2, contrast=rince.CrossView(), scale="unit")(
            z1, z2
        ),
    )
    assert torch.equal(named_loss("GCE", {"q": 1.0}, 0.3)(z1, z2), rince.GCE(q=1, temperature=0.3)(z1, z2))


@pytest.mark.parametrize("kind", [rince.InfoNCE, rince.GCE, rince.RINCE])
def test_denormal_weights_give_a_finite_loss(kind):
    z = torch.randn(8, 4, requires_grad=True)
    loss = kind()(z, torch.randn(8, 4), weights=torch.full((8,), 1e-42))
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all()
