"""Losses that need more than two numbers per anchor, against their dense float64 forms on every contrast."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rince
from rince.losses import Scores, objectives
from support.losses import reference
from support.losses.loss_cases import BIAS, CONTRASTS, ONE_POSITIVE, WHOLE, WIDTH, batch, call, same

LARGE = [(513, 0.01), (513, 0.1)]  # several tiles
EXTRA = ["Hard 0.5", "Hard 1, not debiased", "MILNCE", "Sigmoid"]  # those with an extra reduction


def case(name, kind, t, **options):
    make, dense = WHOLE[name]
    return make(t, CONTRASTS[kind](), **options), dense


def bound_of(name, bound):
    """Debiasing amplifies the errors of scores, whatever the formula.

    A float32 score is off by about 1e-7 / t. With g = neg / pos the loss is log(1 + (g - tau N) / (1 - tau)), and its
    slope in log g is g / (g - tau N + 1 - tau), which changes by a factor 1 + tau N / (g - tau N + 1 - tau) of an error
    of log g: by up to tau N / (1 - tau) where g comes near tau N. On the same scores, the formula in float32 keeps to
    the plain bound (``test_debiasing_itself_loses_nothing``), and rounding the unit vectors to float32, with all that
    follows in float64, needs more than that (``test_rounding_unit_vectors_alone_needs_the_wider_bound``).
    """
    return 4 * bound if name in ("Debiased", "Debiased often clipped", "Hard 0.5") else bound


def expected_of(dense, kind, z1, z2, t, queue, ids, reduce=torch.mean):
    queue_ids = torch.full((len(queue),), torch.iinfo(torch.int64).min)
    return reduce(dense(reference.rows(kind, z1, z2, t, queue=queue, ids=ids, queue_ids=queue_ids)))


@pytest.mark.parametrize("t", (0.01, 0.1))
@pytest.mark.parametrize("tau", (0.1, 0.6))
@pytest.mark.parametrize("number", (3, 40, 1024))
def test_debiasing_itself_loses_nothing(number, tau, t):
    """Negatives from well below the share of false ones to well above, in steps that come within 1e-3 of it."""
    steps = torch.cat([-torch.logspace(1, -3, 30), torch.logspace(-3, 1, 30)])
    positive = torch.linspace(-0.3, 0.9, 60) / t
    negatives = positive + math.log(tau * number) + steps
    inputs = [positive.requires_grad_(), negatives.requires_grad_()]
    exact = [z.detach().double().requires_grad_() for z in inputs]
    value = objectives.debiased(Scores(positive, negatives, torch.full_like(positive, number)), tau, t)
    pos, neg = (z.exp() for z in exact)
    true = ((neg - tau * number * pos) / (1 - tau)).clamp_min(number * math.exp(-1 / t))
    expected = torch.log1p(true / pos)
    got, wanted = ([v, *torch.autograd.grad(v.sum(), z)] for v, z in ((value, inputs), (expected, exact)))
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=torch.finfo(torch.float32).tiny)


def test_rounding_unit_vectors_alone_needs_the_wider_bound(monkeypatch):
    """So no formula in float32 keeps to the plain one: what is lost is lost before there is any score."""

    def gradient(seed):
        z1, z2, *_ = (z.detach().double().requires_grad_() for z in batch(200, seed, width=2))
        loss = reference.hard_negatives(reference.rows("TwoView", z1, z2, 0.02), 0.5, 0.6)
        return torch.cat(torch.autograd.grad(loss.mean(), (z1, z2)))

    exact = [gradient(seed) for seed in range(20)]
    unit = reference.normalize
    monkeypatch.setattr(reference, "normalize", lambda z, dim: unit(z, dim=dim).float().double())
    off = [(gradient(seed) - true).norm() / true.norm() for seed, true in enumerate(exact)]
    assert max(off) > 2e-4, max(off)


@pytest.mark.parametrize("n, t", [(n, t) for n in (2, 3, 7, 64) for t in (0.01, 0.05, 0.1, 0.5, 1)] + LARGE)
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_value_and_gradient_equal_the_dense_float64_reference(kind, n, t):
    z1, z2, labels, queue = batch(n)
    for name in WHOLE:
        loss, dense = case(name, kind, t)
        ids = torch.arange(n) // 2 if name == "MILNCE" and n > 2 else torch.arange(n) if name == "MILNCE" else None
        expected = expected_of(dense, kind, z1, z2, t, queue, ids)
        value = call(loss, z1, z2, labels, queue, ids=ids)
        same(value, expected, (z1, z2), bound_of(name, 1e-5 if t >= 0.1 else 2e-4), name)


@pytest.mark.parametrize("t", (0.01, 0.1, 1))
@pytest.mark.parametrize("n", (3, 64))
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_float64_has_the_precision_of_float64(kind, n, t):
    z1, z2, labels, queue = (x.double() if x.is_floating_point() else x for x in batch(n))
    for name in WHOLE:
        loss, dense = case(name, kind, t)
        loss.double()
        ids = torch.arange(n) // 2
        value = call(loss, z1, z2, labels, queue, ids=ids)
        same(value, expected_of(dense, kind, z1, z2, t, queue, ids), (z1, z2), 1e-9, name)


@pytest.mark.parametrize("n", (7, 400))
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_ids_and_weights_are_respected(kind, name, n):
    z1, z2, labels, queue = batch(n)
    g = torch.Generator().manual_seed(0)
    ids, weights = torch.randint(0, n // 2, (n,), generator=g), torch.rand(n, generator=g).double()
    loss, dense = case(name, kind, 0.2)
    each = expected_of(dense, kind, z1, z2, 0.2, queue, ids, lambda x: x)
    all_weights = weights.repeat(len(each) // n)
    value = call(loss, z1, z2, labels, queue, ids=ids, weights=weights)
    same(value, (each * all_weights).sum() / all_weights.sum(), (z1, z2), bound_of(name, 1e-5))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_tiny_batches_are_finite(kind, name):
    for n in (0, 1, 4):
        a, b = (torch.randn(n, WIDTH, requires_grad=True) for _ in range(2))
        loss, _ = case(name, kind, 0.1)
        value = loss(a, b, ids=torch.zeros(n, dtype=torch.int64))
        (gradient,) = torch.autograd.grad(value, a)
        assert value.isfinite() and gradient.isfinite().all(), n
        if name not in ("Sigmoid", "MILNCE"):
            assert value.item() == 0


@pytest.mark.parametrize("name", WHOLE)
def test_the_number_of_negatives_differs_from_anchor_to_anchor(name):
    """One anchor has no negative, the others have some."""
    z1, z2, *_ = batch(4)
    ids = torch.tensor([0, 0, 0, 1])
    contrast = rince.CrossView(symmetric=False)
    loss = WHOLE[name][0](0.2, contrast, reduction="none")
    expected = WHOLE[name][1](reference.rows("CrossView one way", z1, z2, 0.2, ids=ids))
    torch.testing.assert_close(loss(z1, z2, ids=ids).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", (5, 600))  # one tile that is kept, and several
@pytest.mark.parametrize("kind", ("TwoView", "CrossView"))
def test_a_learned_bias_and_temperature_get_their_gradients(kind, n):
    z1, z2, *_ = (x.detach() for x in batch(n))
    temperature = torch.nn.Parameter(torch.tensor(0.2))
    loss = rince.Sigmoid(temperature=temperature, bias=BIAS, contrast=CONTRASTS[kind]())
    assert dict(loss.named_parameters()) == {"temperature": temperature, "bias": loss.bias}
    t, b = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.2, BIAS))
    expected = reference.sigmoid(reference.rows(kind, z1, z2, t), b).mean()
    value = loss(z1, z2)
    for ours, theirs in ((temperature, t), (loss.bias, b)):
        got, true = (
            torch.autograd.grad(value, ours, retain_graph=True)[0],
            torch.autograd.grad(expected, theirs, retain_graph=True)[0],
        )
        assert got.item() == pytest.approx(true.item(), rel=1e-4)


@pytest.mark.parametrize("name", [name for name in EXTRA if name != "Hard 1, not debiased"])
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_gradients_and_gradients_of_gradients_in_float64(kind, name):
    z1, z2, _, queue = (x.detach().double() if x.is_floating_point() else x for x in batch(4, width=3))
    loss = WHOLE[name][0](0.5, rince.Queue(3, 40) if kind == "Queue" else CONTRASTS[kind]()).double().eval()
    if kind == "Queue":
        loss.contrast.push(queue[:6])
    inputs = (z1.requires_grad_(), z2 if kind == "Queue" else z2.requires_grad_())
    ids = torch.tensor([0, 0, 1, 2]) if name == "MILNCE" else None
    others = tuple(loss.parameters())
    assert torch.autograd.gradcheck(lambda a, b, *_: loss(a, b, ids=ids), (*inputs, *others))
    assert torch.autograd.gradgradcheck(lambda a, b, *_: loss(a, b, ids=ids), (*inputs, *others), fast_mode=True)


@pytest.mark.parametrize("name, n", [("Debiased", 5), ("Hard 0.5", 300), ("MILNCE", 300), ("Sigmoid", 5)])
def test_compiled_and_functional_gradients_equal_the_eager_one(name, n):
    z1, z2, *_ = batch(n)
    loss, ids = WHOLE[name][0](0.2, rince.CrossView()), torch.arange(n) // 2
    (expected,) = torch.autograd.grad(loss(z1, z2, ids=ids), z1)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(z1, z2, ids=ids), z1)[0], expected, rtol=1e-4, atol=1e-7)
    by_func = torch.func.grad(lambda a: loss(a, z2, ids=ids))(z1.detach())
    torch.testing.assert_close(by_func, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("make", (rince.GCE, rince.SymmetricCrossEntropy, *(make for make, _ in WHOLE.values())))
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_autocast_takes_scores_in_full_precision(make, dtype):
    z1, z2, *_ = batch(17)
    for t in (0.005, 0.2):
        loss = make(temperature=t) if isinstance(make, type) else make(t, rince.TwoView())
        ids = torch.arange(17) // 2
        plain = loss(z1, z2, ids=ids)
        with torch.autocast("cpu", dtype=dtype):
            value = loss(z1, z2, ids=ids)
        assert value.dtype == torch.float32 and value.item() == plain.item()
        assert torch.autograd.grad(value, z1)[0].isfinite().all()


@given(st.floats(0.01, 3), st.integers(0, 99))
@settings(max_examples=30)
def test_harder_weights_never_lower_the_loss(beta, seed):
    z1, z2, *_ = batch(6, seed)
    value, more = (rince.HardNegatives(beta=b, tau_plus=0, temperature=0.3)(z1, z2).item() for b in (beta, 2 * beta))
    assert rince.InfoNCE(temperature=0.3)(z1, z2).item() <= value * (1 + 1e-6) and value <= more * (1 + 1e-6)


def test_special_cases_are_their_neighbors():
    z1, z2, *_ = batch(9)
    plain = rince.InfoNCE(temperature=0.2)(z1, z2).item()
    assert rince.GCE(q=0, temperature=0.2)(z1, z2).item() == pytest.approx(plain, rel=1e-6)
    assert rince.Debiased(tau_plus=0, temperature=0.2)(z1, z2).item() == pytest.approx(plain, rel=1e-6)
    assert rince.HardNegatives(beta=0, tau_plus=0, temperature=0.2)(z1, z2).item() == pytest.approx(plain, rel=1e-6)
    assert rince.SymmetricCrossEntropy(alpha=1, beta=0, temperature=0.2)(z1, z2).item() == pytest.approx(
        plain, rel=1e-6
    )
    assert rince.MILNCE(temperature=0.2)(z1, z2, ids=torch.arange(9)).item() == pytest.approx(plain, rel=1e-6)
    both, one = (rince.Sigmoid(contrast=rince.CrossView(symmetric=s))(z1, z2).item() for s in (True, False))
    assert both == pytest.approx(one, rel=1e-6)


def test_q_of_gce_can_change_between_steps_and_compiles_nothing_again():
    z1, z2, *_ = batch(5)
    loss = rince.GCE(q=0.1)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for q in (0.1, 0.7, 1.0):
            loss.q = q
            assert compiled(z1, z2).item() == pytest.approx(rince.GCE(q=q)(z1, z2).item(), rel=1e-6)


def test_a_bias_is_a_parameter_a_fixed_number_or_one_of_the_users():
    assert not list(rince.Sigmoid(learn_bias=False).parameters()) and "bias" in rince.Sigmoid().state_dict()
    mine = torch.nn.Parameter(torch.tensor([-7.0]))
    assert rince.Sigmoid(bias=mine).bias is mine and "bias=-7" in repr(rince.Sigmoid(bias=mine))


def test_an_objective_of_ones_own_may_ask_for_a_second_reduction():
    def hard(scores):
        return torch.nn.functional.softplus(scores.extra + scores.num_negatives.log() - scores.positive)

    z1, z2, *_ = batch(6)
    mine = rince.ContrastiveLoss(
        rince.losses.Objective(hard, rince.losses.ExtraReduction("hard_negatives", beta=0.7)), temperature=0.3
    )
    assert mine(z1, z2).item() == pytest.approx(
        rince.HardNegatives(beta=0.7, tau_plus=0, temperature=0.3)(z1, z2).item(), rel=1e-6
    )


def test_objectives_of_scores_and_of_two_numbers_are_told_apart():
    z1, z2, *_ = batch(6)
    of_scores = rince.ContrastiveLoss(lambda scores: scores.negatives - scores.positive, temperature=0.3)
    of_two = rince.ContrastiveLoss(
        lambda positive, negatives, factor=1: factor * (negatives - positive), temperature=0.3
    )
    assert of_scores(z1, z2).item() == of_two(z1, z2).item() == pytest.approx(rince.DCL(temperature=0.3)(z1, z2).item())
    with pytest.raises(rince.errors.UsageError, match="but needs 3 arguments: bind the others"):
        rince.ContrastiveLoss(lambda a, b, c: a)


@pytest.mark.parametrize("make", [make for name, (make, _) in WHOLE.items()])
def test_supervised_has_no_meaning_for_losses_of_one_positive(make):
    z1, z2, labels, _ = batch(6)
    with pytest.raises(rince.errors.UsageError, match=r"loss\(z1, z2, ids=labels\)"):
        make(0.2, rince.Supervised())(z1, z2, labels=labels)


def test_a_second_reduction_of_supervised_is_refused():
    z1, z2, labels, _ = batch(6)
    mine = rince.losses.Objective(lambda scores: scores.extra, rince.losses.ExtraReduction("hard_negatives", 1.0))
    with pytest.raises(rince.errors.UsageError, match="Supervised does not support extra reductions"):
        rince.ContrastiveLoss(mine, contrast=rince.Supervised())(z1, z2, labels=labels)


@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_bags_without_ids_are_refused(kind):
    z1, z2, *_ = batch(4)
    with pytest.raises(rince.errors.UsageError, match=r"ids, got none"):
        rince.MILNCE(contrast=CONTRASTS[kind]())(z1, z2)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: rince.GCE(q=1.5), r"q must be in \[0, 1\], got 1.5"),
        (lambda: rince.SymmetricCrossEntropy(alpha=-1), r"alpha must be in \[0, inf\), got -1"),
        (lambda: rince.SymmetricCrossEntropy(alpha=0, beta=0), "must not both be 0"),
        (lambda: rince.SymmetricCrossEntropy(log_zero=0), r"-log_zero must be in \(0, inf\), got 0"),
        (lambda: rince.Debiased(tau_plus=1), r"tau_plus must be in \[0, 1\), got 1"),
        (lambda: rince.HardNegatives(beta=-0.5), r"beta must be in \[0, inf\), got -0.5"),
        (lambda: rince.HardNegatives(beta=float("nan")), "beta must be in"),
        (lambda: rince.Sigmoid(bias=float("inf")), "bias must be one finite number"),
        (lambda: rince.Sigmoid(bias="low"), "bias must be one finite number"),
    ],
)
def test_bad_settings_are_refused_at_the_door(make, message):
    with pytest.raises(rince.errors.UsageError, match=message):
        make()
