"""Training that breaks off at a chosen step or batch, as a crash or a signal would have it."""

import os
import shutil
import sys
import time
from pathlib import Path

from lightning.pytorch.callbacks import Callback

CRASHES = "--trainer.callbacks+=support.crashes.Crash"
DISTURBED = "--trainer.callbacks+=support.crashes.Disturbance"


class Crash(Callback):
    at = -1
    at_batch = -1

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == Crash.at or module.batches_seen() == Crash.at_batch:
            raise RuntimeError("crash")


class Disturbance(Callback):
    """A signal to this process, or the end of a folder, at a step."""

    at = -1
    signal = 0
    folder: Path | None = None

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == Disturbance.at:
            if Disturbance.signal:
                os.kill(os.getpid(), Disturbance.signal)
            if Disturbance.folder is not None:
                shutil.rmtree(Disturbance.folder)


class Unheard(Callback):
    """Ends a run as rich does where nobody reads its table or its bar."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        try:
            raise BrokenPipeError(32, "Broken pipe")
        except BrokenPipeError:
            sys.exit(1)


class CrashAfter(Callback):
    """Breaks off after so many batches of all trainings of the process together."""

    left = -1

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        CrashAfter.left -= 1
        if CrashAfter.left == 0:
            raise RuntimeError("crash")


def with_full_disk(limit, arguments):
    """``rince ARGUMENTS`` where no file can grow beyond a limit, which is what a full disk is, at a chosen moment."""
    import resource
    import signal

    from rince import cli

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return cli.main(arguments)


class Stop(Exception):
    pass


class SaveAndStop(Callback):
    """Saves a checkpoint after a step, takes one more, which is lost, and stops."""

    def __init__(self, path, at):
        self.path, self.at = path, at

    def on_train_batch_end(self, trainer, module, *_):
        if trainer.global_step == self.at:
            trainer.save_checkpoint(self.path)

    def on_train_batch_start(self, trainer, module, *_):
        if trainer.global_step == self.at + 1:
            raise Stop


class Waits(Callback):
    """At step 5 tells its process's number, and waits for a while; only where a folder is named for that."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if (folder := os.environ.get("WAITS_IN")) and trainer.global_step >= 5:
            path = Path(folder, f"pid.{trainer.global_rank}")
            path.with_name(f"new{path.suffix}").write_text(str(os.getpid()))
            path.with_name(f"new{path.suffix}").replace(path)
            time.sleep(0.2)
