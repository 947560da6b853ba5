"""What losses refuse, and in which words."""

import math
import warnings

import numpy as np
import pytest
import torch

import rince
from rince.errors import WrongType
from support.losses.loss_cases import CONTRASTS, batch


@pytest.mark.parametrize("bad", (-0.5, math.nan, math.inf))
def test_weights_that_are_negative_or_not_finite_are_refused(bad):
    z1, z2, *_ = batch(4)
    with pytest.raises(ValueError, match=f"finite and not negative, got {bad:g}"):
        rince.RINCE.paper()(z1, z2, weights=torch.tensor([1, 0, bad, 2]))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: rince.RINCE.paper(q=1.5), ValueError, r"q must be in \[0, 1\], got 1.5"),
        (lambda: rince.RINCE.paper(q=-0.1), ValueError, "q must be"),
        (lambda: rince.RINCE.paper(q=math.nan), ValueError, "q must be"),
        (lambda: rince.RINCE.paper(lam=0), ValueError, r"lam must be in \(0, 1\]"),
        (lambda: rince.RINCE.paper(lam=2), ValueError, "lam must be"),
        (lambda: rince.RINCE.paper(lam="balance"), ValueError, "'balanced'"),
        (lambda: rince.RINCE.paper(lam=None), ValueError, "lam must be"),
        (lambda: rince.RINCE.paper(lam=np.array([0.1, 0.2])), ValueError, "lam must be"),
        (lambda: rince.RINCE.paper(q="0.5"), WrongType, r"q must be a number in \[0, 1\], got str"),
        (lambda: rince.DensityRatio("2"), ValueError, "positive number, got '2'"),
        (lambda: rince.DensityRatio(0), ValueError, "positive"),
        (lambda: rince.RINCE.paper(temperature=0), ValueError, "temperature must be positive, got 0"),
        (lambda: rince.InfoNCE(temperature=-1), ValueError, "temperature"),
        (lambda: rince.InfoNCE(temperature="0.1"), WrongType, "temperature"),
        (lambda: rince.InfoNCE(temperature=torch.ones(2)), ValueError, "one number"),
        (lambda: rince.RINCE(scale="big"), ValueError, "'paper' or 'unit'"),
        (lambda: rince.RINCE.paper(reduction="avg"), ValueError, "'mean', 'sum' or 'none'"),
        (lambda: rince.RINCE.paper(contrast=rince.TwoView), WrongType, "rince.TwoView()"),
        (lambda: rince.ContrastiveLoss("info_nce"), WrongType, "function"),
    ],
)
def test_bad_settings_are_refused_at_the_door(make, error, message):
    with pytest.raises(error, match=message):
        make()


Z = torch.randn(4, 8)


@pytest.mark.parametrize(
    "arguments, others, error, message",
    [
        ((Z, Z[:3]), {}, ValueError, r"same shape, got \(4, 8\) and \(3, 8\)"),
        ((Z, Z[:, :5]), {}, ValueError, "same shape"),
        ((Z[0], Z[0]), {}, ValueError, r"\(pairs, width\), got \(8,\)"),
        ((Z.long(), Z.long()), {}, WrongType, "floating point, got torch.int64"),
        ((Z.numpy(), Z), {}, WrongType, "must be a tensor, got ndarray"),
        ((Z,), {}, ValueError, r"two views: call loss\(z1, z2\)"),
        (([1.0], [1.0]), {"weights": torch.ones(1)}, WrongType, "must be a tensor, got list"),
        ((Z[:, :0], Z[:, :0]), {}, ValueError, "at least 1 wide"),
        (
            (Z, Z),
            {"ids": torch.arange(3)},
            ValueError,
            r"ids must have one value per pair: expected \(4,\), got \(3,\)",
        ),
        ((Z, Z), {"ids": torch.rand(4)}, WrongType, "ids must be integers"),
        ((Z, Z), {"ids": [1, 2, 3, 4]}, WrongType, "ids must be a tensor"),
        ((Z, Z), {"weights": torch.ones(8)}, ValueError, "weights must have one value per pair"),
        ((Z, Z), {"weights": [1.0] * 4}, WrongType, "weights must be a tensor"),
    ],
)
@pytest.mark.parametrize("kind", CONTRASTS)
def test_bad_input_is_one_clear_sentence(kind, arguments, others, error, message):
    if kind == "Supervised":
        if len(arguments) == 1:
            pytest.skip("one view will do there")
        others = others | {"labels": torch.arange(len(arguments[0]))}
    contrast = rince.Queue(Z.shape[1], 5) if kind == "Queue" else CONTRASTS[kind]()
    with pytest.raises(error, match=message):
        rince.RINCE.paper(contrast=contrast)(*arguments, **others)


@pytest.mark.filterwarnings("ignore:RINCE with q")
@pytest.mark.parametrize(
    "dtype, q, t",
    [
        (torch.bfloat16, 1, 0.01),
        (torch.float32, 1, 0.011),
        (torch.float16, 0.5, 0.01),
        (torch.float16, 0.01, 0.001),  # exp(q/temperature) alone would fit
        (None, 1, 0.001),
    ],
)
def test_overflowing_gradients_are_refused(dtype, q, t):
    z1, z2 = (z.detach().to(dtype or torch.float64).requires_grad_() for z in batch(4)[:2])
    with pytest.raises(rince.errors.UsageError, match=r"temperature = 1e\d+.* scale='unit'"):
        rince.RINCE.paper(q=q, temperature=t)(z1, z1)
    for way_out in (rince.RINCE(q=q, temperature=t, scale="unit"), rince.RINCE.paper(q=q, temperature=0.2)):
        for gradient in torch.autograd.grad(way_out(z1, z2), (z1, z2)):
            assert gradient.isfinite().all() and gradient.abs().sum() > 0


@pytest.mark.filterwarnings("ignore:RINCE with")
def test_a_learned_temperature_that_has_fallen_is_refused_too():
    z1, z2, *_ = batch(4)
    temperature = torch.nn.Parameter(torch.tensor(0.2))
    loss = rince.RINCE.paper(q=1.0, temperature=temperature)
    assert loss(z1, z2).isfinite()
    temperature.data.fill_(0.01)
    with pytest.raises(rince.errors.UsageError, match="use scale='unit'"):
        loss(z1, z2)


@pytest.mark.parametrize("loss", (rince.RINCE, rince.InfoNCE))
def test_too_low_temperature_is_refused(loss):
    with pytest.raises(rince.errors.UsageError, match=r"temperature .* 0\.0001, got 1e-300"):
        loss(temperature=1e-300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert loss(temperature=1e-4).temperature == 1e-4


@pytest.mark.parametrize("contrast, kind", ((rince.CrossView, "CrossView"), ("x", "str"), (3, "int")))
def test_a_contrast_in_a_call_is_checked_like_that_of_the_constructor(contrast, kind):
    for call in (rince.InfoNCE(temperature=0.5), rince.InfoNCE(temperature=0.5).scores):
        with pytest.raises(
            WrongType, match=rf"contrast must be a rince contrast such as rince.TwoView\(\), got {kind}"
        ):
            call(Z, Z, contrast=contrast)
