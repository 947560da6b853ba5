import os

import pytest

from rince._support.regular_files import Unreadable, check_regular, lies_below, natural, read_regular
from rince.errors import FileError


def test_a_regular_file_is_read_up_to_its_bound(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == b"12345"
    with pytest.raises(Unreadable, match="x is larger than"):
        read_regular(tmp_path / "x", 4)


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing", "no path"])
def test_everything_else_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "no path":
        path = tmp_path / "x\0y"
    with pytest.raises(Unreadable):
        read_regular(path, 100)


def test_links_must_stay_below_the_root(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "root" / "inside").write_text("i")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "root" / "round").symlink_to("round")
    (tmp_path / "alias").symlink_to(tmp_path / "root")
    below = {name: lies_below(tmp_path / "root" / name, tmp_path / "alias") for name in ("inside", "link", "round")}
    assert below["inside"] and not below["link"]
    assert read_regular(tmp_path / "root" / "inside", 9, tmp_path / "alias") == b"i"
    for name in ("link", "../secret", "round"):
        with pytest.raises(Unreadable):
            read_regular(tmp_path / "root" / name, 9, tmp_path / "root")


def test_numbers_in_names_count_as_numbers(tmp_path):
    names = ["b1", "a10", "a9", "a9b", "10", "2"]
    assert [path.name for path in sorted((tmp_path / name for name in names), key=natural)] == [
        "2", "10", "a9", "a9b", "a10", "b1",
    ]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_pipes_folders_and_nothing_are_no_files_to_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    check_regular(tmp_path / "file")
    for name, message in (("pipe", "not a regular file"), (".", "not a regular file"), ("none", "does not exist")):
        with pytest.raises(FileError, match=message):
            check_regular(tmp_path / name)
