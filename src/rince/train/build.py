"""From a configuration to the objects it describes, and to the trainer that drives them."""

import contextlib
import contextvars
import functools
import logging
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from rince._support.command_errors import innermost_module
from rince.data.module import DataModule
from rince.errors import UsageError
from rince.methods.method import Method
from rince.train.processes import check_processes

# Lightning's notes on what is meant to be so.
NOTES = (
    ".*dataloader is not resumable.*",
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*Checkpoint directory.*",
    ".*GPU available but not used.*",
    ".*treespec, LeafSpec.*",
    ".*Found .* module.* in eval mode.*",
    ".*but have no `validation_step`.*",
)

# One of these is set where something has started the processes of several nodes, or the user has.
LAUNCHERS: tuple[str, ...] = (
    "MASTER_ADDR",
    "NODE_RANK",
    "GROUP_RANK",
    "TORCHELASTIC_RUN_ID",
    "SLURM_NTASKS",
    "LSB_JOBID",
    "PMI_RANK",
)
LAUNCHERS += ("OMPI_COMM_WORLD_RANK", "KUBERNETES_PORT", "XRT_TPU_CONFIG")

# The least that a number of the trainer may be.
LEAST = {"max_epochs": -1, "max_steps": -1, "accumulate_grad_batches": 1, "num_nodes": 1, "gradient_clip_val": 0}

# Strategies of notebooks: their processes end with the training, and take what is needed after it with them.
PASSING = r"ddp_(fork|notebook|spawn).*|.*start_method='(fork|forkserver|spawn)'.*"

_failures: contextvars.ContextVar[list[Exception] | None] = contextvars.ContextVar("failures", default=None)


class Parts(NamedTuple):
    """A method with its encoder, loss, views and optimizer, the data, and the options of the trainer."""

    method: Method
    data: DataModule
    trainer: dict[str, Any]


def build(parser: Any, config: Any) -> Parts:
    """The objects of a run, with weights as the seed draws them. Nothing is read and nothing written."""
    if not 0 <= config.seed < 2**32:
        raise UsageError(f"seed must lie between 0 and {2**32 - 1}, got {config.seed}")
    seed_everything(config.seed, verbose=False)
    if config.get("data") is None:
        raise UsageError("the configuration names no data: set data, such as rince.data.DigitImages")
    parts = instantiate(parser, config)
    method = parts.method(parts.encoder, parts.loss, parts.views, parts.optimiser)
    data = parts.data
    method.seed = data.seed = config.seed
    data.pairing = method.pairing
    return Parts(method, data, dict(parts.trainer))


def instantiate(parser: Any, config: Any) -> Any:
    """The objects that the configuration describes.

    Raises:
        UsageError: For values that rince's own constructors, or torch's, refuse.
        Exception: Whatever a constructor of the user's raises, as it was raised.
    """
    _register()
    failures: list[Exception] = []
    token = _failures.set(failures)
    try:
        return parser.instantiate(config)
    except Exception:
        # jsonargparse tries every kind that an argument may have, and tells of all of them; the constructor knows best.
        if failures:
            raise failures[0] from None
        raise
    finally:
        _failures.reset(token)


@functools.cache
def _register() -> None:
    """Have jsonargparse call constructors through ``_construct``, once."""
    from jsonargparse import add_instantiator

    add_instantiator(_construct, object)


