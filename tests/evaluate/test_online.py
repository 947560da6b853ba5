from types import SimpleNamespace

import torch

from rince.evaluate.online import OnlineProbe


def step(probe, features, labels):
    """The accuracy that one step of the probe logs."""
    logged = {}
    module = SimpleNamespace(
        last_features=(features, labels), log=lambda name, value, **_: logged.update({name: value})
    )
    probe.on_train_batch_end(SimpleNamespace(world_size=1), module, None, None, 0)
    return float(logged["probe"])


def test_it_learns_from_items_with_a_label_only():
    source = torch.Generator().manual_seed(0)
    features, labels = torch.randn(12, 4, generator=source), torch.arange(12) % 3
    known = torch.arange(12) % 4 != 0
    some, without = OnlineProbe(3, lr=0.1), OnlineProbe(3, lr=0.1)
    for _ in range(5):
        mixed = step(some, features, torch.where(known, labels, -1))
        alone = step(without, features[known], labels[known])
        assert mixed == alone
    torch.testing.assert_close(some.layer.weight, without.layer.weight)
    assert some.layer.weight.abs().max() > 0.1


def test_a_step_without_any_label_teaches_nothing():
    probe = OnlineProbe(3)
    assert step(probe, torch.randn(4, 2), torch.full((4,), -1)) == 0
    assert not probe.layer.weight.any() and probe.layer.weight.isfinite().all()
