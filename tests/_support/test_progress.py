import io
import sys

from rince._support import progress
from rince._support.progress import duration, progress_line, track, working


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_progress_without_a_terminal(capsys):
    assert list(track([1, 2], "reading")) == [1, 2]
    assert capsys.readouterr().err == ""


def test_no_progress_with_closed_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(track([1, 2], "reading", show=True)) == [1, 2]


def test_terminal_shows_rate_and_time_left_and_is_cleared(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(track(range(4), "encoding", step=10)) == [0, 1, 2, 3]
    written = sys.stderr.getvalue()
    assert "encoding: 20 of 40 (50%), 10/s, 2 s left" in written
    assert written.endswith(" \r")


def test_logs_get_a_line_every_ten_seconds(monkeypatch):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    list(track(iter(range(5)), "fitting", show=True))
    assert sys.stderr.getvalue() == "fitting: 2, 0.17/s\nfitting: 4, 0.17/s\n"


def test_total_is_never_exceeded_by_a_partial_last_batch():
    assert progress_line("x", 512, 300, 1.0) == "x: 300 of 300 (100%), 512/s, 0 s left"


def test_durations():
    assert [duration(s) for s in (7.2, 180, 4800)] == ["7 s", "3 min", "1 h 20 min"]


def test_step_without_progress_shows_and_clears_its_label(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with working("fitting"):
        assert sys.stderr.getvalue() == "fitting ..."
    assert sys.stderr.getvalue().endswith(" \r")
