import math
import warnings

import pytest
import torch

import rince
from rince.losses.temperature import LEAST_TEMPERATURE


def pairs(n):
    """Embeddings that mostly belong together, row by row."""
    g = torch.Generator().manual_seed(0)
    z1 = torch.randn(n, 16, generator=g)
    return z1, z1 + torch.randn(n, 16, generator=g)


def learned(value, **options):
    temperature = torch.nn.Parameter(torch.tensor(0.3))
    loss = rince.InfoNCE(temperature=temperature, **options)
    with torch.no_grad():
        temperature.fill_(value)
    return loss, temperature


@pytest.mark.parametrize("value", (0.00999, 0.0, -3.0))
@pytest.mark.filterwarnings("ignore:the learned temperature has fallen")
def test_learned_temperature_is_clamped_and_can_rise(value):
    z1, _ = pairs(8)
    for two, rises in (((z1, z1), False), ((z1, -z1), True)):  # perfect pairs want it lower, awful ones higher
        loss, temperature = learned(value, contrast=rince.CrossView())
        fixed = rince.InfoNCE(temperature=LEAST_TEMPERATURE, contrast=rince.CrossView())
        got = loss(*two)
        assert got.item() == pytest.approx(fixed(*two).item(), rel=1e-5)
        got.backward()
        assert (temperature.grad < 0) if rises else (temperature.grad == 0)
        torch.testing.assert_close(loss.scores(*two), fixed.scores(*two), rtol=1e-5, atol=1e-5)


def test_learned_temperature_does_not_collapse():
    z1, _ = pairs(8)
    loss, temperature = learned(0.3)
    optimizer = torch.optim.SGD([temperature], lr=0.1, weight_decay=2)

    def train(a, b, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            value = loss(a, b)
            value.backward()
            optimizer.step()
            assert value.isfinite() and temperature.isfinite()

    with pytest.warns(UserWarning, match=r"counts as 0\.01.*LearnedTemperature") as found:
        train(z1, z1, 20)
    assert len(found) == 1 and temperature < 0.01 and "temperature=0.01," in repr(loss)
    train(z1, -z1, 20)
    assert temperature > 0.01


def test_learned_temperature_is_in_the_state_dict_and_starts_above_its_minimum():
    loss, _ = learned(0.2)
    assert {name: float(value) for name, value in loss.state_dict().items()} == {"temperature": pytest.approx(0.2)}
    rince.InfoNCE(temperature=torch.nn.Parameter(torch.tensor(0.01, dtype=torch.bfloat16)))
    with pytest.raises(ValueError, match=r"0\.01 or above, got 0\.005"):
        rince.InfoNCE(temperature=torch.nn.Parameter(torch.tensor(0.005)))
    rince.InfoNCE(temperature=0.005)


def test_the_papers_scale_with_a_learned_temperature_warns():
    temperature = torch.nn.Parameter(torch.tensor(0.5))
    with pytest.warns(UserWarning, match="will drive it there: use scale='unit'"):
        rince.RINCE.paper(q=0.5, temperature=temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rince.RINCE(q=0.5, temperature=temperature, scale="unit")
        rince.RINCE.paper(q=0, temperature=temperature)


def test_learned_temperature_compiles_once():
    z1, z2 = pairs(5)
    loss, temperature = learned(0.2)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (0.2, 0.5, 0.001, 0.3):
            with torch.no_grad():
                temperature.fill_(value)
            got, expected = (torch.autograd.grad(f(z1, z2), temperature)[0] for f in (compiled, loss))
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", (rince.InfoNCE, rince.GCE, rince.RINCE, rince.Sigmoid))
def test_learned_temperature_gets_the_gradient_of_its_logarithm(make):
    z1, z2 = torch.randn(2, 8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    loss = make(temperature=rince.LearnedTemperature(0.3)).double()
    loss(z1, z2).backward()
    step = 1e-5
    ends = [make(temperature=0.3 * math.exp(sign * step)).double()(z1, z2).item() for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    assert loss.temperature.log_temperature.grad.item() == pytest.approx(expected, rel=1e-4)


def test_learned_temperature_stays_within_its_bounds_and_comes_back():
    temperature = rince.LearnedTemperature(0.2, min=0.1, max=0.4)
    optimizer = torch.optim.SGD(temperature.parameters(), lr=1.0)
    for sign, end in ((1, 0.1), (-1, 0.4)):
        for _ in range(30):
            optimizer.zero_grad()
            (sign * temperature()).backward()
            optimizer.step()
        assert temperature().item() == pytest.approx(end)


def test_learned_temperature_is_saved_and_replaceable():
    loss = rince.InfoNCE(temperature=rince.LearnedTemperature(0.3))
    other = rince.InfoNCE(temperature=rince.LearnedTemperature())
    other.load_state_dict(loss.state_dict())
    assert other.temperature().item() == pytest.approx(0.3)
    other.temperature = 0.1
    assert other.temperature == 0.1 and not list(other.parameters())
    with pytest.raises(rince.errors.UsageError, match="min <= init <= max"):
        rince.LearnedTemperature(0.3, max=0.2)


@pytest.mark.parametrize("make", (lambda t: rince.InfoNCE(temperature=t), lambda t: rince.Sigmoid(bias=t - 1)))
def test_parameter_of_one_element_is_a_temperature_or_a_bias(make):
    z1, z2 = torch.randn(2, 4, 3)
    parameter = torch.nn.Parameter(torch.tensor([0.3]))
    assert make(parameter)(z1, z2).item() == pytest.approx(make(torch.nn.Parameter(torch.tensor(0.3)))(z1, z2).item())
