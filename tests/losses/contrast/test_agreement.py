"""What processes are told when they differ is tested by test_gather.py with real ones; here, what needs none."""

import pytest
import torch

import rince
from rince.losses.contrast import agreement
from rince.losses.contrast.agreement import FACTS
from rince.losses.facts import known_of
from support.losses.processes import CONTRASTS, LOSSES


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


@pytest.mark.parametrize("error", (RuntimeError, NotImplementedError, AttributeError, KeyError))
def test_others_are_told_of_an_error_of_any_kind_which_is_seen_even_if_nothing_can_be_said(monkeypatch, error):
    told = []

    def broken(numbers, device):
        told.append(numbers[0])
        raise ConnectionError("nobody there")

    monkeypatch.setattr(agreement, "dist", TwoGpus)
    monkeypatch.setattr(agreement, "_exchange", broken)
    with pytest.raises(error, match="before the exchange"), agreement.one_call(torch.device("cuda:0")):
        raise error("before the exchange")
    assert told == [0]


class Bare:
    """A value of a user's own, which shows its address."""


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_compared_is_the_same_for_two_of_a_kind_whatever_a_user_adds(name):
    one, two = (LOSSES[name](contrast=CONTRASTS["Queue"]()) for _ in range(2))
    two.name, two.contrast.name, two.seen = Bare(), Bare(), 3
    facts, words = known_of(one, one.contrast, None)
    assert known_of(two, two.contrast, None).facts == facts and facts.keys() | words.keys() <= FACTS.keys()
    assert "0x" not in "".join(word() for word in words.values())


def test_a_learned_temperature_that_is_not_finite_is_still_exchanged():
    temperature = torch.nn.Parameter(torch.tensor(0.2))
    loss = rince.InfoNCE(temperature)
    for value in (float("nan"), float("inf")):
        temperature.data.fill_(value)
        assert known_of(loss, loss.contrast, None).facts["learned_temperature"] == -2


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
