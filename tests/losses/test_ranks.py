"""Several ranks against one: values, gradients, queues and error messages."""

import pytest
import torch

import rince
from rince.losses import ranks
from rince.losses.ranks import settings_of
from support import ranks as workers
from support.losses.processes import CONTRASTS, LOSSES, NCCL, cases, step, worker


class TwoGpus:
    """As much of torch.distributed as the exchange looks at."""

    is_available = is_initialized = staticmethod(lambda: True)
    get_world_size = staticmethod(lambda: 2)
    get_backend = staticmethod(lambda: "nccl")


def test_rejected_input_is_reported_to_the_other_ranks(monkeypatch):
    told = []
    monkeypatch.setattr(ranks, "dist", TwoGpus)
    monkeypatch.setattr(ranks, "_exchange", lambda numbers: told.append(numbers[0]))
    with pytest.raises(TypeError, match="must be a tensor, got list"):
        rince.RINCE.paper()([1.0], [1.0])
    assert told == [0]


@pytest.mark.parametrize("error", (RuntimeError, NotImplementedError, AttributeError, KeyError))
def test_error_on_one_rank_reaches_all_ranks(monkeypatch, error):
    told = []

    def broken(numbers):
        told.append(numbers[0])
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ranks, "dist", TwoGpus)
    monkeypatch.setattr(ranks, "_exchange", broken)
    with pytest.raises(error, match="before the exchange"), ranks.one_call(rince.GCE(), rince.TwoView(), None):
        raise error("before the exchange")
    assert told == [0]


class Bare:
    """A value of a user's own, which shows its address."""


@pytest.mark.parametrize("name", LOSSES)
def test_settings_of_equal_losses_are_equal_whatever_a_user_adds(name):
    one, two = (LOSSES[name](contrast=CONTRASTS["Queue"]()) for _ in range(2))
    two.name, two.contrast.name, two.seen = Bare(), Bare(), 3
    settings = settings_of(one, one.contrast, None)
    assert settings_of(two, two.contrast, None) == settings and "0x" not in "".join(settings.values())


def test_error_after_the_exchange_starts_no_other_exchange(monkeypatch):
    rows = [[1.0, 4, 0, 0, 0]] * 2
    exchanges = []
    monkeypatch.setattr(ranks, "dist", TwoGpus)
    monkeypatch.setattr(ranks, "_exchange", lambda *given: exchanges.append(given) or rows)
    with pytest.raises(TypeError, match="of the objective"), ranks.one_call(rince.GCE(), rince.TwoView(), None):
        assert ranks.agree([torch.randn(4, 8)] * 2, None) == [4, 4]
        raise TypeError("of the objective")
    assert len(exchanges) == 1


def test_single_process_exchanges_nothing(monkeypatch):
    monkeypatch.setattr(ranks, "_exchange", lambda *_: pytest.fail("nobody else is there"))
    with pytest.raises(TypeError):
        rince.RINCE.paper()([1.0], [1.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What four processes have left behind: one pool for all cases, and one import of torch for the pool."""
    place = tmp_path_factory.mktemp("processes")
    workers.start(worker, 4, place)
    return place


@pytest.mark.parametrize("world", (2, 3, 4))
def test_gradients_on_ranks_equal_the_joined_batch(world, folder):
    """With gloo, and with the branch for nccl."""
    results = [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]
    every = [*cases(world), *(NCCL if world == 2 else [])]
    assert {len(steps) for steps in results} == {len(every)}
    for i, case in enumerate(every):
        value, gradient, state, of_loss = step(*case)
        for rank in results:
            _, got, other_state, _ = rank[i]
            assert (got - gradient).norm() <= 1e-5 * gradient.norm(), case
            for name in state:
                torch.testing.assert_close(other_state[name], state[name], rtol=1e-5, atol=1e-6)
        for part, expected in ((0, value), (3, of_loss)):
            mean = torch.stack([rank[i][part] for rank in results]).mean(0)
            torch.testing.assert_close(mean, expected, rtol=1e-5, atol=1e-6)
