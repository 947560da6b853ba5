"""The one-step form of small batches: exact, few operations, no waiting, and equal to the general form elsewhere."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rince
from rince.losses import small_batches
from support.losses import reference
from support.losses.loss_cases import batch, same

CONTRASTS = {
    "TwoView": rince.TwoView,
    "CrossView": rince.CrossView,
    "CrossView one way": lambda: rince.CrossView(False),
}
LOSSES = {
    "InfoNCE": (lambda **o: rince.InfoNCE(**o), reference.info_nce),
    "GCE": (lambda **o: rince.GCE(**o), lambda pos, neg: reference.gce(pos, neg, 1.0)),
    "GCE q 1e-8": (lambda **o: rince.GCE(q=1e-8, **o), lambda pos, neg: reference.gce(pos, neg, 1e-8)),
    "RINCE paper": (lambda **o: rince.RINCE.paper(**o), lambda pos, neg: reference.rince(pos, neg, 0.5, 0.01)),
}


class Operations(TorchDispatchMode):
    """Names of all ATen operators that run inside."""

    def __enter__(self):
        self.names = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.fixture
def counted(monkeypatch):
    """Calls of the one-step form."""
    calls = []
    step = small_batches._value_and_gradient
    monkeypatch.setattr(small_batches, "_value_and_gradient", lambda *given: calls.append(given) or step(*given))
    return calls


@pytest.mark.parametrize("t", (0.034, 0.2, 1.0))
@pytest.mark.parametrize("n", (1, 2, 33))
@pytest.mark.parametrize("kind", CONTRASTS)
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_equal_the_dense_float64_reference(name, kind, n, t, counted):
    make, dense = LOSSES[name]
    z1, z2, *_ = batch(n)
    weights = torch.rand(n, generator=torch.Generator().manual_seed(0))
    for ids in (None, torch.arange(n) // 3):
        each = reference.losses(dense, *reference.halves(kind, z1, z2, t, ids=ids))
        own = weights.double().repeat(len(each) // n)
        with pytest.warns() if "paper" in name and t < 0.05 else torch.no_grad():
            loss = make(temperature=t, contrast=CONTRASTS[kind]())
        same(loss(z1, z2, ids=ids), each.mean(), (z1, z2), 1e-4)
        same(loss(z1, z2, ids=ids, weights=weights), (each * own).sum() / own.sum(), (z1, z2), 1e-4)
        loss.reduction = "sum"
        same(loss(z1, z2, ids=ids, weights=weights), (each * own).sum(), (z1, z2), 1e-4)
    assert len(counted) == 6


@pytest.mark.parametrize("kind", CONTRASTS)
@pytest.mark.parametrize("lam", ("balanced", 0.1))
def test_rince_of_unit_scale_equals_the_general_form(kind, lam):
    z1, z2, *_ = batch(20)
    ids = torch.tensor([0, 0, 0, *range(1, 18)])
    loss = rince.RINCE(lam=lam, contrast=CONTRASTS[kind]())
    same(loss(z1, z2, ids=ids), loss._forward(z1, z2, None, ids, None, None), (z1, z2), 2e-6)


@pytest.mark.parametrize("kind", ("TwoView", "CrossView"))
@pytest.mark.parametrize("make", (rince.InfoNCE, rince.GCE, rince.RINCE))
def test_call_with_backward_runs_few_operators_and_reads_ranges_only(make, kind):
    loss = make(contrast=CONTRASTS[kind]())
    z1, z2, *_ = batch(8)
    weights, ids = torch.rand(8), torch.arange(8)
    for given in ({}, {"weights": weights, "ids": ids}):
        loss(z1, z2, **given)  # checks the inputs once
        with Operations() as operations:
            loss(z1, z2, **given).backward()
        assert len(operations.names) <= 90, operations.names
        reads = [name for name in operations.names if "_local_scalar_dense" in name or "nonzero" in name]
        assert len(reads) == (4 if given else 2), reads  # the ranges of lengths and weights, on a CPU only


def test_second_derivatives_equal_those_of_the_general_form():
    z1, z2 = (z.detach().double().requires_grad_() for z in batch(5)[:2])
    for loss in (rince.InfoNCE(), rince.GCE(q=0.5), rince.RINCE(contrast=rince.CrossView())):
        assert torch.autograd.gradcheck(loss, (z1, z2)) and torch.autograd.gradgradcheck(loss, (z1, z2))


def test_gradient_counts_once_if_one_side_is_a_function_of_the_other():
    z, *_ = batch(6)
    loss, rotate = rince.GCE(contrast=rince.CrossView()), torch.linalg.qr(torch.randn(16, 16)).Q
    (plain,) = torch.autograd.grad(loss(z, z @ rotate), z)
    (again,) = torch.autograd.grad(loss(z, z @ rotate), z, create_graph=True)
    torch.testing.assert_close(plain, again, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_gradients_keep_the_factor_of_a_grad_scaler(dtype):
    z1, z2 = (z.detach().to(dtype).requires_grad_() for z in batch(64)[:2])
    loss = rince.GCE(contrast=rince.CrossView())
    (loss(z1, z2) * 1e-6).backward()
    small = z1.grad.clone()
    z1.grad = None
    (loss(z1, z2) * 1e3).backward()
    assert z1.grad.dtype == dtype and (z1.grad != 0).float().mean() > 0.9
    assert (small != 0).float().mean() < (z1.grad != 0).float().mean() or dtype == torch.bfloat16


def test_rows_of_any_length_and_of_zeros():
    z1, z2, *_ = batch(6)
    expected = rince.GCE()(z1, z2).item()
    for scale in (1e-30, 1e30):
        a = (z1.detach() * scale).requires_grad_()
        value = rince.GCE()(a, z2)
        assert value.item() == pytest.approx(expected, rel=1e-5)
        assert torch.autograd.grad(value, a)[0].isfinite().all()
    a = z1.detach().clone()
    a[2] = 0
    a.requires_grad_()
    (gradient,) = torch.autograd.grad(rince.GCE()(a, z2), a)
    assert gradient.isfinite().all() and not gradient[2].any() and gradient[1].any()


def test_nan_in_an_embedding_is_not_hidden():
    z1, z2, *_ = batch(6)
    with torch.no_grad():
        z2[3, 1] = torch.nan
    assert rince.GCE()(z1, z2).isnan()


def test_tiny_weights_give_the_same_mean_as_large_ones():
    z1, z2, *_ = batch(6)
    weights = torch.tensor([1.0, 2, 3, 4, 5, 6])
    for reduction in (rince.InfoNCE(), rince.InfoNCE(temperature=torch.nn.Parameter(torch.tensor(0.2)))):
        expected = reduction(z1, z2, weights=weights).item()
        assert reduction(z1, z2, weights=weights * 1e-41).item() == pytest.approx(expected, rel=1e-2)
        assert reduction(z1, z2, weights=weights * 0).item() == 0


def test_general_path_is_used_outside_small_batches(counted):
    z1, z2, *_ = batch(4)
    rince.InfoNCE(temperature=0.01)(z1, z2)
    rince.InfoNCE(reduction="none")(z1, z2)
    rince.ContrastiveLoss(rince.objectives.dcl)(z1, z2)
    rince.InfoNCE()(torch.randn(600, 4), torch.randn(600, 4))
    assert not counted
    rince.InfoNCE()(z1, z2)
    assert len(counted) == 1


def test_inputs_are_checked_again_when_they_change():
    loss = rince.GCE(contrast=rince.CrossView())
    z1, z2, *_ = batch(4)
    loss(z1, z2, weights=torch.rand(4))
    with pytest.raises(rince.errors.UsageError, match=r"weights.*-1"):
        loss(z1, z2, weights=torch.tensor([1.0, 1, 1, -1]))
    with pytest.raises(rince.errors.UsageError, match="same shape"):
        loss(z1, z2[:3])
    with pytest.raises(TypeError, match="ids must be integers"):
        loss(z1, z2, ids=torch.rand(4))


def test_components_of_the_last_call():
    z1, z2, *_ = batch(16)
    loss = rince.GCE(contrast=rince.CrossView())
    with pytest.raises(rince.errors.UsageError, match="keep_components"):
        loss.components()
    plain = loss(z1, z2, weights=torch.ones(16))
    loss.keep_components = True
    value = loss(z1, z2, weights=torch.ones(16))
    assert value.item() == pytest.approx(plain.item(), rel=1e-5)
    components = loss.components()
    positive, negatives = loss.scores(z1, z2)
    assert components["positive"].item() == pytest.approx(positive.mean().item())
    assert components["probability"].item() == pytest.approx(
        (positive - torch.logaddexp(positive, negatives)).exp().mean().item()
    )
    assert 1 <= components["effective_negatives"] <= 15 and components["weight"] == 1
    assert 0 < components["downweighted"] < 1 and not any(x.requires_grad for x in components.values())
    loss.contrast = rince.Supervised()
    loss(z1, z2, labels=torch.arange(16) // 2)
    assert "effective_negatives" not in loss.components()
