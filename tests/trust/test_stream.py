import numpy as np
import pytest
from torch.utils.data import DataLoader

from rince.trust import PairedFiles

N = 101


@pytest.fixture
def files(tmp_path):
    """A in one array, B in three JSONL files: every row holds its own number."""
    np.save(tmp_path / "a.npy", np.arange(N, dtype=np.float32)[:, None])
    for number, rows in enumerate(np.array_split(np.arange(N), 3)):
        lines = "".join(f'{{"t": "text {row}"}}\n' for row in rows)
        (tmp_path / f"b{number}.jsonl").write_text(lines)
    return str(tmp_path / "a.npy"), f"{tmp_path}/b*.jsonl:t"


def rows_of(stream, workers=0, batch_size=4):
    loader = DataLoader(stream, batch_size=batch_size, num_workers=workers)
    batches = [(batch["row"].tolist(), batch["a"][:, 0].tolist(), batch["b"]) for batch in loader]
    for rows, a, b in batches:
        assert a == rows and b == [f"text {row}" for row in rows]
    return [row for rows, _, _ in batches for row in rows]


def test_every_pair_comes_once_in_an_order_of_seed_and_epoch(files):
    stream = PairedFiles(*files, shuffle=10, chunk=20)
    first = rows_of(stream)
    assert sorted(first) == list(range(N)) and first != sorted(first)
    assert rows_of(stream) == first
    stream.resume(epoch=1)
    assert rows_of(stream) != first and sorted(rows_of(stream)) == list(range(N))
    assert rows_of(PairedFiles(*files, shuffle=0, chunk=20)) == list(range(N))


def test_processes_and_workers_share_the_pairs_evenly(files):
    rows = [
        rows_of(PairedFiles(*files, shuffle=10, chunk=20, rank=rank, world_size=2), workers=rank * 2)
        for rank in range(2)
    ]
    assert len(rows[0]) == len(rows[1]) == N // 2
    assert len({*rows[0], *rows[1]}) == 2 * (N // 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_resumed_stream_continues_with_the_next_batch(files, workers):
    stream = PairedFiles(*files, shuffle=10, chunk=20)
    whole = rows_of(stream, workers)
    stream.resume(epoch=0, batches=5, batch_size=4)
    assert rows_of(stream, workers) == whole[20:]


def test_weights_are_looked_up_by_row(files, tmp_path):
    np.save(tmp_path / "weights.npy", np.linspace(0, 1, N, dtype=np.float32))
    for sample in PairedFiles(*files, weights=tmp_path / "weights.npy", shuffle=10):
        assert sample["weight"] == pytest.approx(sample["row"] / (N - 1), abs=1e-6)
