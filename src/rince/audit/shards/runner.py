"""Where functions of shards run: in this process, or on a Dask cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from rince._support.optional_imports import require
from rince._support.progress import track
from rince._support.signals import children_without_interrupts
from rince.errors import UsageError

FAN_IN = 8
TIMEOUT = 15.0  # seconds to wait for a scheduler


class Runner(ABC):
    """Calls functions where the data is. Results stay there; their handles can be passed to the next function.

    Functions must be pure and picklable: a call may be repeated if the process that ran it is lost.
    """

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and return a handle of its result. Arguments may be handles, or lists of them."""

    @abstractmethod
    def gather(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        """Fetch small results. ``label`` is that of a progress bar."""

    def result(self, handle: Any) -> Any:
        """Fetch one small result."""
        return self.gather([handle])[0]

    def map(self, function: Callable[..., Any], *columns: Sequence[Any], label: str = "") -> list[Any]:
        """Submit the function for the first element of every column, then for the second, and so on.

        ``label`` is that of a progress bar, where the functions are called at once.
        """
        return [self.submit(function, *row) for row in zip(*columns, strict=True)]

    def reduce(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """Tree-reduce the results."""
        level = list(handles)
        while len(level) > 1:
            level = [self.submit(function, level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
        return level[0]


class LocalRunner(Runner):
    """Calls functions at once, in this process; a handle is the result itself.

    Args:
        progress: Show progress bars. Default: no.
    """

    def __init__(self, progress: bool | None = False):
        self.progress = progress

    def map(self, function: Callable[..., Any], *columns: Sequence[Any], label: str = "") -> list[Any]:
        rows = list(zip(*columns, strict=True))
        return [function(*row) for row in track(rows, label, show=self.progress if label else False)]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def gather(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        return list(handles)


class DaskRunner(Runner):
    """Dask tasks: results stay with the workers, and those of a lost worker are computed again.

    Args:
        client: A ``dask.distributed.Client``.
        progress: Show a progress bar. Default: on a terminal.
    """

    def __init__(self, client: Any, progress: bool | None = None):
        self.distributed = require("distributed", "cluster")
        if not isinstance(client, self.distributed.Client):
            raise UsageError(f"client must be a dask.distributed.Client, got {type(client).__name__}")
        self.client, self.progress = client, progress
        self._count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # A fresh key: hashing the arguments to find out whether the task is known would cost more than it saves.
        self._count += 1
        name = getattr(getattr(function, "func", function), "__name__", "task")
        key = f"{name}-{id(self):x}-{self._count:08d}"
        return self.client.submit(function, *arguments, key=key, pure=False)

    def gather(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        if label:
            done = self.distributed.as_completed(handles)
            for future in track(done, label, total=len(set(handles)), show=self.progress):
                if future.status == "error":
                    break  # gathering raises the error
        try:
            return self.client.gather(list(handles))
        except (self.distributed.scheduler.KilledWorker, self.distributed.CancelledError) as error:
            raise UsageError(
                f"The cluster lost the same task several times ({error}): its workers may have too little memory for "
                "a shard."
            ) from error


def runner_of(client: Any, progress: bool | None = None) -> Runner:
    """The runner for a Dask client, or for this process if ``client`` is None."""
    return LocalRunner(progress) if client is None else DaskRunner(client, progress)


# --- connecting to Dask -----------------------------------------------------------------------------------------------


@contextmanager
def connected(scheduler: str | None = None, workers: int | None = None, timeout: float = TIMEOUT) -> Iterator[Any]:
    """A client of a running scheduler, or of as many worker processes of one thread each on this machine.

    Args:
        scheduler: Its address, such as ``tcp://10.0.0.1:8786``.
        workers: Number of processes to start instead.
        timeout: Seconds to wait for the scheduler.

    Raises:
        UsageError: The scheduler cannot be reached, has no workers, or their version of rince differs.
    """
    distributed = require("distributed", "cluster")
    if (scheduler is None) == (workers is None):
        raise UsageError("name a scheduler or a number of workers, one of the two")
    if workers is not None:
        if workers < 1:
            raise UsageError(f"workers must be at least 1, got {workers}")
        with ExitStack() as opened:
            # Spilled data is removed with the cluster; the default folder of Dask would keep locks of stopped workers.
            scratch = opened.enter_context(TemporaryDirectory(prefix="rince-workers-", ignore_cleanup_errors=True))
            with children_without_interrupts():
                cluster = opened.enter_context(local_cluster(distributed, workers, scratch))
            yield opened.enter_context(distributed.Client(cluster))
        return
    try:
        client = client_of(distributed, scheduler, timeout)
    except (OSError, ValueError, TypeError) as error:  # also for an invalid address
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
    """A client that is closed at once if the connection fails.

    Dask leaves that to the garbage collector. If it runs while another client is created, the old client waits for a
    lock that the new one holds: a deadlock.
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
    """Processes of one thread each, reachable from this machine alone: a shard has no use for more threads.

    Dask has its workers give every freed block back to the system at once, which here makes them take half as much CPU
    time again: blocks of a shard are alike, and the next one would have found its memory in place.
    """
    dask = require("dask", "cluster")
    option = "distributed.nanny.pre-spawn-environ"
    environment = {name: value for name, value in dask.config.get(option).items() if name != "MALLOC_TRIM_THRESHOLD_"}
    # The scheduler has a folder for temporary files as well, which only this option moves.
    folder = {} if scratch is None else {"temporary-directory": scratch}
    with dask.config.set({option: environment, **folder}):
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
    version = worker_version()
    try:
        versions = client.run(worker_version)
    except ImportError as error:
        raise UsageError(
            f"the workers of {scheduler} cannot import rince ({error}): install rince[cluster] {version} there"
        ) from error
    mismatch = next((pair for pair in versions.items() if pair[1] != version), None)
    if mismatch is not None:
        raise UsageError(
            f"Worker {mismatch[0]} runs rince {mismatch[1]}, client runs {version}. The versions must match."
        )


def worker_version() -> str:
    """Version of rince on a worker."""
    import rince

    return rince.__version__
