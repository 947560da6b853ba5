import hashlib
import os
import pickle
import tarfile

import numpy as np
import pytest
import torch

from rince.data import images as cifar10
from rince.data.images import CIFAR10, load_harmless

NAMES = [*cifar10.TRAIN, *cifar10.TEST]


def batch(seed, n=7, protocol=2):
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (n, 3072), dtype=np.uint8)
    content = {b"data": pixels, b"labels": [int(v) for v in random.integers(0, 10, n)], b"filenames": [b"a.png"] * n}
    return content, pickle.dumps(content, protocol=protocol)


def unpacked(root, protocol=2):
    folder = root / cifar10.FOLDER
    folder.mkdir()
    for i, name in enumerate(NAMES):
        (folder / name).write_bytes(batch(i, protocol=protocol)[1])
    return folder


def packed(root, monkeypatch):
    folder = unpacked(root)
    archive = root / cifar10.ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, cifar10.FOLDER)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    monkeypatch.setattr(cifar10, "MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    return archive


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_an_unpacked_folder_is_read_in_order(tmp_path, protocol):
    unpacked(tmp_path, protocol)
    images, labels = CIFAR10(str(tmp_path)).split("train")
    assert images.shape == (35, 3, 32, 32) and images.dtype == torch.uint8
    expected, _ = batch(1)
    assert torch.equal(images[7:14].flatten(1), torch.from_numpy(expected[b"data"]))
    assert labels[7:14].tolist() == expected[b"labels"]


def test_the_archive_gives_the_same_without_unpacking(tmp_path, monkeypatch):
    archive = packed(tmp_path, monkeypatch)
    images, _ = CIFAR10(str(tmp_path)).split("test")
    assert torch.equal(images.flatten(1), torch.from_numpy(batch(5)[0][b"data"]))
    assert list(tmp_path.iterdir()) == [archive]


def test_a_truncated_archive_is_refused(tmp_path, monkeypatch):
    archive = packed(tmp_path, monkeypatch)
    archive.write_bytes(archive.read_bytes()[:-500])
    with pytest.raises(ValueError, match="damaged or not the original"):
        CIFAR10(str(tmp_path)).setup()
    assert archive.exists()


class Evil:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_malicious_pickle_is_rejected_without_running_code(tmp_path):
    folder = unpacked(tmp_path)
    (folder / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(tmp_path / "owned"), b"labels": []}))
    with pytest.raises(ValueError, match=r"data_batch_3 .*posix.mkdir"):
        CIFAR10(str(tmp_path)).setup()
    assert not (tmp_path / "owned").exists()


def test_every_cut_of_a_batch_is_one_clear_error():
    _, content = batch(0, n=2)
    for end in range(0, len(content), 97):
        with pytest.raises(ValueError, match=r"x (is cut off|was rejected)"):
            load_harmless(content[:end], "x")


def test_missing_data_names_the_way_out(tmp_path):
    with pytest.raises(FileNotFoundError, match="set root"):
        CIFAR10(str(tmp_path)).setup()
    folder = unpacked(tmp_path)
    (folder / "data_batch_2").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_2 is missing"):
        CIFAR10(str(tmp_path)).setup()


def test_a_validation_part_is_set_aside(tmp_path):
    unpacked(tmp_path)
    data = CIFAR10(str(tmp_path), validation=5, limit=20)
    assert len(data.split("train")[0]) == 20 and len(data.split("validation")[0]) == 5
    with pytest.raises(ValueError, match="no split 'validation'"):
        CIFAR10(str(tmp_path)).split("validation")


def test_nothing_is_downloaded_unless_asked_for(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(cifar10, "fetch", lambda *a: asked.append(a))
    CIFAR10(str(tmp_path)).prepare_data()
    assert not asked
    CIFAR10(str(tmp_path), download=True).prepare_data()
    assert asked[0][0].startswith("https://")


@pytest.mark.parametrize("content", [b"", b"x" * 600, b"\x1f\x8b" + b"x" * 600])
def test_an_archive_that_is_none_is_one_sentence(tmp_path, monkeypatch, content):
    (tmp_path / cifar10.ARCHIVE).write_bytes(content)
    monkeypatch.setattr(cifar10, "MD5", hashlib.md5(content).hexdigest())
    with pytest.raises(ValueError, match="cannot be read") as told:
        CIFAR10(str(tmp_path)).setup()
    assert "\n" not in str(told.value)
