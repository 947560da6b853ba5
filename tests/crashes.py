"""Training that breaks off at a chosen step or batch, as a crash would."""

from lightning.pytorch.callbacks import Callback

CRASHES = "--trainer.callbacks+=crashes.Crash"


class Crash(Callback):
    at = -1
    at_batch = -1

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == Crash.at or module.batches_seen() == Crash.at_batch:
            raise RuntimeError("crash")
