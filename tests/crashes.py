"""Training that breaks off at a chosen step or batch, as a crash or a signal would have it."""

import os
import shutil
from pathlib import Path

from lightning.pytorch.callbacks import Callback

CRASHES = "--trainer.callbacks+=crashes.Crash"
DISTURBED = "--trainer.callbacks+=crashes.Disturbance"


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


class CrashAfter(Callback):
    """Breaks off after so many batches of all trainings of the process together."""

    left = -1

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        CrashAfter.left -= 1
        if CrashAfter.left == 0:
            raise RuntimeError("crash")
