"""The table of metrics, whole and damaged."""

import pytest

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


def test_further_metrics_of_a_step_do_not_rewrite_the_table(path, monkeypatch):
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


def test_resumed_run_adds_metrics_to_its_last_step(path):
    first = MetricsTable(path)
    for step in range(3):
        first.log_metrics({"loss": float(step), "mean": 0.5}, step)
    table = MetricsTable(path)
    table.drop_from(3)
    table.log_metrics({"mean": 0.25}, 2)
    assert lines(path)[-1] == "2,2.0,0.25" and len(lines(path)) == 4


def test_lines_after_the_checkpoint_are_deleted(path):
    table = MetricsTable(path)
    for step in range(5):
        table.log_metrics({"loss": float(step)}, step)
    again = MetricsTable(path)
    again.drop_from(3)
    again.log_metrics({"loss": 7.0}, 3)
    assert lines(path) == ["step,loss", "0,0.0", "1,1.0", "2,2.0", "3,7.0"]


@pytest.mark.parametrize(
    ("content", "good"),
    [
        (b"", 0),
        (b"step,loss\n0,1\n1,", 1),  # an incomplete line, as a killed run leaves it
        (b"step,loss\n0,1\n1", 1),
        (b"step,loss\n0,1,2,3\n1,2\n", 1),
        (b"a,b\n1,2\n", 0),
    ],
)
def test_damaged_lines_are_left_out(path, content, good):
    path.write_bytes(content)
    columns, rows = read_table(path)
    assert len(rows) == good and "step" in columns
    table = MetricsTable(path)
    table.drop_from(10**6)
    table.log_metrics({"loss": 3.0}, 10**6)
    assert read_table(path)[1][-1]["loss"] == "3.0" and len(read_table(path)[1]) == good + 1
