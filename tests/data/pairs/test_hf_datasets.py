import numpy as np
import pytest
import torch

datasets = pytest.importorskip("datasets", reason="datasets is not installed: make test-peers")

from rince.data.pairs import HuggingFacePairs  # noqa: E402
from rince.errors import UsageError  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    rows = {
        "picture": [random.integers(0, 255, (6, 5, 3), dtype=np.uint8) for _ in range(20)],
        "numbers": random.normal(size=(20, 4)).tolist(),
        "kind": list(range(20)),
        "text": ["a dog"] * 20,
    }
    pictures = datasets.Features(
        {
            "picture": datasets.Image(),
            "numbers": datasets.Sequence(datasets.Value("float32")),
            "kind": datasets.Value("int64"),
            "text": datasets.Value("string"),
        }
    )
    whole = datasets.Dataset.from_dict(rows, features=pictures)
    whole.save_to_disk(str(tmp_path / "whole"))
    datasets.DatasetDict({"train": whole, "test": whole.select(range(5))}).save_to_disk(str(tmp_path / "parts"))
    whole.remove_columns(["picture"]).to_parquet(str(tmp_path / "rows.parquet"))
    return tmp_path, rows


def test_columns_become_pairs(folder):
    place, rows = folder
    pairs = HuggingFacePairs(str(place / "parts"), "picture", "numbers", "kind")
    train, test = pairs.split("train"), pairs.split("test")
    assert train.a.dtype == torch.uint8 and train.a.shape == (20, 3, 6, 5)
    assert np.array_equal(train.a[3].permute(1, 2, 0).numpy(), rows["picture"][3])
    assert torch.allclose(train.b, torch.tensor(rows["numbers"]))
    assert train.labels.tolist() == rows["kind"] and len(test.labels) == 5


def test_without_a_test_part_every_tenth_pair_is_one(folder):
    place, _ = folder
    for path, a in (("whole", "picture"), ("rows.parquet", "numbers")):
        pairs = HuggingFacePairs(str(place / path), a, "numbers", wrong_pairs=0.5)
        assert len(pairs.split("train").labels) == 18 and len(pairs.split("test").labels) == 2
        assert pairs.noise_record()["partner_hit"].sum() == 9
        assert set(pairs.split("test").labels.tolist()) == {-1}


def test_bad_input_is_named(folder):
    place, _ = folder
    path = str(place / "whole")
    with pytest.raises(UsageError, match="'sound', only picture, numbers"):
        HuggingFacePairs(path, "picture", "sound").setup()
    with pytest.raises(UsageError, match=r"column 'text' of .* holds .*embed it first"):
        HuggingFacePairs(path, "picture", "text").setup()
    with pytest.raises(UsageError, match="must hold whole numbers to be labels"):
        HuggingFacePairs(path, "picture", "numbers", "numbers").setup()
    with pytest.raises(UsageError, match="has no split 'dev'"):
        HuggingFacePairs(str(place / "parts"), "picture", "numbers", train="dev").setup()
    (place / "torn.parquet").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as a data set"):
        HuggingFacePairs(str(place / "torn.parquet"), "a", "b").setup()
