"""The processes of a run on one machine end together, whatever it is that ends one of them."""

import re
import signal
import sys
import threading
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from rince._support.signals import Children, speaks
from rince.errors import UsageError

AGAIN = "the same command again resumes the run"


class EndTogether(Callback):
    """A callback that takes over the processes that Lightning has started, and a context that ends them on an error.

    Lightning answers a SIGTERM by a message to all processes from within the signal's handler, which meets messages of
    the step that is under way, and the death of a process by killing the others without a word.
    """

    def __init__(self) -> None:
        self.children = Children([])
        self.handler: Any = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.handler = signal.getsignal(signal.SIGTERM)
        launcher = trainer.strategy.launcher
        if isinstance(launcher, _SubprocessScriptLauncher):
            self.children = Children(list(launcher.procs))
            launcher.procs.clear()  # or Lightning kills this process when one of them has ended
        self.children.watch(lambda lost: print(f"rince: {lost}: {AGAIN}", file=sys.stderr, flush=True))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if callable(self.handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.handler)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            return
        silent = isinstance(error, RuntimeError) and re.search(r"(?i)gloo|nccl|connection (closed|reset)", str(error))
        lost = self.children.lost_soon() if silent else None
        if self.children.processes and torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
            torch.distributed.destroy_process_group()
        self.children.end()
        if lost is not None or (silent and not speaks()):
            raise UsageError(f"{lost or 'this process has lost the others of its run'}: {AGAIN}") from error
