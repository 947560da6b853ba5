import contextlib
import gc
import signal
import socket
import sys
import tempfile
from types import SimpleNamespace

import pytest

from rince.audit.shards.runner import connected, local_cluster
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


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{}", "nowhere"])
def test_unanswered_client_is_closed(address):
    distributed = pytest.importorskip("distributed")
    with pytest.raises(UsageError) as kept, connected(address.format(free_port()), timeout=1):
        pass
    assert kept.traceback, "which keeps the client alive"
    assert {one.status for one in gc.get_objects() if distributed.Client in type(one).__mro__} == {"closed"}


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


def test_workers_keep_freed_memory_for_the_next_block():
    dask = pytest.importorskip("dask")
    place = "distributed.nanny.pre-spawn-environ"
    before = dict(dask.config.get(place))
    seen = local_cluster(SimpleNamespace(LocalCluster=lambda **options: (dask.config.get(place), options)), 3)
    assert "MALLOC_TRIM_THRESHOLD_" in before and "MALLOC_TRIM_THRESHOLD_" not in seen[0]
    assert seen[0]["OMP_NUM_THREADS"] == 1 and seen[1]["n_workers"] == 3
    assert dask.config.get(place) == before


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has other interrupts")
def test_workers_of_this_machine_hear_no_interrupt_and_leave_no_files(monkeypatch, tmp_path):
    """A terminal would interrupt them too, each with a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = {}

    class Cluster:
        def __init__(self, **options):
            seen["deaf"] = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
            open(f"{options['local_directory']}/worker.lock", "w").close()

        def __enter__(self):
            return self

        def __exit__(self, *error):
            seen["closed"] = True

    monkeypatch.setattr("distributed.LocalCluster", Cluster)
    monkeypatch.setattr("distributed.Client", lambda cluster: contextlib.nullcontext("client"))
    with pytest.raises(KeyboardInterrupt), connected(workers=1) as client:
        assert client == "client" and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        raise KeyboardInterrupt
    assert seen == {"deaf": True, "closed": True} and not list(tmp_path.iterdir())
