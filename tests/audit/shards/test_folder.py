import pytest

from rince.audit.save import check_folder, results_folder
from rince.audit.shards.run import TABLE, check_parts, part_name
from rince.errors import ExistingFile, FileError


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(place, count, text):
    (place / TABLE).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (place / TABLE / part_name(number)).write_text(text)


def test_table_appears_as_a_whole_and_replaces_the_earlier_one(tmp_path):
    (tmp_path / "audit.csv").write_text("stale")
    for count, text in ((3, "first"), (2, "second")):
        with results_folder(tmp_path) as place:
            write(tmp_path / place, count, text)
            assert (tmp_path / "audit.csv").exists() == (text == "first")
            assert not (tmp_path / TABLE).exists() or (tmp_path / TABLE / part_name(0)).read_text() == "first"
        assert names(tmp_path) == {f"{TABLE}/{part_name(number)}" for number in range(count)}
        assert (tmp_path / TABLE / part_name(0)).read_text() == text


def test_interrupted_audit_leaves_nothing(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), results_folder(out) as place:
        write(tmp_path / place, 1, "half")
        raise KeyboardInterrupt
    assert not out.exists()
    check_folder(out, force=False)
    with results_folder(out) as place:
        write(tmp_path / place, 1, "whole")
    assert names(out) == {f"{TABLE}/{part_name(0)}"}
    with pytest.raises(ExistingFile):
        check_folder(out, force=False)


def test_folder_out_of_reach_of_workers_is_an_error(tmp_path):
    with pytest.raises(FileError, match="choose a folder that they all reach"), results_folder(tmp_path) as place:
        write(tmp_path / place, 1, "mine")
        check_parts(place, 2)
    assert not names(tmp_path)


def test_url_is_written_in_place_and_its_old_record_is_removed_first():
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/audit/audit.json", b"{}")
    with results_folder("memory://bucket/audit") as place:
        assert place == "memory://bucket/audit" and not store.exists("/bucket/audit/audit.json")
