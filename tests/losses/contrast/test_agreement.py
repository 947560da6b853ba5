"""What processes are told when they differ is tested by test_gather.py with real ones; here, what needs none."""

import pytest
import torch

import rince
from rince.losses.contrast import agreement


class TwoGpus:
    """As much of torch.distributed as the exchange looks at."""

    is_available = is_initialized = staticmethod(lambda: True)
    get_world_size = staticmethod(lambda: 2)
    get_backend = staticmethod(lambda: "nccl")


def test_with_nccl_a_refusal_travels_on_the_gpu(monkeypatch):
    told = []
    monkeypatch.setattr(agreement, "dist", TwoGpus)
    monkeypatch.setattr(agreement, "_exchange", lambda numbers, device: told.append((numbers[0], str(device))))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    with pytest.raises(TypeError, match="must be a tensor, got list"):
        rince.RINCE()([1.0], [1.0])
    assert told == [(0, "cuda:3")]


def test_a_process_that_fails_after_the_exchange_does_not_wait_for_another(monkeypatch):
    rows = [[1, 4, 8, 2, *[0] * (len(agreement.FACTS) - 2)]] * 2
    exchanges = []
    monkeypatch.setattr(agreement, "dist", TwoGpus)
    monkeypatch.setattr(agreement, "_exchange", lambda *given: exchanges.append(given) or rows)
    with pytest.raises(TypeError, match="of the objective"), agreement.one_call(None):
        assert agreement.agree([torch.randn(4, 8)] * 2, None) == [4, 4]
        raise TypeError("of the objective")
    assert len(exchanges) == 1


def test_one_process_exchanges_nothing(monkeypatch):
    monkeypatch.setattr(agreement, "_exchange", lambda *_: pytest.fail("nobody else is there"))
    with pytest.raises(TypeError):
        rince.RINCE()([1.0], [1.0])
