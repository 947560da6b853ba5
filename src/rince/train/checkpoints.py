"""Checkpoints that are whole at any moment, checked when they are read, and kept until the next one is good."""

import contextlib
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer

from rince._support.atomic_files import written_whole
from rince.errors import FileError, MissingFile, UsageError
from rince.train.folder import RunFolder

NEEDED = ("state_dict", "global_step", "batches_seen")
# What Lightning writes when SLURM announces the end of a job, in the middle of a step. A run that is queued again goes
# on from last.ckpt, to the same bits.
REQUEUED = "hpc_ckpt_"


class WholeFiles(CheckpointIO):
    """How a run writes and reads checkpoints: plain local files, never by a name that could mean another place.

    The one before is kept as ``previous.ckpt`` until the run is finished.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        if path.name.startswith(REQUEUED):
            return
        try:
            with written_whole(path) as temporary:
                with open(temporary, "wb") as file:
                    torch.save(checkpoint, file)
                _keep(path)
        except (OSError, RuntimeError) as error:  # torch has its own error for a disk that is full
            if isinstance(error.__context__, KeyboardInterrupt | SystemExit):  # and hides that it was stopped
                raise error.__context__ from None
            stays = ": the one before it is whole" if path.exists() else ""
            raise FileError(f"the checkpoint {path} could not be written ({_first_line(error)}){stays}") from error

    def load_checkpoint(self, path: Any, map_location: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = read_checkpoint(Path(path))
        count_epoch(state)
        return state

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def _keep(path: Path) -> None:
    """A second name for the last checkpoint, so that there is no moment without one."""
    if not path.exists():
        return
    beside = path.with_name(f".{path.name}.previous")
    beside.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # a file system without hard links keeps one checkpoint only
        os.link(path, beside)
        os.replace(beside, path.with_name("previous.ckpt"))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint of rince, with its checksums compared and nothing in it run.

    Raises:
        UsageError: If it is missing, damaged, of another kind, or holds more than weights and plain values.
    """
    if not path.is_file():
        if os.path.lexists(path):
            raise UsageError(f"{path} is no plain file, and so no checkpoint of rince")
        raise MissingFile(f"{path.parent} has no checkpoint yet: it was stopped before its first one")
    try:
        with zipfile.ZipFile(path) as archive:
            whole = all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
            if not whole or archive.testzip() is not None:
                raise UsageError(f"{path} is damaged: its checksums do not match")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path} was refused: it holds more than weights") from error
    except UsageError:
        raise
    except Exception as error:  # there is no end to what a damaged archive provokes
        raise UsageError(f"{path} is damaged, or no checkpoint of rince ({type(error).__name__})") from error
    if not isinstance(state, dict) or not all(name in state for name in NEEDED) or not _plausible(state):
        raise UsageError(f"{path} is no checkpoint of rince")
    return state


def _plausible(state: dict[str, Any]) -> bool:
    """Whether steps are numbers and weights have names; what else is wrong shows where it is put to use."""
    steps = (state["global_step"], state["batches_seen"])
    weights = state["state_dict"]
    return (
        all(type(step) is int and 0 <= step < 1 << 62 for step in steps)
        and isinstance(weights, dict)
        and all(isinstance(name, str) for name in weights)
        and all(isinstance(state.get(name, ""), str) for name in ("data_fingerprint", "settings_fingerprint"))
    )


def _whole(state: dict[str, Any]) -> bool:
    """Whether there is an optimizer's state and a place in the loop, without which Lightning starts them anew."""
    loops = state.get("loops")
    place = loops.get("fit_loop") if isinstance(loops, dict) else None
    optimizers = state.get("optimizer_states")
    if not isinstance(place, dict) or not isinstance(optimizers, list) or not optimizers:
        return False
    counted = place.get("epoch_progress")
    counts = [each for each in counted.values() if isinstance(each, dict)] if isinstance(counted, dict) else []
    return bool(counts) and all(type(n) is int and n >= 0 for each in counts for n in each.values())


def count_epoch(state: dict[str, Any]) -> None:
    """Count the epoch that a checkpoint was written in.

    Lightning does not count the next epoch as begun when it goes on from the end of one. Going on again from a
    checkpoint of that run, it would take the epoch for one that has yet to begin, and repeat it.
    """
    loop = state["loops"]["fit_loop"]
    batches = loop["epoch_loop.batch_progress"]["current"]
    if batches["completed"] >= batches["processed"]:
        return  # written at the end of training
    for counts in (loop["epoch_progress"]["current"], loop["epoch_progress"]["total"]):
        counts["processed"] = counts["completed"]
        counts["ready"] = counts["started"] = counts["completed"] + 1


def while_restoring(error: BaseException) -> bool:
    """Whether an error arose while Lightning put the content of a checkpoint to use."""
    frame = error.__traceback__
    while frame is not None:
        if str(frame.tb_frame.f_globals.get("__name__")).endswith("connectors.checkpoint_connector"):
            return True
        frame = frame.tb_next
    return False


def latest(folder: RunFolder, settings: str = "") -> tuple[Path, dict[str, Any]] | None:
    """The checkpoint to go on from: the last one or, with a warning, the one before it; None where there is none.

    ``settings`` are those of the run, by their ``settings_code``; a checkpoint of others is of another run.
    """
    known = [path for path in (folder.checkpoint, folder.previous) if os.path.lexists(path)]
    problems: list[str] = []
    for path in known:
        try:
            state = read_checkpoint(path)
            if not _whole(state):
                raise UsageError(
                    f"{path} lacks the state of the optimizer or of the loop, so it cannot be gone on from"
                )
            if settings and state.get("settings_fingerprint", settings) != settings:
                raise UsageError(f"{path} is of a run with other settings")
        except UsageError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(f"{problems[0]}; going on from {path.name}, written at step {state['global_step']}")
        return path, state
    if problems:
        raise UsageError(f"{problems[0]}: put a whole copy in its place, or delete {folder.path} to start anew")
    return None


class SaveCheckpoints(Callback):
    """Writes ``folder.checkpoint`` every so many steps and at the end. Killed at any moment, the last one stays."""

    def __init__(self, folder: RunFolder, every: int, fingerprint: str, settings: str = ""):
        if every < 1:
            raise UsageError(f"checkpoint_every must be at least 1 step, got {every}")
        self.folder, self.every, self.fingerprint, self.settings = folder, every, fingerprint, settings
        self.saved = -1

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["data_fingerprint"] = self.fingerprint
        checkpoint["settings_fingerprint"] = self.settings

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # Between two accumulated batches the gradient so far would be lost, so only whole steps are saved.
        step = trainer.global_step
        if step != self.saved and step % self.every == 0 and not trainer.fit_loop._should_accumulate():
            # Lightning logs a step only after this: killed in between, a resumed run would lack that line for good.
            trainer._logger_connector.update_train_step_metrics()
            self.save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        self.saved = trainer.global_step
        if trainer.is_global_zero:
            self.folder.check_still_there()
        trainer.save_checkpoint(self.folder.checkpoint)
        trainer.strategy.barrier("checkpoint")


def _first_line(error: BaseException) -> str:
    """What the system said, where torch hides it behind a word of its own on positions in files."""
    if not isinstance(error, OSError) and isinstance(error.__context__, OSError):
        return str(error.__context__)
    return (str(error).strip() or type(error).__name__).splitlines()[0]
