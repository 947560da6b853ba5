import torch

from rince._support.step_seeds import Draws, generator
from rince.data.images import Arrays, DigitImages, Images, SameLabel
from rince.noise.labels import LabelFlips
from support.fake_trainer import FakeTrainer


def test_partners_by_label_cover_the_class_without_the_item_itself():
    labels = torch.tensor([0, 1, 0, 1, 0, 2, 0])
    partner, ids = SameLabel(labels), torch.arange(7)
    seen = torch.stack([partner(ids, Draws(generator(i), 7)) for i in range(300)])
    assert (labels[seen] == labels).all()
    assert (seen[:, labels != 2] != ids[labels != 2]).all()  # the only one of its class is its own partner
    assert set(seen[:, 0].tolist()) == {2, 4, 6}
    counts = seen[:, 0].bincount()[[2, 4, 6]]
    assert counts.min() > 70


def test_loader_resumes_with_the_same_items_and_partners():
    class Numbers(Images):
        pairing = "label"

        def read(self):
            return {"train": (torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1), torch.arange(40) % 4)}

    def batches(seen):
        data = Numbers(batch_size=8)
        data.trainer = FakeTrainer(seen)
        return list(data.train_dataloader())

    whole, resumed = batches(0), batches(3)
    assert len(whole) == 5 and len(resumed) == 2
    for a, b in zip(whole[3:], resumed, strict=True):
        assert torch.equal(a.images, b.images) and torch.equal(a.partners, b.partners)
        assert torch.equal(a.images.flatten().long(), a.ids) and torch.equal(a.labels, a.ids % 4)


def test_digit_splits_do_not_overlap_and_noise_is_recorded():
    data = DigitImages(noise=LabelFlips(0.5, pairs={3: 8}))
    (train, labels), (test, _) = data.split("train"), data.split("test")
    assert train.shape == (1397, 1, 8, 8) and test.shape == (400, 1, 8, 8) and data.classes == 10
    record = data.noise_record()
    assert (record["hit"] == (record["labels"] != labels.numpy())).all() and record["hit"].sum() > 30


def test_wrong_pairs_show_other_images_and_are_recorded(tmp_path):
    import numpy as np

    np.savez(tmp_path / "mine.npz", images=np.zeros((50, 4, 4), np.uint8), labels=np.arange(50) % 2)
    data = Arrays(str(tmp_path / "mine.npz"), wrong_pairs=0.4)
    record = data.noise_record() or (data.setup(), data.noise_record())[1]
    n = len(data.split("train")[0])
    assert record["partner_hit"].sum() == round(0.4 * n)
    assert ((record["partner"] != np.arange(n)) == record["partner_hit"]).all()
