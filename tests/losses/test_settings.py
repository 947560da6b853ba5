"""Settings that are changed between steps: checked like those of the constructor, and kept by what copies a loss."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

import rince
from rince.errors import UsageError, WrongType
from support.losses.loss_cases import batch


@pytest.mark.parametrize(
    "loss, name, bad, error, message",
    [
        (rince.InfoNCE, "temperature", -1.0, UsageError, "temperature must be positive, got -1.0"),
        (rince.InfoNCE, "temperature", 0.0, UsageError, "temperature must be positive, got 0.0"),
        (rince.InfoNCE, "temperature", math.nan, UsageError, "temperature must be positive, got nan"),
        (rince.InfoNCE, "temperature", 1e-300, UsageError, "temperature must be at least 0.0001"),
        (rince.InfoNCE, "temperature", 1j, WrongType, "a positive number, rince.LearnedTemperature"),
        (rince.InfoNCE, "temperature", torch.ones(2), UsageError, "must be one number, got a tensor of shape"),
        (rince.InfoNCE, "temperature", torch.tensor(-1.0), UsageError, "temperature must be positive, got -1.0"),
        (rince.InfoNCE, "temperature", nn.Parameter(torch.tensor(0.005)), UsageError, "must start at 0.01 or above"),
        (rince.InfoNCE, "reduction", "avg", UsageError, "reduction must be 'mean', 'sum' or 'none', got 'avg'"),
        (rince.InfoNCE, "contrast", rince.TwoView, WrongType, "contrast must be a rince contrast"),
        (rince.RINCE, "lam", 5, UsageError, r"lam must be in \(0, 1\]"),
        (rince.RINCE, "scale", "big", UsageError, "scale must be 'paper' or 'unit', got 'big'"),
        (rince.Debiased, "tau_plus", 1.0, UsageError, r"tau_plus must be in \[0, 1\), got 1.0"),
        (rince.HardNegatives, "beta", -1, UsageError, r"beta must be in \[0, inf\), got -1"),
        (rince.Sigmoid, "bias", torch.ones(2), UsageError, "bias must be a tensor or a parameter of one finite number"),
        (rince.Sigmoid, "bias", nn.Parameter(torch.tensor(math.nan)), UsageError, "one finite number, got Parameter"),
        (rince.SymmetricCrossEntropy, "alpha", -1, UsageError, r"alpha must be in \[0, inf\), got -1"),
    ],
)
def test_what_is_set_later_is_checked_and_a_bad_value_changes_nothing(loss, name, bad, error, message):
    loss = loss()
    before = getattr(loss, name)
    with pytest.raises(error, match=message):
        setattr(loss, name, bad)
    assert getattr(loss, name) is before


@pytest.mark.parametrize(
    "kind, name, value",
    [
        (rince.InfoNCE, "temperature", 0.2),
        (rince.InfoNCE, "reduction", "sum"),
        (rince.InfoNCE, "contrast", rince.CrossView()),
        (rince.RINCE, "lam", "balanced"),
        (rince.HardNegatives, "beta", 2),
        (rince.Sigmoid, "bias", nn.Parameter(torch.tensor(-2.0))),
        (rince.SymmetricCrossEntropy, "alpha", 0.3),
        (rince.SymmetricCrossEntropy, "log_zero", -2.0),
    ],
)
def test_what_is_set_later_counts_like_what_is_given_at_the_start(kind, name, value):
    z1, z2, *_ = batch(5)
    loss = kind()
    setattr(loss, name, value)
    assert loss(z1, z2).item() == kind(**{name: value})(z1, z2).item()


@pytest.mark.filterwarnings("ignore:the learned temperature has fallen")
def test_a_temperature_that_is_computed_is_not_looked_at():
    z1, z2, *_ = batch(5)
    loss, logit_scale = rince.InfoNCE(temperature=0.5), nn.Parameter(torch.tensor(7.0))
    loss.temperature = 1 / logit_scale.exp()  # below the least, as which it counts
    assert loss(z1, z2).item() == pytest.approx(rince.InfoNCE(temperature=0.01)(z1, z2).item(), rel=1e-5)
    loss.temperature = nn.Parameter(torch.empty((), device="meta"))


@pytest.mark.parametrize("copied", (copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))))
def test_deepcopy_and_pickle_keep_settings(copied):
    loss = rince.RINCE(
        q=0.3,
        lam="balanced",
        temperature=nn.Parameter(torch.tensor(0.3)),
        contrast=rince.CrossView(),
        scale="unit",
        reduction="sum",
    )
    with torch.no_grad():
        loss.temperature.fill_(-1.0)  # as training may have left it
    other = copied(loss)
    assert repr(other) == repr(loss) and other.temperature == -1 and isinstance(other.temperature, nn.Parameter)
    rince.RINCE(q=0.3, temperature=nn.Parameter(torch.tensor(0.3)), scale="unit").load_state_dict(loss.state_dict())
    with pytest.raises(UsageError, match="lam must be"):
        other.lam = 5


def test_a_temperature_can_be_set_inside_of_a_compiled_step():
    z1, z2, *_ = batch(5)

    def step(loss, logit_scale):
        loss.temperature = 1 / logit_scale.exp()
        return loss(z1, z2)

    torch.compiler.reset()
    logit_scale = nn.Parameter(torch.tensor(2.0))
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    got, expected = (
        torch.autograd.grad(f(rince.InfoNCE(temperature=0.5), logit_scale), logit_scale)[0] for f in (compiled, step)
    )
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
