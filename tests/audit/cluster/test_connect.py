import socket
import sys

import pytest

from rince.audit.cluster.connect import connected
from rince.errors import UsageError

pytest.importorskip("distributed")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_scheduler_that_does_not_answer_is_one_sentence_in_time():
    address = f"tcp://127.0.0.1:{free_port()}"
    message = rf"no scheduler of Dask answered at {address} within 1 seconds"
    with pytest.raises(UsageError, match=message), connected(address, timeout=1):
        pass


def test_an_address_that_is_none_is_one_sentence():
    with pytest.raises(UsageError, match="no scheduler of Dask answered at"), connected("nowhere", timeout=1):
        pass


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "one of the two"),
        ({"workers": 0}, "at least 1, got 0"),
        ({"scheduler": "x", "workers": 1}, "one of the two"),
    ],
)
def test_what_to_connect_to_must_be_plain(options, message):
    with pytest.raises(UsageError, match=message), connected(**options):
        pass


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'rince\[cluster\]'"), connected(workers=1):
        pass
