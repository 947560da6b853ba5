"""Every kind of data passes the trust in its pairs with its batches, and learns from some pairs only where told so."""

import numpy as np
import pytest
import torch
from PIL import Image

from rince.data import Arrays, PairedArrays
from rince.data.image_folder import ImageFolder
from rince.data.images import SameLabel
from rince.data.module import DataModule, SeededBatches
from rince.errors import UsageError
from rince.views import PairBatch
from support.fake_trainer import FakeTrainer


@pytest.fixture
def pairs(tmp_path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "p.npz", a=random.normal(size=(60, 3)), b=random.normal(size=(60, 2)), ids=np.arange(60) + 100)
    return PairedArrays(str(tmp_path / "p.npz"), batch_size=6, wrong_pairs=0.5)


@pytest.fixture
def images(tmp_path):
    shown = np.random.default_rng(0).integers(0, 255, size=(60, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "i.npz", images=shown, labels=np.arange(60) % 3)
    return lambda **options: Arrays(str(tmp_path / "i.npz"), batch_size=6, **options)


@pytest.fixture
def folder(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(8):
            pixels = np.full((8, 8, 3), 20 * i + 10 * (name == "dog"), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "train" / name / f"{i}.png")
    return ImageFolder(str(tmp_path), size=4, batch_size=4, workers=0)


def graphs():
    geometric = pytest.importorskip("torch_geometric.data")
    from rince.data.graphs import Graphs, TUGraphs

    one = geometric.Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0]))
    data = TUGraphs("none", batch_size=6, wrong_pairs=0.5)
    data._graphs = Graphs.from_list([one.clone() for _ in range(60)])
    return data


def train(data, trust=None, among=None, pairing="self"):
    data.trainer, data.pairing, data.weights, data.among = FakeTrainer(), pairing, trust, among
    data.setup()
    return list(data.train_dataloader())


@pytest.mark.parametrize("kind", ["pairs", "images", "folder", "graphs"])
def test_weights_travel_with_their_pairs(kind, request):
    data = graphs() if kind == "graphs" else request.getfixturevalue(kind)
    data = data(wrong_pairs=0.5) if kind == "images" else data
    assert all(getattr(batch, "weights", None) is None for batch in train(data))
    trust = torch.rand(data.training_pairs, generator=torch.Generator().manual_seed(0))
    batches = train(data, trust)
    assert batches and all(torch.equal(batch.weights, trust[batch.ids]) for batch in batches)


@pytest.mark.parametrize("kind", ["pairs", "images", "folder", "graphs"])
def test_some_pairs_only(kind, request):
    data = graphs() if kind == "graphs" else request.getfixturevalue(kind)
    data = data(wrong_pairs=0.5) if kind == "images" else data
    among = torch.arange(data.training_pairs)[1::2]
    seen = torch.cat([batch.ids for batch in train(data, among=among)])
    assert set(seen.tolist()) <= set(among.tolist()) and len(set(seen.tolist())) == len(seen) > 0


def test_a_pair_of_labels_is_trusted_as_far_as_both_are(images):
    data = images()
    trust = torch.rand(54, generator=torch.Generator().manual_seed(0))
    for batch in train(data, trust, pairing="label"):
        shown = data.split("train")[0]
        partner = [int((shown == image).flatten(1).all(1).nonzero()[0, 0]) for image in batch.partners]
        assert torch.allclose(batch.weights, trust[batch.ids] * trust[partner])


def test_an_item_that_is_its_own_partner_is_trusted(images):
    from rince.data.images import PairWeights

    data = images()
    data.weights, data.pairing = torch.tensor([0.2, 0.5]), "label"
    assert PairWeights(data)(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])).tolist() == pytest.approx([1, 0.1, 1])


def test_partners_by_label_come_from_the_same_pairs(images):
    data, among = images(), torch.arange(54)[::2]
    labels = torch.arange(54) % 3
    partners = SameLabel(labels, among)
    from rince._support.step_seeds import Draws, generator

    for seed in range(20):
        found = partners(among, Draws(generator(seed, 1), len(among)))
        assert set(found.tolist()) <= set(among.tolist()) and torch.equal(labels[found], labels[among])
    assert train(data, among=among, pairing="label")


