import numpy as np
import pytest
import torch

from rince._support.step_seeds import generator
from rince.data.pairs import Pairs, Part


class Numbers(Pairs):
    """``b`` is ``a`` plus 100, so that who belongs together can be seen."""

    labels = torch.arange(40) % 4

    def groups(self, train):
        return train.labels

    def read(self):
        a = torch.arange(40.0)[:, None]
        return {"train": Part(a, a + 100, self.labels), "test": Part(a[:8], a[:8] + 100, self.labels[:8])}


def test_mismatched_pairs_differ_in_class_and_are_recorded():
    data = Numbers(wrong_pairs=0.5, wrong_pairs_seed=3)
    record = data.noise_record()
    (right,), (trained,) = data.pair_batches("train"), data.pair_batches("train", noisy=True)
    assert torch.equal(right.b, right.a + 100) and torch.equal(right.ids, torch.arange(40))
    wrong = (trained.b != trained.a + 100)[:, 0]
    assert wrong.sum() == 20 and torch.equal(wrong, torch.from_numpy(record["partner_hit"]))
    of_b = data.labels[(trained.b[:, 0] - 100).long()]
    assert torch.equal(of_b != trained.labels, wrong)
    assert torch.equal(trained.b[:, 0] - 100, torch.from_numpy(record["partner"]).float())
    assert len(str(record["partner_sha256"])) == 64
    again = Numbers(wrong_pairs=0.5, wrong_pairs_seed=3).noise_record()
    assert (record["partner"] == again["partner"]).all()
    assert (record["partner"] != Numbers(wrong_pairs=0.5).noise_record()["partner"]).any()


def test_tests_never_see_wrong_pairs():
    (batch,) = Numbers(wrong_pairs=1.0).pair_batches("test", noisy=True)
    assert torch.equal(batch.b, batch.a + 100)
    assert Numbers().noise_record() == {}


def test_without_groups_a_partner_is_any_other_pair(tmp_path):
    from rince.data.pairs import PairedArrays

    data = PairedArrays(npz(tmp_path / "x.npz", labels=np.zeros(30, int)), wrong_pairs=0.5)
    record = data.noise_record()
    assert record["partner_hit"].sum() == 14
    assert ((record["partner"] != np.arange(27)) == record["partner_hit"]).all()


def test_batches_cover_all_items_once():
    pieces = list(Numbers().pair_batches("train", batch_size=16))
    assert [len(p.a) for p in pieces] == [16, 16, 8]
    assert torch.equal(torch.cat([p.ids for p in pieces]), torch.arange(40))


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"wrong pairs must be in \[0, 1\], got 1.2"):
        Numbers(wrong_pairs=1.2).setup()
    with pytest.raises(ValueError, match="no split 'validation'"):
        Numbers().split("validation")


def npz(path, n=30, **changes):
    arrays = {"a": np.random.default_rng(0).normal(size=(n, 3)), "b": np.arange(n)[:, None] * np.ones((1, 2), np.uint8)}
    arrays["labels"] = np.arange(n) % 2
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return str(path)


def test_two_columns_of_a_file_are_pairs_and_every_tenth_is_for_tests(tmp_path):
    from rince.data.pairs import PairedArrays

    data = PairedArrays(npz(tmp_path / "x.npz"))
    train, test = data.split("train"), data.split("test")
    assert train.a.shape == (27, 3) and train.a.dtype == torch.float32 and test.b[:, 0].tolist() == [9, 19, 29]
    assert data.classes == 2 and torch.equal(test.labels, torch.tensor([1, 1, 1]))
    assert PairedArrays(npz(tmp_path / "y.npz", labels=None)).classes == 0
    own = PairedArrays(
        npz(tmp_path / "z.npz", test_a=np.ones((4, 3)), test_b=np.ones((4, 2)), test_labels=np.ones(4, int))
    )
    assert len(own.split("train").a) == 30 and own.split("test").labels.tolist() == [1] * 4


def test_files_that_hold_no_pairs_are_named(tmp_path):
    from rince.data.pairs import PairedArrays

    for changes, message in (
        ({"b": None}, "no array 'b', only a, labels"),
        ({"b": np.ones((5, 2))}, "30 and 5 rows"),
        ({"a": np.array(["x"] * 30)}, "a in .* must hold numbers"),
        ({"labels": np.ones(3, int)}, "labels in .* must be 30 whole numbers"),
        ({"a": np.full((30, 2), np.nan)}, "a in .* has non-finite values"),
    ):
        with pytest.raises(ValueError, match=message):
            PairedArrays(npz(tmp_path / "x.npz", **changes)).setup()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        PairedArrays(str(tmp_path / "nothing.npz")).setup()
    (tmp_path / "x.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"not a valid zip file"):
        PairedArrays(str(tmp_path / "x.npz")).setup()


def test_the_order_of_a_run_depends_on_its_seed_alone():
    from types import SimpleNamespace

    def batches(seed):
        data = Numbers(batch_size=8)
        data.seed = seed
        method = SimpleNamespace(batches_seen=lambda: 0)
        data.trainer = SimpleNamespace(lightning_module=method, global_rank=0, world_size=1)
        loader = data.train_dataloader()
        assert len(loader) == 5
        return torch.stack([batch.ids for batch in loader])

    assert torch.equal(batches(1), batches(1)) and not torch.equal(batches(1), batches(2))
    assert torch.equal(batches(1).flatten(), torch.randperm(40, generator=generator(1, 0, 1)))
