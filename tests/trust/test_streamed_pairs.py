import io
import json
import tarfile

import numpy as np
import pytest
import torch

from rince.errors import UsageError
from rince.trust import StreamedPairs
from rince.trust.streamed_pairs import StreamLoader, word_counts

pytest.importorskip("lightning")
N = 100


class Trainer:
    """What a loader asks of Lightning's trainer."""

    def __init__(self, batches, rank=0, world_size=1):
        self.global_rank, self.world_size, self.lightning_module = rank, world_size, self
        self.batches = batches

    def batches_seen(self):
        return self.batches


@pytest.fixture
def tars(tmp_path):
    """Three tars of rows of numbers and texts; every pair holds its own number."""
    for number, rows in enumerate(np.array_split(np.arange(N), 3)):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            for row in rows:
                file = io.BytesIO()
                np.save(file, np.full(3, row, np.float32))
                for field, content in {"npy": file.getvalue(), "txt": f"number {row}".encode()}.items():
                    entry = tarfile.TarInfo(f"{row:05d}.{field}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    return f"{tmp_path}/*.tar:npy", f"{tmp_path}/*.tar:txt"


def rows_of(data, batches=0, **options):
    data.trainer = Trainer(batches, **options)
    found = []
    for batch in data.train_dataloader():
        assert batch.a[:, 0].tolist() == batch.ids.tolist()
        for row, text in zip(batch.ids.tolist(), batch.b, strict=True):
            assert np.array_equal(text.numpy(), word_counts(f"number {row}", 64))
        found.append(batch.ids.tolist())
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_share_an_epoch_and_resume_with_the_next_batch(tars, workers):
    data = StreamedPairs(*tars, batch_size=20, shuffle=15, words=64, workers=workers)
    parts = [rows_of(data, rank=rank, world_size=2) for rank in range(2)]
    assert len(parts[0]) == len(parts[1]) == len(data.train_dataloader())
    rows = [row for part in parts for batch in part for row in batch]
    assert len(set(rows)) == len(rows) and rows != sorted(rows)
    assert rows_of(data, batches=2, rank=1, world_size=2) == parts[1][2:]
    assert rows_of(data, batches=len(parts[0]), rank=1, world_size=2) != parts[1]


def test_weights_are_those_of_the_keys(tars):
    data = StreamedPairs(*tars, batch_size=20, words=64)
    assert list(data.pair_names()) == [f"{row:05d}" for row in range(N)] and data.training_pairs == N
    data.weights = torch.arange(N) / N
    data.trainer = Trainer(0)
    for batch in data.train_dataloader():
        assert torch.equal(batch.weights, batch.ids / N)


def test_what_cannot_be_streamed_is_one_sentence(tars, tmp_path):
    with pytest.raises(UsageError, match="set data"):
        StreamedPairs(*tars).stream("test")
    data = StreamedPairs(*tars, batch_size=200)
    data.trainer = Trainer(0)
    with pytest.raises(UsageError, match="batch_size is too large"):
        data.train_dataloader()
    data = StreamedPairs(*tars, batch_size=20, encoder_b="ngrams")
    data.trainer = Trainer(0)
    with pytest.raises(UsageError, match="learns from all items"):
        data.train_dataloader()


def test_interrupted_run_with_weights_by_key_ends_with_the_same_bits(tars, tmp_path, monkeypatch):
    pytest.importorskip("jsonargparse")
    from rince.cli import main

    monkeypatch.chdir(tmp_path)
    table = "".join(f"{row:05d},{row / N}\n" for row in range(N))
    (tmp_path / "weights.csv").write_text(f"id,weight\n{table}")
    (tmp_path / "run.yaml").write_text(f"""
method: {{class_path: CrossModal, init_args: {{width: 8, hidden: 16}}}}
encoder:
  class_path: Towers
  init_args:
    a: {{class_path: MLP, init_args: {{widths: [3, 16]}}}}
    b: {{class_path: MLP, init_args: {{widths: [64, 16]}}}}
loss: {{class_path: GCE}}
views:
  class_path: PairViews
  init_args: {{a: {{class_path: Unchanged}}, b: {{class_path: Unchanged}}}}
optimizer: {{class_path: Adam, init_args: {{lr: 0.001}}}}
data:
  class_path: StreamedPairs
  init_args: {{a: "{tars[0]}", b: "{tars[1]}", batch_size: 20, shuffle: 15, words: 64}}
trainer: {{max_epochs: 4, accelerator: cpu}}
""")
    given = ["train", "run.yaml", "--trust", "weights.csv"]
    assert main([*given, "--name", "whole"]) == 0

    def interrupted(loader):
        for batch in batches(loader):
            if loader.seen() == 7:
                raise KeyboardInterrupt
            yield batch

    batches = StreamLoader.__iter__
    with monkeypatch.context() as patch:
        patch.setattr(StreamLoader, "__iter__", interrupted)
        assert main([*given, "--name", "stopped"]) == 130
    assert main([*given, "--name", "stopped"]) == 0
    whole, stopped = (tmp_path / "runs" / name for name in ("whole", "stopped"))
    result = json.loads((stopped / "result.json").read_text())
    assert result["steps"] == 20 and result["trust"]["pairs"] == N
    assert (whole / "encoder.safetensors").read_bytes() == (stopped / "encoder.safetensors").read_bytes()
