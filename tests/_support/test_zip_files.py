import os
import struct
import zipfile

import numpy as np
import pytest

from rince._support.zip_files import check_zip, opened_zip
from rince.data.images import read_npz
from rince.errors import MissingFile, UsageError


def write(path, content=b"1, 2\n", compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a.txt", content)
    return path


def change(path, offset, value):
    """A field of the one entry, in its own header and in the directory at the end."""
    data = bytearray(path.read_bytes())
    for start, extra in ((data.index(b"PK\x03\x04"), 0), (data.index(b"PK\x01\x02"), 2)):
        struct.pack_into("<H", data, start + offset + extra, value)
    path.write_bytes(data)


def test_a_plain_archive_is_read(tmp_path):
    with opened_zip(write(tmp_path / "a.zip")) as archive:
        assert archive.read("a.txt") == b"1, 2\n"


@pytest.mark.parametrize(("offset", "value", "message"), [(6, 1, "is encrypted"), (8, 97, "unsupported compression")])
def test_encrypted_and_odd_archives_are_one_sentence(tmp_path, offset, value, message):
    change(write(tmp_path / "a.zip"), offset, value)
    with pytest.raises(UsageError, match=message):
        check_zip(tmp_path / "a.zip")


def test_zip_bomb_is_rejected_before_unpacking(tmp_path):
    path = write(tmp_path / "a.zip", bytes(300 << 20))
    with pytest.raises(UsageError, match=r"would unpack to 0\.3 GB, \d+ times"):
        check_zip(path)


def test_damage_is_told_wherever_it_is(tmp_path):
    path = write(tmp_path / "a.zip", os.urandom(5000))
    whole = path.read_bytes()
    path.write_bytes(whole[:2000] + b"xxxx" + whole[2004:])
    with pytest.raises(UsageError, match="not a valid zip file"), opened_zip(path) as archive:
        archive.read("a.txt")
    path.write_bytes(whole[:3000])
    with pytest.raises(UsageError, match="not a valid zip file"):
        check_zip(path)


def test_other_than_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("pipe.npz", "nothing.npz"):
        with pytest.raises(MissingFile):
            read_npz(tmp_path / name)
    np.savez_compressed(tmp_path / "zeros.npz", images=np.zeros((300, 1024, 1024), dtype=np.uint8))
    with pytest.raises(UsageError, match="would unpack"):
        read_npz(tmp_path / "zeros.npz")


def test_an_entry_that_lies_before_the_file_is_refused(tmp_path):
    """The directory at the end says that it begins later than it does, and entries then begin below zero."""
    path = write(tmp_path / "a.zip")
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x05\x06") + 16
    struct.pack_into("<I", data, place, struct.unpack_from("<I", data, place)[0] + 100)
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not a valid zip file"), opened_zip(path) as archive:
        archive.read("a.txt")
