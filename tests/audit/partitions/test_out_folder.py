import pytest

from rince.audit.partitions.finish import part_name
from rince.audit.partitions.out_folder import BEGUN, TABLE, check_out, written_table
from rince.errors import ExistingFile, FileError


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(place, count, text):
    place.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (place / part_name(number)).write_text(text)


def test_a_table_is_there_when_it_is_whole_and_the_earlier_one_until_then(tmp_path):
    for count, text in ((3, "first"), (2, "second")):
        with written_table(tmp_path, count) as place:
            write(tmp_path / BEGUN, count, text)
            assert place == str(tmp_path / BEGUN)
            assert len(names(tmp_path / TABLE)) == (3 if text == "second" else 0)
        assert names(tmp_path) == {f"{TABLE}/{part_name(number)}" for number in range(count)}
        assert (tmp_path / TABLE / part_name(0)).read_text() == text


def test_whoever_is_stopped_leaves_nothing_and_the_same_command_can_be_given_again(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), written_table(out, 3):
        write(out / BEGUN, 1, "half")
        raise KeyboardInterrupt
    assert not out.exists()
    write(out / BEGUN, 3, "killed")  # which could not tidy up
    check_out(out, force=False)
    with written_table(out, 1):
        write(out / BEGUN, 1, "whole")
    assert names(out) == {f"{TABLE}/{part_name(0)}"}
    with pytest.raises(ExistingFile):
        check_out(out, force=False)


def test_a_folder_that_workers_do_not_reach_is_one_sentence(tmp_path):
    with pytest.raises(FileError, match="name a folder that all of them reach"), written_table(tmp_path, 2):
        write(tmp_path / BEGUN, 1, "mine")
    assert not names(tmp_path)


def test_an_address_is_written_in_place():
    with written_table("s3://bucket/audit/", 2) as place:
        assert place == f"s3://bucket/audit/{TABLE}"
    with written_table(None, 2) as place:
        assert place is None
