import errno
import os
import tempfile

import pytest

from rince._support.atomic_files import check_out_folder, check_writable, write_text, written_whole
from rince.errors import FileError


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "result.json"
    write_text(path, "old")
    with pytest.raises(RuntimeError), written_whole(path) as temporary:
        temporary.write_text("half of the n")
        raise RuntimeError("killed")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_atomic_write_creates_the_folder_and_keeps_the_suffix(tmp_path):
    with written_whole(tmp_path / "new" / "table.parquet") as temporary:
        assert temporary.suffix == ".parquet"
        temporary.write_bytes(b"x")
    assert (tmp_path / "new" / "table.parquet").read_bytes() == b"x"


def test_a_name_that_is_no_text_does_not_lose_the_result(tmp_path):
    write_text(tmp_path / "page.html", "a byte \udcff of a file's name")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "a byte ? of a file's name"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_full_disk_is_told_before_the_work(tmp_path, monkeypatch):
    def full(dir, prefix):
        (dir / prefix).touch()
        return os.open("/dev/full", os.O_WRONLY), str(dir / prefix)

    check_writable(tmp_path)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(FileError, match="No space left on device"):
        check_writable(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_full_disk_keeps_the_old_file_and_names_it(tmp_path, number):
    path = tmp_path / "table.csv"
    write_text(path, "old")
    with pytest.raises(FileError, match=r"table\.csv cannot be written \("), written_whole(path):
        raise OSError(number, os.strerror(number))
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_other_os_errors_are_not_changed(tmp_path):
    for error in (OSError(errno.EIO, "of a reader"), OSError(errno.ENOSPC, "full", "other.csv")):
        with pytest.raises(OSError, match=r"of a reader|other\.csv"), written_whole(tmp_path / "table.csv"):
            raise error


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    path = tmp_path / f"{'x' * 250}.json"
    write_text(path, "1")
    assert path.read_text() == "1"


def test_a_place_that_takes_no_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file/x\.csv cannot be written \("):
        write_text(tmp_path / "file" / "x.csv", "1")


def test_invalid_output_folder_is_rejected_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out" / "audit.csv").mkdir(parents=True)
    check_out_folder(tmp_path / "new", "the audit")
    check_out_folder(tmp_path / "out", "the audit", ["audit.json"])
    for name, message in (("file", "is a file"), ("lost", "broken link"), ("loop", "broken link")):
        with pytest.raises(FileError, match=f"{message}: choose a folder for the audit"):
            check_out_folder(tmp_path / name, "the audit")
    with pytest.raises(FileError, match=r"audit\.csv is a folder"):
        check_out_folder(tmp_path / "out", "the audit", ["audit.csv"])
    with pytest.raises(FileError, match=r"audit\.csv is a folder"):
        write_text(tmp_path / "out" / "audit.csv", "1")
