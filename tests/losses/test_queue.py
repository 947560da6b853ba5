import copy
import pickle
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rince
from rince.losses.contrasts import unit
from support.losses import reference


@given(size=st.integers(1, 12), batches=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_the_queue_holds_the_newest_keys_first_in_first_out(size, batches):
    queue, history = rince.Queue(3, size), torch.empty(0, 3)
    for i, n in enumerate(batches):
        keys = torch.randn(n, 3, generator=torch.Generator().manual_seed(i))
        queue.push(keys)
        history = torch.cat([history, unit(keys)])[-size:]
    held = queue.keys[: len(history)]
    assert {tuple(k) for k in held.tolist()} == {tuple(k) for k in history.tolist()}
    if len(history) == size:  # the oldest lies where the next key will go
        oldest = int(queue.pushed) % size
        torch.testing.assert_close(held.roll(-oldest, 0), history)


def test_it_survives_a_state_dict():
    loss = rince.RINCE.paper(contrast=rince.Queue(4, 6))
    z = torch.randn(3, 4, 4)
    for a in z:
        loss(a, a.flip(0))
    other = rince.RINCE.paper(contrast=rince.Queue(4, 6))
    other.load_state_dict(loss.state_dict())
    assert loss(z[0], z[1]).item() == other(z[0], z[1]).item()


def test_only_training_pushes():
    loss = rince.RINCE.paper(contrast=rince.Queue(4, 6))
    a, b = torch.randn(2, 3, 4)
    loss.eval()
    loss(a, b)
    assert loss.contrast.pushed == 0
    loss.train()
    loss(a, b)
    assert loss.contrast.pushed == 3


def test_keys_carry_no_gradient_and_an_empty_queue_is_finite():
    loss = rince.RINCE.paper(contrast=rince.Queue(4, 6))
    a, b = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    loss(a, b).backward()
    assert a.grad.isfinite().all() and b.grad is None


def test_a_push_between_forward_and_backward_changes_no_gradient():
    loss = rince.InfoNCE(temperature=0.5, contrast=rince.Queue(4, 3))
    loss.contrast.push(torch.eye(4)[:3])
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    expected = torch.autograd.grad(rince.InfoNCE(temperature=0.5, contrast=loss.contrast).eval()(a, b), a)[0]
    loss.train()
    value = loss(a, b)  # this pushes
    torch.testing.assert_close(torch.autograd.grad(value, a)[0], expected)


def test_keys_of_the_same_id_are_no_negatives():
    contrast = rince.Queue(4, 6)
    contrast.push(torch.randn(2, 4), torch.tensor([7, 8]))
    contrast.push(torch.randn(2, 4))  # without ids: negatives of everyone
    scores = contrast(torch.randn(3, 4), torch.randn(3, 4), 0.5, None, torch.tensor([7, 8, 9]))
    assert scores.num_negatives.tolist() == [3, 3, 4]


@pytest.mark.parametrize("ids", [[0, 1, 2], [-1, -2, 2**62]])
def test_no_id_of_a_query_is_that_of_a_key_without_id(ids):
    contrast = rince.Queue(4, 6)
    contrast.push(torch.randn(5, 4))
    assert contrast(torch.randn(3, 4), torch.randn(3, 4), 0.5, None, torch.tensor(ids)).num_negatives.tolist() == [
        5,
        5,
        5,
    ]


def test_ids_leave_keys_out_of_the_sum():
    queue, queue_ids = torch.randn(6, 4), torch.tensor([7, 8, 9, 7, 1, 2])
    loss = rince.InfoNCE(temperature=0.5, contrast=rince.Queue(4, 6), reduction="none")
    loss.contrast.push(queue, queue_ids)
    a, b, ids = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([7, 8, 5])
    halves = reference.halves("Queue", a, b, 0.5, ids=ids, queue=queue, queue_ids=queue_ids)
    expected = reference.losses(reference.info_nce, *halves)
    torch.testing.assert_close(loss(a, b, ids=ids).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", (torch.nan, torch.inf, -torch.inf))
def test_a_key_that_is_not_finite_stays_out_and_is_remarked_on_once(bad):
    queue = rince.Queue(4, 6)
    keys, ids = torch.randn(3, 4), torch.tensor([7, 8, 9])
    keys[1, 2] = bad
    with pytest.warns(UserWarning, match="1 of 3 keys are not finite"):
        queue.push(keys, ids)
    torch.testing.assert_close(queue.keys[:3], unit(keys[[0, 0, 2]]))
    assert queue.ids[:3].tolist() == [7, 7, 9] and queue.pushed == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        queue.push(torch.full((2, 4), bad), torch.tensor([1, 2]))  # none to take instead: what was there stays
    assert queue.keys.isfinite().all() and queue.pushed == 5
    assert rince.InfoNCE(temperature=0.5, contrast=queue)(torch.randn(3, 4), torch.randn(3, 4)).isfinite()


def test_the_count_follows_whoever_writes_into_the_state():
    queue, other = rince.Queue(4, 6), rince.Queue(4, 6)
    queue.push(torch.randn(5, 4))
    other.push(torch.randn(2, 4))
    assert queue._count() == 5
    for change in (
        lambda: queue.load_state_dict(other.state_dict()),
        lambda: queue.pushed.fill_(2),
        lambda: setattr(queue, "pushed", torch.tensor(2)),
    ):
        queue.pushed.fill_(5)
        assert queue._count() == 5
        change()
        assert queue._count() == 2 == copy.deepcopy(queue)._count() == pickle.loads(pickle.dumps(queue))._count()
    with torch.inference_mode():
        queue.push(torch.randn(3, 4))
    assert queue._count() == 5


@pytest.mark.parametrize(
    "key, ids, message",
    [
        (torch.randn(2, 5), None, "keys of width 4, got embeddings of width 5"),
        (torch.randn(4), None, r"\(pairs, width\)"),
        (torch.randn(2, 4), torch.arange(3), "ids must have one value per pair"),
    ],
)
def test_a_bad_push_is_refused(key, ids, message):
    with pytest.raises(ValueError, match=message):
        rince.Queue(4, 6).push(key, ids)


@pytest.mark.parametrize("dim, size", [(0, 5), (4, 0), (4, -1), (4, 2.5)])
def test_bad_sizes_are_refused(dim, size):
    with pytest.raises(ValueError, match="integer of at least 1"):
        rince.Queue(dim, size)


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="keys of width 4, got embeddings of width 5"):
        rince.RINCE.paper(contrast=rince.Queue(4, 6))(torch.randn(2, 5), torch.randn(2, 5))


@pytest.mark.parametrize("reentrant", (False, True))
def test_activation_checkpointing_around_the_loss_is_an_error(reentrant):
    loss = rince.InfoNCE(contrast=rince.Queue(4, 8))
    loss.contrast.push(torch.randn(6, 4))
    query, key = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    value = torch.utils.checkpoint.checkpoint(loss, query, key, use_reentrant=reentrant)
    with pytest.raises(rince.errors.UsageError, match="activation checkpointing"):
        value.backward()
    assert int(loss.contrast.pushed) == 9
    loss.eval()
    torch.utils.checkpoint.checkpoint(loss, query, key, use_reentrant=reentrant).backward()


def test_function_transforms_of_a_queue_loss_fail():
    loss = rince.InfoNCE(contrast=rince.Queue(4, 8))
    loss.contrast.push(torch.randn(6, 4))
    queries, key = torch.randn(2, 3, 4), torch.randn(3, 4)
    before = loss.contrast.keys.clone()
    with pytest.raises(rince.errors.UsageError, match=r"torch\.func"):
        torch.func.vmap(lambda query: loss(query, key))(queries)
    assert torch.equal(loss.contrast.keys, before)
    loss.eval()
    torch.testing.assert_close(
        torch.func.vmap(lambda query: loss(query, key))(queries), torch.stack([loss(query, key) for query in queries])
    )


@pytest.mark.parametrize("start", ("cpu", "meta"))
def test_queue_is_empty_after_to_empty(start):
    loss = rince.InfoNCE(contrast=rince.Queue(4, 8))
    loss.contrast.push(torch.randn(6, 4))
    loss.to(start)
    loss.to_empty(device="cpu")
    assert int(loss.contrast.pushed) == 0 and not loss.contrast.keys.any()
    assert loss(torch.randn(3, 4), torch.randn(3, 4)).isfinite() and int(loss.contrast.pushed) == 3


def test_moving_a_queue_keeps_its_keys():
    contrast = rince.Queue(4, 8)
    contrast.push(torch.randn(6, 4))
    keys = contrast.keys.clone()
    assert torch.equal(contrast.double().float().to("cpu").keys, keys) and int(contrast.pushed) == 6


def test_id_that_stands_for_no_id_is_an_error():
    loss = rince.InfoNCE(contrast=rince.Queue(4, 8))
    ids = torch.tensor([1, 2, torch.iinfo(torch.int64).min])
    with pytest.raises(rince.errors.UsageError, match="ids must be above"):
        loss(torch.randn(3, 4), torch.randn(3, 4), ids=ids)
