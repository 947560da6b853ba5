import pytest
import torch

import rince
from rince.compare.losses import KINDS, parse_loss
from rince.errors import UsageError


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("infonce", "InfoNCE"),
        ("rince", "RINCE q 0.5"),
        ("rince-0.1-r2.5", "RINCE q 0.1, r 2.5"),
        ("rince-r5", "RINCE q 0.5, r 5"),
        ("rince-0.5-lam0.01", "RINCE q 0.5, lam 0.01"),
        ("sigmoid-5", "Sigmoid bias -5"),
        ("hard", "Hard negatives beta 1, tau_plus 0.1"),
        ("hard-0.5-tau0", "Hard negatives beta 0.5, tau_plus 0"),
        ("gce-0.7+trust", "GCE q 0.7, trust"),
        ("rince-0.01:0.4-lam0.01", "RINCE q 0.01 to 0.4, lam 0.01"),
        ("my_module.MyLoss+trust", "my_module.MyLoss, trust"),
    ],
)
def test_names_and_labels(name, label):
    assert parse_loss(name).label == label


@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_is_built_with_its_temperature_and_contrast(kind):
    z1, z2 = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    loss = parse_loss(kind).build(0.2, rince.CrossView())
    assert float(loss.temperature) == pytest.approx(0.2) and torch.isfinite(loss(z1, z2))


def test_a_loss_by_name_is_the_loss():
    z1, z2 = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    expected = rince.RINCE(q=0.1, lam=rince.DensityRatio(2.5), temperature=0.2, scale="unit")(z1, z2)
    assert torch.equal(parse_loss("rince-0.1-r2.5").build(0.2)(z1, z2), expected)


def test_numbers_of_a_name_reach_the_loss():
    assert parse_loss("sigmoid-5").build(0.2).bias.item() == -5
    assert parse_loss("rince-0.5-lam0.01").build(0.2).lam == 0.01
    assert parse_loss("hard-tau0").build(0.2).tau_plus == 0


def test_a_configuration_gets_the_same_loss():
    part = parse_loss("rince-0.3").part(0.5)
    assert part == {
        "class_path": "rince.RINCE",
        "init_args": {"q": 0.3, "lam": "balanced", "scale": "unit", "temperature": 0.5},
    }


@pytest.mark.parametrize(
    "name",
    [
        "rinse",
        "rince-x",
        "infonce-3",
        "gce-1-2",
        "+trust",
        "rince-0.5-rx",
        "rince-0.5-lam",
        "rince-0.5-r2-r3",
        "hard-tau",
        "gce-tau1",
        "rince-0.1:x",
        "debiased-0.1:0.2",
    ],
)
def test_what_no_loss_is_called_is_refused(name):
    with pytest.raises(UsageError, match="loss"):
        parse_loss(name)


def test_growing_q_starts_and_ends_where_the_name_says():
    loss = parse_loss("gce-0.7:1")
    assert (loss.schedule(0.0), loss.schedule(1.0)) == (0.7, 1.0) and loss.build(0.2).q == 1
    assert parse_loss("gce-1").schedule is None


def test_loss_by_class_path_gets_supported_arguments_only(tmp_path, monkeypatch):
    (tmp_path / "losses_of_mine.py").write_text(
        "from torch import nn\nclass Mine(nn.Module):\n    def __init__(self, temperature):\n"
        "        super().__init__()\n        self.temperature = temperature\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert parse_loss("losses_of_mine.Mine").build(0.3, rince.CrossView()).temperature == 0.3
    assert parse_loss("rince.GCE").build(0.3, rince.CrossView()).temperature == 0.3
    with pytest.raises(UsageError, match="losses_of_mine"):
        parse_loss("losses_of_mine.Other").build(0.3)
    with pytest.raises(UsageError, match="no_such_module"):
        parse_loss("no_such_module.Loss").build(0.3)
