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
    loss = rince.InfoNCE(temperature, **options)
    with torch.no_grad():
        temperature.fill_(value)
    return loss, temperature


@pytest.mark.parametrize("value", (0.00999, 0.0, -3.0))
@pytest.mark.filterwarnings("ignore:the learned temperature has fallen")
def test_a_learned_temperature_below_the_least_counts_as_the_least_and_can_only_rise(value):
    z1, _ = pairs(8)
    for two, rises in (((z1, z1), False), ((z1, -z1), True)):  # perfect pairs want it lower, awful ones higher
        loss, temperature = learned(value, contrast=rince.CrossView())
        fixed = rince.InfoNCE(LEAST_TEMPERATURE, rince.CrossView())
        got = loss(*two)
        assert got.item() == pytest.approx(fixed(*two).item(), rel=1e-5)
        got.backward()
        assert (temperature.grad < 0) if rises else (temperature.grad == 0)
        torch.testing.assert_close(loss.scores(*two), fixed.scores(*two), rtol=1e-5, atol=1e-5)


def test_training_does_not_drive_a_learned_temperature_to_nothing_and_it_comes_back():
    z1, _ = pairs(8)
    loss, temperature = learned(0.3)
    optimiser = torch.optim.SGD([temperature], lr=0.1, weight_decay=2)

    def train(a, b, steps):
        for _ in range(steps):
            optimiser.zero_grad()
            value = loss(a, b)
            value.backward()
            optimiser.step()
            assert value.isfinite() and temperature.isfinite()

    with pytest.warns(
        UserWarning, match=r"learned temperature has fallen to .* counts as 0\.01: start it higher"
    ) as found:
        train(z1, z1, 20)
    assert len(found) == 1 and temperature < 0.01 and "temperature=0.01," in repr(loss)
    train(z1, -z1, 20)
    assert temperature > 0.01


def test_a_learned_temperature_is_one_number_in_the_state_dict_and_must_start_at_the_least():
    loss, _ = learned(0.2)
    assert {name: float(value) for name, value in loss.state_dict().items()} == {"temperature": pytest.approx(0.2)}
    rince.InfoNCE(torch.nn.Parameter(torch.tensor(0.01, dtype=torch.bfloat16)))
    with pytest.raises(ValueError, match=r"must start at 0\.01 or above, got 0\.005: a lower one can only be a fixed"):
        rince.InfoNCE(torch.nn.Parameter(torch.tensor(0.005)))
    rince.InfoNCE(0.005)


def test_the_papers_scale_with_a_learned_temperature_warns():
    temperature = torch.nn.Parameter(torch.tensor(0.5))
    with pytest.warns(UserWarning, match="will drive it there: use scale='unit'"):
        rince.RINCE(0.5, temperature=temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rince.RINCE(0.5, temperature=temperature, scale="unit")
        rince.RINCE(0, temperature=temperature)


def test_a_learned_temperature_compiles_once_on_both_sides_of_the_least():
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
