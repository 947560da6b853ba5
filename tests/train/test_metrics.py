"""The table of metrics: whole, damaged, and in folders of others."""

import os
import warnings

import pytest

from rince.errors import FileError
from rince.train.metrics import MetricsTable, read_table


@pytest.fixture
def path(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "metrics.csv"


def lines(path):
    return path.read_text().splitlines()


def test_lines_are_added_and_new_columns_reach_the_old_lines(path):
    table = MetricsTable(path)
    table.log_metrics({"loss": 2.0}, 0)
    table.log_metrics({"loss": 1.5}, 10)
    table.log_metrics({"probe": 0.5}, 10)  # the same step
    table.log_metrics({"loss": 1.0, "probe": 0.75}, 20)
    assert lines(path) == ["step,loss,probe", "0,2.0,", "10,1.5,0.5", "20,1.0,0.75"]


def test_only_the_last_line_is_kept_in_memory(path):
    table = MetricsTable(path)
    for step in range(300):
        table.log_metrics({"loss": 1.0}, step)
    held = [value for value in vars(table).values() if isinstance(value, (list, dict))]
    assert max(map(len, held)) <= 2 and len(lines(path)) == 301


def test_a_step_that_tells_more_does_not_write_the_whole_table_again(path, monkeypatch):
    """As the last step of an epoch does; a long run would write the square of its length."""
    table = MetricsTable(path)
    table.log_metrics({"loss": 2.0, "mean": 0.0}, 0)
    monkeypatch.setattr("rince.train.metrics.read_table", lambda path: pytest.fail("read again"))
    monkeypatch.setattr(table, "_write", lambda rows: pytest.fail("written again"))
    for step in range(1, 4):
        table.log_metrics({"loss": 1 / 3, "mean": 1 / 3}, step)
        table.log_metrics({"mean": float(step)}, step)  # longer or shorter than what stood there
        table.log_metrics({"mean": step / 3}, step)
    expected = [f"{step},{1 / 3},{step / 3}" for step in range(1, 4)]
    assert lines(path) == ["step,loss,mean", "0,2.0,0.0", *expected]


def test_a_resumed_run_tells_more_of_its_last_step(path):
    first = MetricsTable(path)
    for step in range(3):
        first.log_metrics({"loss": float(step), "mean": 0.5}, step)
    table = MetricsTable(path)
    table.go_back(3)
    table.log_metrics({"mean": 0.25}, 2)
    assert lines(path)[-1] == "2,2.0,0.25" and len(lines(path)) == 4


def test_what_somebody_else_wrote_below_stays(path):
    table = MetricsTable(path)
    table.log_metrics({"loss": 2.0}, 0)
    with open(path, "a") as file:
        file.write("7,1.0\n")
    table.log_metrics({"loss": 1.0}, 0)
    assert sorted(lines(path)) == ["0,1.0", "7,1.0", "step,loss"]


def test_lines_after_the_checkpoint_are_taken_back(path):
    table = MetricsTable(path)
    for step in range(5):
        table.log_metrics({"loss": float(step)}, step)
    again = MetricsTable(path)
    again.go_back(3)
    again.log_metrics({"loss": 7.0}, 3)
    assert lines(path) == ["step,loss", "0,0.0", "1,1.0", "2,2.0", "3,7.0"]


@pytest.mark.parametrize(
    ("content", "good", "lost"),
    [
        (b"", 0, 0),
        (b"step,loss\n0,1\n1,", 1, 0),  # half a line, as a killed run leaves it
        (b"step,loss\n0,1\n1", 1, 0),
        ("step,loss\n\u00b2,1\n1,2\n".encode(), 1, 1),  # a digit that is no number
        (b"step,loss\n0,1,2,3\n1,2\n", 1, 1),
        (b"step,loss\n" + b"9" * 6000 + b",1\n", 0, 1),
        (b"step,loss\n0,\x00\n1,\xff\n", 2, 0),
        (b"a,b\n1,2\n", 0, 2),
        (b"step,step\n1,2\n", 0, 2),
        (b"step,loss\n0," + b"x" * 200_000 + b"\n", 0, None),  # csv's own limit may have been lifted
        (b'step,loss\n0,"1\n2,3', 0, 0),
        (bytes(range(256)) * 20, 0, None),
    ],
)
def test_a_damaged_table_gives_what_can_be_read(path, content, good, lost):
    path.write_bytes(content)
    columns, rows, damaged = read_table(path)
    assert len(rows) == good and "step" in columns and (lost is None or damaged == lost)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table = MetricsTable(path)
        table.go_back(10**6)
    assert len(told) == bool(damaged)
    table.log_metrics({"loss": 3.0}, 10**6)
    assert read_table(path)[1][-1]["loss"] == "3.0" and read_table(path)[2] == 0


def test_a_table_that_is_no_file_of_the_folder_is_left_alone(path, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for make in (lambda: path.symlink_to(mine), lambda: os.mkfifo(path), path.mkdir):
        make()
        with pytest.raises(FileError, match=r"metrics\.csv is no table of metrics"):
            MetricsTable(path).go_back(1)
        path.rmdir() if path.is_dir() else path.unlink()
    assert mine.read_text() == "precious"
