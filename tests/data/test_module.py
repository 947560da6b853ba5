"""The contract of data: what a data set of a user's has to give, and what it gets for nothing."""

import numpy as np
import pytest
import torch
from torch import nn

import rince
from rince._support.step_seeds import Draws, generator
from rince.data import Arrays, DataModule
from rince.data.images import SameLabel
from rince.data.module import SeededBatches
from rince.encoders import MLP, Towers
from rince.errors import UsageError
from rince.evaluate.pairs import evaluate_pairs
from rince.methods import CrossModal, SupCon
from rince.views import PairBatch, PairViews, Unchanged
from support.fake_trainer import FakeTrainer


class Bare(DataModule):
    """As docs/cross_modal.md asks: a loader for training, and pairs for evaluation."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.randn(2, 40, 6, generator=torch.Generator().manual_seed(0))

    def pair_batches(self, split, noisy=False):
        ids = torch.arange(40)
        yield PairBatch(self.a, self.b, ids % 2, ids)


def towers():
    return CrossModal(
        Towers(MLP([6, 8]), MLP([6, 8])), rince.RINCE(), PairViews(Unchanged(), Unchanged()), torch.optim.Adam, 8, 4
    )


def test_data_without_noise_of_its_own_can_be_evaluated():
    found = evaluate_pairs(towers(), Bare())
    assert "a to b recall@1" in found and "wrong pairs AUC" not in found


def test_what_data_do_not_give_is_said_in_one_sentence():
    data = DataModule()
    assert data.classes == 0 and data.noise_record() == {} and data.check_views(nn.Identity()) is None
    with pytest.raises(UsageError, match="has no method pair_batches"):
        data.pair_batches("test")
    with pytest.raises(UsageError, match="has no method labeled_batches"):
        data.labeled_batches("test")


def test_items_without_a_label_are_their_own_partners():
    labels = torch.tensor([0, -1, 0, 1, -1, 1, 2])
    ids = torch.arange(7)
    for seed in range(20):
        partner = SameLabel(labels)(ids, Draws(generator(seed, 1), 7))
        assert partner.tolist() == [2, 1, 0, 5, 4, 3, 6]


def test_pairs_by_label_need_labels(tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, images=np.zeros((20, 4, 4), np.uint8))
    data = Arrays(str(path), batch_size=4)
    data.trainer, data.pairing = FakeTrainer(), "label"
    assert data.classes == 0
    with pytest.raises(UsageError, match=r"at least 2 classes.* has 0.*SimCLR"):
        data.train_dataloader()


def test_several_positives_leave_unlabeled_images_alone():
    """Two unlabeled images are no positives of each other: the loss is that of labels that all differ."""
    method = SupCon(MLP([6, 8]), rince.InfoNCE(), nn.Identity(), torch.optim.Adam, positives="several")
    z1, z2 = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))
    batch = PairBatch(z1, z2, torch.tensor([0, 0, -1, -1, 1, 1]), torch.arange(6))
    expected = rince.InfoNCE(contrast=rince.Supervised())(z1, z2, labels=torch.tensor([0, 0, 7, 8, 1, 1]))
    assert torch.equal(method.compare(z1, z2, batch), expected)


def test_the_order_does_not_depend_on_the_processes():
    whole = list(SeededBatches(12, 4, 3, lambda: 0))
    halves = [list(SeededBatches(12, 4, 3, lambda: 0, rank, 2)) for rank in (0, 1)]
    assert whole == [a + b for a, b in zip(*halves, strict=True)]
