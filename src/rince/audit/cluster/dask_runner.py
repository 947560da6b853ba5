"""The work on partitions, done by the workers of a Dask cluster."""

from collections.abc import Callable, Sequence
from typing import Any

from rince._support.optional_imports import require
from rince._support.progress import track
from rince.audit.partitions.runner import Runner
from rince.errors import UsageError


class DaskRunner(Runner):
    """Tasks of Dask: results stay with the workers, and those of a lost worker are computed again.

    Args:
        client: A ``dask.distributed.Client``.
        progress: Show a bar; by default on a terminal.
    """

    def __init__(self, client: Any, progress: bool | None = None):
        self.distributed = require("distributed", "cluster")
        if not isinstance(client, self.distributed.Client):
            raise UsageError(f"client must be a dask.distributed.Client, got {type(client).__name__}")
        self.client, self.progress = client, progress
        self._count = 0

    def one(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # A key of its own: to find out by hashing whether the same was asked before would cost more than it saves.
        self._count += 1
        key = f"{function.__name__}-{id(self):x}-{self._count:08d}"
        return self.client.submit(function, *arguments, key=key, pure=False)

    def values(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        if label:
            done = self.distributed.as_completed(handles)
            for future in track(done, label, total=len(set(handles)), show=self.progress):
                if future.status == "error":
                    break  # gathering says what went wrong
        try:
            return self.client.gather(list(handles))
        except (self.distributed.scheduler.KilledWorker, self.distributed.CancelledError) as error:
            raise UsageError(
                f"the cluster lost the same part of the work several times ({error}): its workers may have too little "
                "memory for a partition"
            ) from error
