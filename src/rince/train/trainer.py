"""Lightning's trainer for a run: its options, the processes it runs in, and how they end."""

import contextlib
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from rince._support.progress import Progress
from rince._support.signals import Children, is_main_rank
from rince.errors import MissingExtra, UsageError

# Notes of Lightning on things that are intended here.
IGNORED_NOTES = (
    ".*dataloader is not resumable.*",
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*Checkpoint directory.*",
    ".*GPU available but not used.*",
    ".*treespec, LeafSpec.*",
    ".*Found .* module.* in eval mode.*",
    ".*but have no `validation_step`.*",
)

# One of these is set if a launcher or the user has started the processes of several nodes.
LAUNCHERS = (
    *("MASTER_ADDR", "NODE_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "LSB_JOBID", "PMI_RANK"),
    *("OMPI_COMM_WORLD_RANK", "KUBERNETES_PORT", "XRT_TPU_CONFIG"),
)
# Launchers whose rank variables only Lightning knows.
OTHER_LAUNCHERS = ("LSB_JOBID", "JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

# Strategies for notebooks: their processes end with the training, before the run is evaluated and saved.
SHORT_LIVED = r"ddp_(fork|notebook|spawn).*|.*start_method='(fork|forkserver|spawn)'.*"

RESUME_HINT = "the same command resumes the run"


def make_trainer(options: dict[str, Any], callbacks: list[Any], loggers: list[Any], plugins: list[Any]) -> Trainer:
    """Lightning's trainer with the user's options and the callbacks, loggers and plugins of every run."""
    user_loggers = as_list(options.pop("logger", None))
    if True in user_loggers:
        loggers = [*loggers, tensorboard(Path(options.get("default_root_dir") or "."))]
    user_loggers = [logger for logger in user_loggers if not isinstance(logger, bool)]
    callbacks = [*as_list(options.pop("callbacks", None)), *callbacks]
    if options.get("enable_progress_bar") is None:  # no progress bar in logs of batch jobs unless requested
        options["enable_progress_bar"] = sys.stderr is not None and sys.stderr.isatty()
    if options["enable_progress_bar"] and not any(isinstance(callback, ProgressBar) for callback in callbacks):
        callbacks.append(StepProgress())
    plugins = [*as_list(options.pop("plugins", None)), *plugins]
    try:
        return Trainer(
            **options,
            callbacks=callbacks,
            logger=[*loggers, *user_loggers],
            plugins=plugins,
            enable_checkpointing=False,
            use_distributed_sampler=False,
        )
    except (MisconfigurationException, ValueError, TypeError, RuntimeError, ImportError) as error:
        raise UsageError(f"trainer: {' '.join(str(error).split())}") from error


def tensorboard(folder: Path) -> Logger:
    """Logger of ``--trainer.logger true``: TensorBoard's files in a run folder."""
    from lightning.pytorch.loggers import TensorBoardLogger

    try:
        return TensorBoardLogger(folder, name="", version="tensorboard")
    except ModuleNotFoundError as error:
        raise MissingExtra("trainer.logger true needs TensorBoard: pip install tensorboard") from error


class StepProgress(ProgressBar):
    """One line with the epoch, the steps of the whole training, their rate and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: Progress | None = None

    def disable(self) -> None:
        """Show nothing; Lightning calls it on all ranks but the first."""
        self.progress = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            steps = trainer.estimated_stepping_batches
            total = int(steps) if steps != float("inf") else None
            self.progress = Progress("training", total, show=True, done=trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.progress is not None:
            epochs = trainer.max_epochs
            of = f" of {epochs}" if epochs is not None and epochs > 0 else ""
            self.progress.update(trainer.global_step, f"epoch {trainer.current_epoch + 1}{of}, steps")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.progress is not None:
            self.progress.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def check_trainer(options: dict[str, Any]) -> None:
    """Reject options with which Lightning would train forever, not at all, or wait forever for other processes."""
    if options.get("max_epochs") == -1 and options.get("max_steps", -1) == -1:
        raise UsageError("trainer.max_epochs = -1 trains without end: set trainer.max_steps, or a number of epochs")
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if (value := options.get(name)) is not None and value == 0:
            raise UsageError(f"trainer.{name} must be at least 1, got {value:g}: nothing would be learned")
    cores = os.cpu_count() or 1
    devices = num_processes({**options, "num_nodes": 1})
    if options.get("accelerator") == "cpu" and devices is not None and not 1 <= devices <= max(4, cores):
        raise UsageError(f"trainer.devices must be in [1, {max(4, cores)}] on this CPU of {cores} cores, got {devices}")
    if (options.get("num_nodes") or 1) > 1 and not any(name in os.environ for name in LAUNCHERS):
        raise UsageError(
            f"trainer.num_nodes is {options['num_nodes']}, but no launcher has started the other nodes: use torchrun "
            "or SLURM, or set MASTER_ADDR and NODE_RANK"
        )
    if re.fullmatch(SHORT_LIVED, str(options.get("strategy")), re.DOTALL):
        raise UsageError(
            f"trainer.strategy must not fork or spawn processes, got {str(options['strategy'])[:200]}: use ddp, or "
            "leave it out"
        )
    check_processes(options)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence notes of Lightning on things that are intended here."""
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for note in IGNORED_NOTES:
                warnings.filterwarnings("ignore", note)
            yield
    finally:
        logger.setLevel(before)


def check_processes(options: dict[str, Any]) -> None:
    """Reject a number of processes other than the launcher has started: each would train alone, or wait forever.

    A SLURM shell (a job called bash or interactive) has started none, whatever its number of tasks.
    """
    requested = num_processes(options)
    if requested is None or _has_own_environment(options):
        return
    if _by_torchrun():
        _compare("WORLD_SIZE", _number("WORLD_SIZE", 1), requested, _number("LOCAL_WORLD_SIZE", 0), "start as many")
    elif _by_slurm():
        tasks = _number("SLURM_NTASKS", 1)
        per_node = _number("SLURM_NTASKS_PER_NODE", tasks // max(1, _number("SLURM_NNODES", 1)))
        otherwise = "set SLURM_JOB_NAME=interactive to run a single process" if requested == 1 else "start as many"
        _compare("SLURM_NTASKS", tasks, requested, per_node, otherwise)
    elif requested == 1 and "RANK" in os.environ:  # without RANK, WORLD_SIZE may count something else
        _compare("WORLD_SIZE", _number("WORLD_SIZE", 1), requested, 0, "unset it to run a single process")


def set_rank(options: dict[str, Any]) -> None:
    """Set the rank of this process before Lightning does: rank 0 locks the run folder and writes.

    Lightning takes the rank from any variable it finds, even in a process that is a separate run.
    """
    requested = num_processes(options)
    if requested is None or _has_own_environment(options):
        return
    if requested == 1:
        rank_zero_only.rank = 0
    elif _by_torchrun():
        rank_zero_only.rank = _number("RANK", 0)
    elif _by_slurm():
        rank_zero_only.rank = _number("SLURM_PROCID", 0)
    elif not any(name in os.environ for name in OTHER_LAUNCHERS):
        node = _number("NODE_RANK", _number("GROUP_RANK", 0))
        rank_zero_only.rank = node * (requested // (options.get("num_nodes") or 1)) + _number("LOCAL_RANK", 0)


def num_processes(options: dict[str, Any]) -> int | None:
    """Number of processes that the options request; ``None`` if only Lightning knows."""
    devices, accelerator = options.get("devices", "auto"), options.get("accelerator", "auto")
    if isinstance(devices, str) and "," in devices:
        devices = [device for device in devices.split(",") if device.strip()]
    if isinstance(devices, str) and re.fullmatch(r"-?[0-9]+", devices.strip()):
        devices = int(devices)
    if isinstance(devices, list | tuple):
        devices = len(devices)
    elif devices in (None, "auto", -1):
        devices = _all_devices(accelerator)
    nodes = options.get("num_nodes") or 1
    return devices * nodes if isinstance(devices, int) and isinstance(nodes, int) else None


def _all_devices(accelerator: Any) -> int | None:
    if accelerator == "cpu":
        return 1
    if accelerator not in ("auto", "gpu", "cuda"):
        return None
    return torch.cuda.device_count() or (1 if accelerator == "auto" else None)


def _compare(variable: str, started: int, requested: int, per_node: int, otherwise: str) -> None:
    if started == requested:
        return
    several = 0 < per_node < started and not started % per_node
    options = f"--trainer.devices {per_node if several else started}"
    options += f" --trainer.num_nodes {started // per_node}" if several else ""
    raise UsageError(
        f"the launcher started {started} processes ({variable}), but trainer.devices x trainer.num_nodes is "
        f"{requested}: pass {options}, or {otherwise}"
    )


def _by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _by_slurm() -> bool:
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def _has_own_environment(options: dict[str, Any]) -> bool:
    """Whether the user passes a cluster environment as a plugin."""
    return "Environment" in str(options.get("plugins"))


def _number(name: str, default: int) -> int:
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        raise UsageError(f"the environment variable {name} must be an integer, got {os.environ[name]!r}") from None


class EndTogether(Callback):
    """Ends all processes of a run on one machine when one of them fails.

    A callback that takes over the processes that Lightning has started, and a context manager around the training.
    Lightning answers SIGTERM with a collective call inside the signal handler, which collides with those of the
    current step, and the death of a process by killing the others without a message.
    """

    def __init__(self) -> None:
        self.children = Children([])
        self.handler: Any = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.handler = signal.getsignal(signal.SIGTERM)
        launcher = trainer.strategy.launcher
        if isinstance(launcher, _SubprocessScriptLauncher):
            self.children = Children(list(launcher.procs))
            launcher.procs.clear()  # otherwise Lightning kills this process when one of them ends
        self.children.watch(lambda failed: print(f"rince: {failed}: {RESUME_HINT}", file=sys.stderr, flush=True))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if callable(self.handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.handler)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            return
        lost = isinstance(error, RuntimeError) and re.search(r"(?i)gloo|nccl|connection (closed|reset)", str(error))
        failed = self.children.failed_soon() if lost else None
        if self.children.processes and torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
            torch.distributed.destroy_process_group()
        self.children.end()
        if failed is not None or (lost and not is_main_rank()):
            raise UsageError(f"{failed or 'this process lost its connection to the others'}: {RESUME_HINT}") from error
