import sys

from rince._support.progress import track


def test_a_closed_standard_error_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)  # what Python makes of `2>&-`
    assert list(track([1, 2], "reading")) == [1, 2]
