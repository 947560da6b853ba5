"""What adapters do on two processes: as the peers' own losses there, or as one process with the joined batch."""

import pytest
import torch
import torch.multiprocessing as mp

import rince
from integrations.peer_processes import LIGHTLY, ROWS, Towers, labels, pair_loss, step, whole, worker
from rince.integrations.lightly import SupConLoss


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both processes report; one start for all tests."""
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(worker, (2, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def have(found, name, package):
    if name not in found[0]:
        pytest.skip(f"{package} is not installed: make test-peers")
    return [report[name] for report in found]


def close(got, true, bound=1e-5):
    return (got - true).norm() <= bound * true.norm() + 1e-9


@pytest.mark.parametrize("name", LIGHTLY)
def test_gather_distributed_is_lightlys(name, found):
    for theirs, ours in have(found, name, "lightly"):
        assert all(close(got, true) for true, got in zip(theirs, ours, strict=True))


def joined(parts):
    """(2 views of 6 pairs) x 2 processes, as views of 12 pairs; averaged, as DistributedDataParallel does it."""
    first, second = ([part[1][:ROWS] for part in parts], [part[1][ROWS:] for part in parts])
    return torch.cat([*first, *second]) / 2


@pytest.mark.parametrize("name", ("supcon", "supcon alone"))
def test_supcon_of_two_processes_is_that_of_the_joined_batch(name, found):
    a, b = (t.requires_grad_() for t in whole())
    given = {"labels": labels()} if name == "supcon" else {}
    value, gradient = step(SupConLoss(0.2, rescale=False), a, b, **given)
    parts = have(found, name, "rince")
    assert close(sum(part[0] for part in parts) / 2, value)
    assert close(joined(parts), gradient)


@pytest.mark.parametrize("efficient", (False, True))
def test_the_wrapper_of_pytorch_metric_learning_takes_our_losses(efficient, found):
    reports = have(found, f"wrapper {efficient}", "pytorch-metric-learning")
    for theirs, ours, robust in reports:
        assert all(close(got, true) for true, got in zip(theirs, ours, strict=True))
        assert robust[0].isfinite() and robust[1].norm() > 0
    if efficient:
        return
    from rince.integrations.pytorch_metric_learning import RINCELoss

    a = whole()[0].requires_grad_()
    value = RINCELoss(0.2)(a, labels())
    gradient = torch.autograd.grad(value, a)[0]
    got = torch.cat([report[2][1] for report in reports]) / 2  # what DistributedDataParallel makes of it
    assert close(got, gradient)


def one_process():
    model = Towers()
    pair_loss()(*model(*whole())).backward()
    return model


def test_accelerate_gets_the_gradient_of_the_joined_batch(found):
    expected = torch.cat([p.grad.flatten() for p in one_process().parameters()])
    for got in have(found, "accelerate", "accelerate"):
        assert close(got, expected)


def test_a_step_of_the_trainer_on_two_processes_is_that_of_one(found):
    expected = torch.cat([(p - p.grad).detach().flatten() for p in one_process().parameters()])
    for got in have(found, "transformers", "transformers"):
        assert close(got, expected)


def test_labels_of_their_own_differ_from_those_given(found):
    """Else the tests above could not tell them apart."""
    assert found[0]["supcon"][0] != found[0]["supcon alone"][0]
    assert rince.InfoNCE(temperature=0.2)(*whole()).item() == pytest.approx(
        sum(float(report["supcon alone"][0]) for report in found) / 2, rel=1e-5
    )
