"""A Dask cluster to work on: one that runs already, or one of processes on this machine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from rince._support.command_options import MOST
from rince._support.optional_imports import require
from rince._support.signals import children_without_interrupts
from rince.errors import UsageError

TIMEOUT = 15.0  # seconds to wait for a scheduler


@contextmanager
def connected(scheduler: str | None = None, workers: int | None = None, timeout: float = TIMEOUT) -> Iterator[Any]:
    """A client of a running scheduler, or of as many worker processes of one thread each on this machine.

    Args:
        scheduler: Its address, such as ``tcp://10.0.0.1:8786``.
        workers: How many processes to start, where there is no scheduler.
        timeout: How many seconds to wait for the scheduler.

    Raises:
        UsageError: The scheduler cannot be reached, has no workers, or these have another rince.
    """
    distributed = require("distributed", "cluster")
    if (scheduler is None) == (workers is None):
        raise UsageError("name a scheduler or a number of workers, one of the two")
    if workers is not None:
        if workers < 1:
            raise UsageError(f"workers must be at least 1, got {workers}")
        if workers > MOST["workers"]:
            raise UsageError(f"workers must be at most {MOST['workers']} on this machine, got {workers}")
        with ExitStack() as opened:
            # What workers spill goes with the cluster; Dask's own place would keep locks of those that were stopped.
            scratch = opened.enter_context(TemporaryDirectory(prefix="rince-workers-", ignore_cleanup_errors=True))
            with children_without_interrupts():
                cluster = opened.enter_context(local_cluster(distributed, workers, scratch))
            yield opened.enter_context(distributed.Client(cluster))
        return
    try:
        client = client_of(distributed, scheduler, timeout)
    except (OSError, ValueError, TypeError) as error:  # of an address that is none, too
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"no scheduler of Dask answered at {scheduler} within {timeout:g} seconds ({reason}): is it running, and "
            "reachable from here?"
        ) from error
    try:
        with client:
            _check_workers(client, scheduler, timeout)
            yield client
    finally:
        client.close()


def client_of(distributed: Any, scheduler: str | None, timeout: float) -> Any:
    """A client that is closed at once if nobody answers.

    Dask leaves that to the garbage collector. If it comes by while another client is being made, the old one waits for
    a lock that the new one holds: for ever.
    """

    class Client(distributed.Client):
        def __init__(self) -> None:
            try:
                super().__init__(scheduler, timeout=timeout)
            except BaseException:
                self.close()
                raise

    return Client()


def local_cluster(distributed: Any, workers: int, scratch: str | None = None) -> Any:
    """Processes of one thread each, reachable from this machine alone: a partition has no use for more threads.

    Dask has its workers give every freed block back to the system at once, which here makes them take half as much CPU
    time again: blocks of a partition are alike, and the next one would have found its memory in place.
    """
    dask = require("dask", "cluster")
    place = "distributed.nanny.pre-spawn-environ"
    environment = {name: value for name, value in dask.config.get(place).items() if name != "MALLOC_TRIM_THRESHOLD_"}
    # The scheduler has a folder for temporary files as well, which only this option moves.
    elsewhere = {} if scratch is None else {"temporary-directory": scratch}
    with dask.config.set({place: environment, **elsewhere}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            local_directory=scratch,
        )


def _check_workers(client: Any, scheduler: str | None, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        raise UsageError(f"the scheduler at {scheduler} has no workers, even after {timeout:g} seconds") from error
    here = worker_version()
    try:
        versions = client.run(worker_version)
    except ImportError as error:
        raise UsageError(
            f"the workers of {scheduler} cannot import rince ({error}): install rince[cluster] {here} there"
        ) from error
    other = next((pair for pair in versions.items() if pair[1] != here), None)
    if other is not None:
        raise UsageError(f"the worker {other[0]} has rince {other[1]}, and here is {here}: install the same there")


def worker_version() -> str:
    """The version of rince that a worker has."""
    import rince

    return rince.__version__
