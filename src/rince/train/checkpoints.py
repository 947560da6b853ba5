"""Checkpoints: written atomically, verified when read, and kept until the next one is complete."""

import contextlib
import os
import pickle
import signal
import threading
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer

from rince._support.atomic_files import written_whole
from rince._support.command_errors import first_line
from rince.errors import FileError, MissingFile, UsageError
from rince.train.run_folder import RunFolder

NEEDED = ("state_dict", "global_step", "batches_seen")
# Lightning writes these in the middle of a step when SLURM ends a job. A requeued run resumes from last.ckpt instead,
# which gives the same bits as an uninterrupted run.
SLURM_PREFIX = "hpc_ckpt_"


class WholeFiles(CheckpointIO):
    """Reads and writes checkpoints as local files. The previous one is kept as ``previous.ckpt`` until the run ends."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        if path.name.startswith(SLURM_PREFIX):
            return
        try:
            with written_whole(path) as temporary:
                with open(temporary, "wb") as file:
                    torch.save(checkpoint, file)
                _keep(path)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError if the disk is full
            if isinstance(error.__context__, KeyboardInterrupt | SystemExit):  # torch hides the interrupt
                raise error.__context__ from None
            intact = ": the previous one is intact" if path.exists() else ""
            # torch hides a system error behind one of its own.
            hidden = not isinstance(error, OSError) and isinstance(error.__context__, OSError)
            reason = str(error.__context__) if hidden else first_line(error)
            raise FileError(f"the checkpoint {path} could not be written ({reason}){intact}") from error

    def load_checkpoint(self, path: Any, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = read_checkpoint(Path(path))
        count_epoch(state)
        return state

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def _keep(path: Path) -> None:
    """Hard-link the last checkpoint as previous.ckpt, so that one exists at any moment."""
    if not path.exists():
        return
    beside = path.with_name(f".{path.name}.previous")
    beside.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # a file system without hard links keeps one checkpoint only
        os.link(path, beside)
        os.replace(beside, path.with_name("previous.ckpt"))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Content of a checkpoint. Its checksums are verified, and no code in it runs.

    Raises:
        UsageError: If the file is missing, corrupt, not a checkpoint, or holds more than weights and plain values.
    """
    if not path.is_file():
        raise MissingFile(f"{path.parent} has no checkpoint: the run was stopped before its first one")
    try:
        with zipfile.ZipFile(path) as archive:
            uncompressed = all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
            if not uncompressed or archive.testzip() is not None:
                raise UsageError(f"{path} is corrupt: its checksums do not match")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path} is rejected: it holds more than weights") from error
    except UsageError:
        raise
    except Exception as error:  # a corrupt archive can raise anything
        raise UsageError(f"{path} is corrupt, or not a checkpoint of rince ({type(error).__name__})") from error
    if not isinstance(state, dict) or not all(name in state for name in NEEDED):
        raise UsageError(f"{path} is not a checkpoint of rince")
    return state


def count_epoch(state: dict[str, Any]) -> None:
    """Count the epoch in which a checkpoint was written.

    Lightning does not count the next epoch as started when it resumes from the end of one. Resuming again from a
    checkpoint of that run, it would repeat the epoch.
    """
    loop = state["loops"]["fit_loop"]
    batches = loop["epoch_loop.batch_progress"]["current"]
    if batches["completed"] >= batches["processed"]:
        return  # written at the end of training
    for counts in (loop["epoch_progress"]["current"], loop["epoch_progress"]["total"]):
        counts["processed"] = counts["completed"]
        counts["ready"] = counts["started"] = counts["completed"] + 1


def while_restoring(error: BaseException) -> bool:
    """Whether an error was raised while Lightning restored a checkpoint."""
    frame = error.__traceback__
    while frame is not None:
        if str(frame.tb_frame.f_globals.get("__name__")).endswith("connectors.checkpoint_connector"):
            return True
        frame = frame.tb_next
    return False


def latest(folder: RunFolder, settings: str = "") -> tuple[Path, dict[str, Any]] | None:
    """Checkpoint to resume from: the last one or, with a warning, the previous one; ``None`` if neither exists.

    A checkpoint with other ``settings`` (see ``settings_code``) belongs to another run.
    """
    paths = [path for path in (folder.checkpoint, folder.previous) if path.exists()]
    problems: list[str] = []
    for path in paths:
        try:
            state = read_checkpoint(path)
            if settings and state.get("settings_fingerprint", settings) != settings:
                raise UsageError(f"{path} belongs to a run with other settings")
        except UsageError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(f"{problems[0]}; resuming from {path.name}, written at step {state['global_step']}")
        return path, state
    if problems:
        raise UsageError(f"{problems[0]}: restore it from a copy, or delete {folder.path} to start over")
    return None


class SaveCheckpoints(Callback):
    """Writes ``last.ckpt`` every ``every`` steps, at the end, and on the first SIGINT or SIGTERM.

    After a signal the current step is finished, saved, and the signal is raised again; a second signal acts at once.
    With several processes a signal is not delayed, because it may have reached only one of them.
    """

    def __init__(self, folder: RunFolder, every: int, fingerprint: str, settings: str = ""):
        if every < 1:
            raise UsageError(f"checkpoint_every must be at least 1 step, got {every}")
        self.folder, self.every, self.fingerprint, self.settings = folder, every, fingerprint, settings
        self.saved = -1
        self.received: int | None = None
        self.handlers: dict[int, Any] = {}
        self.pid = os.getpid()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["data_fingerprint"] = self.fingerprint
        checkpoint["settings_fingerprint"] = self.settings

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1 or threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):  # a background job ignores SIGINT
                self.handlers[number] = handler
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: Any) -> None:
        handler = self.handlers[number]
        if os.getpid() != self.pid:  # a loader's worker, forked with this handler
            handler(number, frame)
        self.received = number
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers = {}

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # Between accumulated batches the gradient would be lost, so only complete steps are saved.
        step = trainer.global_step
        if trainer.fit_loop._should_accumulate() or step == self.saved:
            return
        if step % self.every == 0 or self.received is not None:
            # Lightning logs a step only after this hook: killed in between, a resumed run would never log it.
            trainer._logger_connector.update_train_step_metrics()
            self.save(trainer)
        if self.received is not None:
            signal.raise_signal(self.received)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restore_handlers()
        self.save(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._restore_handlers()

    def save(self, trainer: Trainer) -> None:
        self.saved = trainer.global_step
        if trainer.is_global_zero:
            self.folder.check_still_there()
        trainer.save_checkpoint(self.folder.checkpoint)
        trainer.strategy.barrier("checkpoint")
