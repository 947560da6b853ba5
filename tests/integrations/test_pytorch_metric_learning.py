import pytest
import torch

pytest.importorskip("pytorch_metric_learning", reason="pytorch-metric-learning is not installed: make test-peers")

from pytorch_metric_learning import distances, losses, miners, reducers, regularizers

import rince
from rince.errors import UsageError
from rince.integrations import pytorch_metric_learning as ours


def labels(n, classes=6, seed=3):
    return torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", (3, 37, 60))
def test_ntxent_equals_theirs_by_labels(n, views, equal):
    a, b = views(n)
    y, y2 = labels(n), labels(n, seed=4)
    equal(losses.NTXentLoss(0.1)(a, y), ours.NTXentLoss(0.1)(a, y), a)
    theirs, own = (f(0.1)(a, y, ref_emb=b, ref_labels=y2) for f in (losses.NTXentLoss, ours.NTXentLoss))
    equal(theirs, own, a, b)


@pytest.mark.parametrize("miner", (miners.MultiSimilarityMiner, miners.TripletMarginMiner, miners.BatchHardMiner))
def test_miners_choose_the_pairs(miner, views, equal):
    a, _ = views(40)
    y = labels(40)
    found = miner()(a, y)
    equal(losses.NTXentLoss(0.1)(a, y, found), ours.NTXentLoss(0.1)(a, y, found), a)
    assert torch.isfinite(ours.GCELoss()(a, y, found)) and torch.isfinite(ours.RINCELoss()(a, y, found))


def test_distances_reducers_and_regularizers_are_supported(views, equal):
    a, _ = views(30)
    y = labels(30)
    for options in (
        {"distance": distances.LpDistance()},
        {"distance": distances.DotProductSimilarity(normalize_embeddings=False)},
        {"reducer": reducers.ThresholdReducer(low=0.5)},
        {"embedding_regularizer": regularizers.LpRegularizer()},
        {"reducer": reducers.DoNothingReducer()},
    ):
        theirs, own = losses.NTXentLoss(0.5, **options)(a, y), ours.NTXentLoss(0.5, **options)(a, y)
        if isinstance(own, dict):
            assert own["loss"]["reduction_type"] == theirs["loss"]["reduction_type"] == "pos_pair"
            assert set(zip(*(i.tolist() for i in own["loss"]["indices"]), strict=True)) == set(
                zip(*(i.tolist() for i in theirs["loss"]["indices"]), strict=True)
            )
        else:
            equal(theirs, own, a)


def test_wrappers_take_our_losses(views, equal):
    a, b = views(24)
    y = labels(24)
    for symmetric in (True, False):
        theirs = losses.SelfSupervisedLoss(losses.NTXentLoss(0.5), symmetric)(a, b)
        equal(theirs, ours.SelfSupervisedLoss(ours.NTXentLoss(0.5), symmetric)(a, b), a, b)
    memories = (
        losses.CrossBatchMemory(losses.NTXentLoss(0.5), 8, 64),
        ours.CrossBatchMemory(ours.NTXentLoss(0.5), 8, 64),
    )
    for _ in range(4):
        values = [memory(a, y) for memory in memories]
    equal(*values, a)
    for loss in (ours.RINCELoss(), ours.GCELoss()):
        assert torch.isfinite(ours.SelfSupervisedLoss(loss)(a, b))
        assert torch.isfinite(ours.CrossBatchMemory(loss, 8, 64)(a, y))


def test_one_view_each_is_rince_on_two_views(views, equal):
    a, b = views(24)
    plain = rince.RINCE(q=0.4, temperature=0.3, scale="unit")(a, b)
    equal(plain, ours.SelfSupervisedLoss(ours.RINCELoss(0.3, q=0.4))(a, b), a, b)
    loss = ours.RINCELoss(0.3, q=0.4)
    loss.q = 0.1
    equal(
        rince.RINCE(q=0.1, temperature=0.3, scale="unit")(a, b),
        ours.SelfSupervisedLoss(loss)(a, b),
        a,
        b,
    )


def test_nothing_to_compare_is_a_loss_of_zero(views):
    a, _ = views(4)
    for y in (torch.arange(4), torch.zeros(4, dtype=torch.int64)):
        assert ours.RINCELoss()(a, y) == 0 == losses.NTXentLoss()(a, y)


def test_bad_input_is_named(views):
    a, _ = views(6)
    with pytest.raises(UsageError, match="labels or indices_tuple is required"):
        ours.RINCELoss()(a)
    with pytest.raises(UsageError, match="same width, got 8 and 5"):
        ours.RINCELoss()(a, torch.arange(6), ref_emb=a[:, :5], ref_labels=torch.arange(6))
    with pytest.raises(UsageError, match="ref_emb has 4 rows, but there are 6 labels"):
        ours.RINCELoss()(a, torch.arange(6), ref_emb=a[:4])
    with pytest.raises(UsageError, match=r"\(n, d\), got \(6,\)"):
        ours.RINCELoss()(a[:, 0], torch.arange(6))


@pytest.mark.parametrize("distance", (None, distances.LpDistance()))
def test_references_without_labels_have_those_of_the_embeddings(distance, views, equal):
    a, b = views(12)
    y = labels(12)
    theirs, mine = (kind(0.2, distance=distance) for kind in (losses.NTXentLoss, ours.NTXentLoss))
    equal(theirs(a, y, ref_emb=b), mine(a, y, ref_emb=b), a, b)
    equal(theirs(a, y, ref_emb=b, ref_labels=y), mine(a, y, ref_emb=b, ref_labels=y), a, b)