def _construct(kind: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return kind(*args, **kwargs)
    except Exception as error:
        raised: Exception = error
        if not isinstance(error, UsageError) and innermost_module(error).split(".")[0] == "torch":
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raised = UsageError(f"{kind.__name__} cannot be built with these values: {line}")
            raised.__cause__ = error
        if (failures := _failures.get()) is not None:
            failures.append(raised)
        raise raised from raised.__cause__


def make_trainer(options: dict[str, Any], callbacks: list[Any], loggers: list[Any], plugins: list[Any]) -> Trainer:
    """Lightning's trainer with the user's options and what every run of rince adds to them."""
    check_trainer(options)
    given = [logger for logger in as_list(options.pop("logger", None)) if not isinstance(logger, bool)]
    callbacks = [*as_list(options.pop("callbacks", None)), *callbacks]
    plugins = [*as_list(options.pop("plugins", None)), *plugins]
    try:
        return Trainer(
            **options,
            callbacks=callbacks,
            logger=[*loggers, *given],
            plugins=plugins,
            enable_checkpointing=False,
            use_distributed_sampler=False,
        )
    except (MisconfigurationException, ValueError, TypeError, RuntimeError, ImportError) as error:
        raise UsageError(f"trainer: {' '.join(str(error).split())}") from error


def check_trainer(options: dict[str, Any]) -> None:
    """Refuse what Lightning would take, and then train for ever, never, or wait for ever."""
    epochs, steps = options.get("max_epochs"), options.get("max_steps", -1)
    if epochs == -1 and steps == -1:
        raise UsageError("trainer.max_epochs = -1 trains without end: set trainer.max_steps, or a number of epochs")
    for name, least in LEAST.items():
        value = options.get(name)
        if isinstance(value, int | float) and value < least:
            raise UsageError(f"trainer.{name} must be at least {least}, got {value}")
    check_length(options)
    if options.get("barebones"):
        raise UsageError("trainer.barebones must be false: it leaves out the metrics and checkpoints of a run")
    if (options.get("num_nodes") or 1) > 1 and not any(name in os.environ for name in LAUNCHERS):
        raise UsageError(
            f"trainer.num_nodes is {options['num_nodes']}, but nothing says which node this is and where the others "
            "are, so it would wait for them for ever: start it with torchrun or SLURM, or set MASTER_ADDR and NODE_RANK"
        )
    if re.fullmatch(PASSING, str(options.get("strategy")), re.DOTALL):
        raise UsageError(
            "trainer.strategy must not fork or spawn its processes, which end before the run is evaluated and saved, "
            f"got {str(options['strategy'])[:200]}: take ddp, or leave it out"
        )
    devices = options.get("devices")
    if isinstance(devices, str) and re.fullmatch(r"-?[0-9]+", devices):
        if len(devices) > 9:
            raise UsageError(f"trainer.devices must be a number of devices, got one of {len(devices)} digits")
        devices = int(devices)
    if isinstance(devices, int) and devices != -1 and devices < 1:
        raise UsageError(f"trainer.devices must be at least 1, got {devices}")
    most = max(4, os.cpu_count() or 1)
    if options.get("accelerator") in ("cpu", "auto") and isinstance(devices, int) and devices > most:
        import torch

        if options["accelerator"] == "cpu" or not torch.cuda.is_available():
            raise UsageError(
                f"trainer.devices asks for {devices} processes on the CPU, and this machine has {os.cpu_count()} "
                f"cores: ask for at most {most}"
            )
    check_processes(options)


def check_length(options: dict[str, Any]) -> None:
    """Refuse a training of no steps, and one that has to be longer than it may be."""
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if isinstance(value := options.get(name), int | float) and value == 0:
            raise UsageError(f"trainer.{name} is {value:g}, so nothing would be learned: set it to 1 or more")
    for what in ("epochs", "steps"):
        least, most = options.get(f"min_{what}"), options.get(f"max_{what}")
        if least is not None and most is not None and 0 < most < least:
            raise UsageError(
                f"trainer.min_{what} must be at most trainer.max_{what}, which is {most}, got {least}: lower it, or "
                f"raise trainer.max_{what}"
            )


def check_rate(optimiser: Any) -> None:
    """Refuse a learning rate of 0 in the settings of an optimizer, which no schedule raises; torch refuses less."""
    rate = (optimiser.get("init_args") or {}).get("lr")
    if isinstance(rate, int | float) and rate == 0:
        raise UsageError(f"optimiser.lr must be more than 0, got {rate:g}: nothing would be learned")


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's notes on what is meant to be so; afterwards it says what it said before."""
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for note in NOTES:
                warnings.filterwarnings("ignore", note)
            yield
    finally:
        logger.setLevel(before)