def test_undecodable_image_is_replaced_from_the_training_subset(folder):
    (folder.root / "train" / "cat" / "0.png").write_text("no image")
    with pytest.warns(UserWarning, match="cannot be decoded"):
        batches = train(folder, among=torch.tensor([0, 2, 4, 6]))
    assert sorted(torch.cat([batch.ids for batch in batches]).tolist()) == [2, 2, 4, 6]


@pytest.mark.parametrize("kind", ["pairs", "images", "folder", "graphs"])
def test_pairs_can_be_seen_as_training_sees_them(kind, request):
    data = graphs() if kind == "graphs" else request.getfixturevalue(kind)
    data = data(wrong_pairs=0.5) if kind == "images" else data
    data.setup()
    ids = torch.tensor([5, 2, 9])
    (batch,) = data.noisy_batches(ids)
    assert torch.equal(batch.ids, ids)
    if kind == "pairs":
        assert torch.equal(batch.b, data.split("train").b[data.mispaired.partner[ids]])
    if kind == "images":
        assert torch.equal(batch.partners, data.split("train")[0][data.mispaired.partner[ids]])


def test_pairs_that_come_up_twice_are_known(tmp_path):
    random = np.random.default_rng(0)
    a, b = random.integers(0, 3, size=(2, 60, 2)).astype(np.float32)
    np.savez(tmp_path / "p.npz", a=a, b=b, test_a=a, test_b=b)
    data = PairedArrays(str(tmp_path / "p.npz"), wrong_pairs=0.5)
    equal = data.equal_pairs()
    rows = np.hstack([a, b[data.mispaired.partner]])
    assert np.array_equal(equal[:, None] == equal, (rows[:, None] == rows).all(2)) and (equal <= np.arange(60)).all()


def test_equal_images_are_the_same_whatever_their_labels(images, tmp_path):
    shown = np.arange(60, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    shown[7] = shown[3]
    np.savez(tmp_path / "i.npz", images=shown, labels=np.arange(60) % 3)
    expected = np.arange(54)
    expected[7] = 3
    assert np.array_equal(images().equal_pairs(), expected)
    assert images(wrong_pairs=0.9).equal_pairs() is None, "their partners differ"


def test_names_of_pairs(pairs, folder, images):
    assert pairs.pair_names() == [i + 100 for i in range(60) if i % 10 != 9]
    assert folder.pair_names()[:2] == ["cat/0.png", "cat/1.png"] and len(folder.pair_names()) == 16
    assert images().pair_names() is None


class Own(DataModule):
    """A user's data, with the least that trust needs."""

    training_pairs = 10

    def pair_batches(self, split, noisy=False):
        for ids in torch.arange(10).split(4):
            yield PairBatch(ids[:, None], ids[:, None] + 100, ids, ids)


def test_own_data_get_their_pairs_filtered():
    found = list(Own().noisy_batches(torch.tensor([1, 5, 6])))
    assert [batch.ids.tolist() for batch in found] == [[1], [5, 6]] and found[1].b.flatten().tolist() == [105, 106]
    with pytest.raises(UsageError, match="no property training_pairs"):
        _ = DataModule().training_pairs


def test_batches_of_some_items_on_several_processes():
    among = torch.tensor([3, 5, 8, 9, 11, 20])
    whole = list(SeededBatches(30, 4, 3, lambda: 0, among=among))
    halves = [list(SeededBatches(30, 4, 3, lambda: 0, rank, 2, among=among)) for rank in (0, 1)]
    assert whole == [a + b for a, b in zip(*halves, strict=True)] and set(whole[0]) <= set(among.tolist())
    with pytest.raises(ValueError, match="at most the number of items, 6"):
        SeededBatches(30, 8, 3, lambda: 0, among=among)
