import errno
import os

import numpy as np
import pytest

from rince.audit.encode import Encoder, encoded
from rince.audit.encode.run import CACHED_COLUMNS
from rince.errors import FileError, UsageError
from rince.pairs.raw import Raw


class Lengths(Encoder):
    """The length of a text, twice; it counts how often it is asked."""

    name, batch = "lengths", 7

    def __init__(self, version="1"):
        self.version, self.calls = version, 0

    def identity(self):
        return f"lengths {self.version}"

    def encode(self, items):
        self.calls += 1
        assert 0 < len(items) <= self.batch and None not in items
        return np.array([[len(item), 2 * len(item)] for item in items], dtype=np.float32)


TEXTS = ["x" * (k % 11 + 1) for k in range(60)]


def texts(items=TEXTS):
    return Raw("texts", list(items), "t.csv:text")


@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_those_of_the_items_whatever_the_batches(tmp_path, kept):
    found = encoded(texts(), Lengths(), tmp_path / "cache" if kept else None)
    assert found.rows[:, 0].tolist() == [len(text) for text in TEXTS] and not found.from_cache


def test_encoded_columns_are_cached(tmp_path):
    encoded(texts(), Lengths(), tmp_path)
    again = Lengths()
    found = encoded(texts(), again, tmp_path)
    assert found.from_cache and again.calls == 0 and found.rows[3, 0] == 4
    for raw, encoder in ((texts([*TEXTS[:-1], "changed"]), Lengths()), (texts(), Lengths("2"))):
        assert not encoded(raw, encoder, tmp_path).from_cache and encoder.calls
    assert {file.suffix for file in tmp_path.iterdir()} == {".npy"} and len(list(tmp_path.iterdir())) == 3


def test_what_was_cut_short_is_encoded_again(tmp_path):
    encoded(texts(), Lengths(), tmp_path)
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-8])
    found = encoded(texts(), Lengths(), tmp_path)
    assert not found.from_cache and found.rows[:, 0].tolist() == [len(text) for text in TEXTS]


def test_an_encoder_that_fails_midway_leaves_nothing(tmp_path):
    class Fails(Lengths):
        def encode(self, items):
            if self.calls == 3:
                raise RuntimeError("out of order")
            return super().encode(items)

    with pytest.raises(RuntimeError, match="out of order"):
        encoded(texts(), Fails(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_the_last_columns_stay(tmp_path):
    for k in range(CACHED_COLUMNS + 3):
        encoded(texts(), Lengths(str(k)), tmp_path)
    assert len(list(tmp_path.iterdir())) == CACHED_COLUMNS


def test_missing_items_are_refused_or_nan(tmp_path):
    raw = texts([None, *TEXTS[1:30], None, *TEXTS[31:]])
    with pytest.raises(UsageError, match=r"2 of 60 .*row 0.*--skip-invalid"):
        encoded(raw, Lengths(), tmp_path)
    found = encoded(raw, Lengths(), tmp_path, skip_invalid=True)
    assert np.flatnonzero(np.isnan(found.rows[:, 0])).tolist() == [0, 30]
    with pytest.raises(UsageError, match="the first in row 0"):  # from the cache, too
        encoded(raw, Lengths(), tmp_path)


def test_unreadable_files_are_named_with_their_row(tmp_path):
    Image = pytest.importorskip("PIL.Image")

    class Reds(Lengths):
        def encode(self, items):
            return np.array([item.resize((1, 1)).getpixel((0, 0)) for item in items], dtype=np.float32)

    for k in range(60):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(tmp_path / f"{k}.png")
    (tmp_path / "7.png").write_bytes(b"broken")
    raw = Raw("pictures", [tmp_path / f"{k}.png" for k in range(60)], "photos", tmp_path)
    with pytest.raises(UsageError, match=r"1 of 60 .*7\.png .*row 7"):
        encoded(raw, Reds(), None)
    found = encoded(raw, Reds(), None, skip_invalid=True)
    assert np.isnan(found.rows[7]).all() and found.rows[8, 0] == 8 and len(found.unreadable) == 1


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs a way to ask for room")
def test_a_full_disk_is_one_sentence_that_names_the_file(tmp_path, monkeypatch):
    """Written through mapped memory, rows that find no room would end the process with a signal."""

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match=r"\.npy .*No space left on device"):
        encoded(texts(), Lengths(), tmp_path)
    assert not list(tmp_path.iterdir())
