import pytest

from rince.report.folder import from_folder


@pytest.fixture
def pictures(tmp_path):
    for name in ("item10.png", "item2.png", "item1.jpg", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def names(files):
    return [None if path is None else path.name for path in files.paths]


def test_without_ids_files_come_in_the_order_of_their_numbers_and_this_is_said(pictures):
    files = from_folder(pictures, None)
    assert names(files) == ["item1.jpg", "item2.png", "item10.png"]
    assert files.remark.endswith("were taken in the order of their names")


def test_ids_find_their_files_with_or_without_ending(pictures):
    files = from_folder(pictures, ["item2", "item10.png", "item1", "item2"])
    assert names(files) == ["item2.png", "item10.png", "item1.jpg", "item2.png"] and not files.remark


def test_ids_without_a_file_show_nothing_and_the_first_is_named(pictures):
    files = from_folder(pictures, ["item10", "item7", None, "item1", "item8"])
    assert names(files) == ["item10.png", None, None, "item1.jpg", None]
    assert files.remark.startswith("3 of 5 pairs have no file in") and files.remark.endswith("the first is item7")
    assert files.item(1) is None


def test_if_no_id_is_a_name_the_order_counts_and_this_is_said(pictures):
    files = from_folder(pictures, [5, 6, 7])
    assert names(files) == ["item1.jpg", "item2.png", "item10.png"]
    assert files.remark.endswith("in the order of their names, since none is named like an id")


def test_a_folder_with_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds nothing to show"):
        from_folder(tmp_path, None)
