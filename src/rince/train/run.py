"""From a configuration to a finished run folder, however often the run is interrupted.

``prepared`` checks a configuration, builds its objects and locks the run folder; ``train`` trains them, or resumes the
training. Weights of pairs are estimated between the two, see ``rince.train.weights``.
"""

import contextlib
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException

from rince._support.command_errors import innermost_module
from rince._support.command_options import check_local
from rince._support.folder_lock import locked
from rince._support.signals import Terminated
from rince.encoders.files import save_encoder
from rince.errors import UsageError
from rince.evaluate.online import OnlineProbe
from rince.losses import ContrastiveLoss
from rince.train.checkpoints import SaveCheckpoints, WholeFiles, latest, while_restoring
from rince.train.config import Parts, build
from rince.train.metrics import MetricsTable
from rince.train.run_folder import RunFolder, settings_code
from rince.train.shape_check import shape_problem
from rince.train.short_names import short_name
from rince.train.trainer import EndTogether, check_trainer, make_trainer, quiet, set_rank
from rince.views.views import Views


class Job(NamedTuple):
    """A checked run: its parser and configuration, its folder, its objects, and the settings as YAML."""

    parser: Any
    config: Any
    folder: RunFolder
    parts: Parts
    text: str

    @property
    def settings(self) -> dict[str, Any]:
        return nested_settings(self.text)


class RunHooks(Callback):
    """Lightning callback with hooks around the training, such as for weights of pairs. The base class does nothing."""

    def prepare(self, method: Any, data: Any) -> None:
        """Pass weights, or a selection of pairs, to the data. Called after its setup, also in a resumed run."""

    def begin(self, method: Any) -> None:
        """Load weights into the method. Called before the first step of a new run."""

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Entries for result.json. Called after the last step, on all ranks."""
        return {}


def run(parser: Any, config: Any, path: Path | None = None, hooks: RunHooks | None = None) -> dict[str, Any] | None:
    """``prepared`` and ``train`` in one call."""
    with prepared(parser, config, path) as job:
        return train(job, hooks)


@contextlib.contextmanager
def prepared(parser: Any, config: Any, path: Path | None = None) -> Iterator[Job]:
    """Check a configuration, build its objects, and lock the run folder.

    Args:
        parser: Parser of the configuration.
        config: Parsed configuration.
        path: Run folder. Default: ``config.out / config.name``.

    Raises:
        UsageError: For a finished run, a run with other settings, or a mistake in the configuration. Nothing has been
            written then.
    """
    check_trainer(dict(config.trainer))
    set_rank(dict(config.trainer))
    folder = RunFolder(path or checked_out(config.out) / checked_name(config.name or run_name(config)))
    text = parser.dump(config)
    folder.check(nested_settings(text))
    with quiet():
        parts = _checked_parts(parser, config)
        with locked(folder.path) if rank_zero_only.rank == 0 else contextlib.nullcontext():
            yield Job(parser, config, folder, parts, text)


def train(job: Job, hooks: RunHooks | None = None) -> dict[str, Any] | None:
    """Train a prepared run, or resume it from its last checkpoint.

    Args:
        job: The prepared run.
        hooks: Additions to the training.

    Returns:
        The content of result.json on rank 0, None on other ranks.

    Raises:
        UsageError: If the data has changed since the run was started, or a value turns out to be wrong in training.
    """
    start = time.time()
    hooks = hooks or RunHooks()
    trainer = _fit(job, hooks)
    concluded = hooks.conclude(trainer, job.parts.method, job.parts.data)
    return _finish(job, trainer, concluded, time.time() - start) if trainer.is_global_zero else None


def _checked_parts(parser: Any, config: Any) -> Parts:
    """Objects of a run that can be trained. Their warnings are shown only if nothing is rejected."""
    with warnings.catch_warnings(record=True) as noted:
        parts = build(parser, config)
    parts.method.check()
    if isinstance(parts.method.loss, ContrastiveLoss):
        kind = torch.float64 if "64" in str(parts.trainer.get("precision")) else torch.float32
        parts.method.loss.check_embeddings(torch.zeros(1, 1, dtype=kind))
    for warning in noted:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return parts


def _fit(job: Job, hooks: RunHooks) -> Trainer:
    (method, data, options), config, folder = job.parts, job.config, job.folder
    data.check_views(method.views)
    data.folder = folder.path
    data.prepare_data()
    data.setup("fit")
    settings = settings_code(job.settings)
    resume, state = latest(folder, settings) or (None, {"global_step": 0})
    fingerprint = data.fingerprint()
    before = state.get("data_fingerprint", "")
    if before and fingerprint and before != fingerprint:
        raise UsageError(f"{folder.path} was started with other data: restore it to resume, or choose another --name")
    hooks.prepare(method, data)
    table, together = MetricsTable(folder.metrics), EndTogether()
    checkpoints = SaveCheckpoints(folder, config.checkpoint_every, fingerprint, settings)
    probe = [OnlineProbe(data.classes)] if config.probe and data.classes else []
    callbacks = [*probe, hooks, together, checkpoints]
    trainer = make_trainer(options | {"default_root_dir": folder.path}, callbacks, [table], [WholeFiles()])
    if resume is None:
        hooks.begin(method)
    if trainer.is_global_zero:
        folder.start(job.text, data.noise_record())
        table.drop_from(int(state["global_step"]))
    try:
        with together:
            trainer.fit(method, datamodule=data, ckpt_path=resume)
    except (KeyboardInterrupt, Terminated, SIGTERMException, SystemExit) as stop:
        _raise_stop(stop, folder)
    except (UsageError, OSError):  # one sentence already
        raise
    except Exception as error:
        if checkpoints.received is not None:  # workers of the loader end with the same signal
            _raise_stop(Terminated() if checkpoints.received == signal.SIGTERM else KeyboardInterrupt(), folder)
        if isinstance(error, MisconfigurationException):
            raise UsageError(_trainer_error(error)) from error
        if resume is not None and while_restoring(error):
            raise UsageError(
                f"{resume} cannot be resumed ({type(error).__name__}): it is corrupt or from an incompatible version; "
                f"restore it from a copy, or delete {folder.path} to start over"
            ) from error
        if innermost_module(error).startswith("torch.optim."):
            raise UsageError(f"the optimizer rejects a step: {' '.join(str(error).split())}") from error
        first = trainer.global_step == int(state["global_step"])
        sentence = shape_problem(method, data) if first else None
        if sentence is None and innermost_module(error).startswith("lightning."):
            sentence = _trainer_error(error)
        if sentence is None:
            raise
        raise UsageError(sentence) from error
    return trainer


def _raise_stop(stop: BaseException, folder: RunFolder) -> None:
    """Raise an interrupt or termination again, with a sentence about what was saved."""
    if type(stop) is SystemExit:  # Lightning's exit after an interrupt, and rich's after a closed output
        if not isinstance(stop.__context__, KeyboardInterrupt | BrokenPipeError):
            raise stop
        stop = stop.__context__
    if isinstance(stop, BrokenPipeError):
        raise stop from None
    try:
        saved = latest(folder)
    except UsageError:
        saved = None
    message = "nothing was saved yet: the same command starts over"
    if saved is not None:
        message = f"saved at step {saved[1]['global_step']}: the same command resumes the run"
    if isinstance(stop, KeyboardInterrupt):
        raise KeyboardInterrupt(message) from None
    raise Terminated(message) from None


def _trainer_error(error: Exception) -> str:
    """Message of an error in Lightning, with the callback of Lightning that raised it, if any."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    owners = [frame.f_locals.get("self") for frame in frames]
    names = [
        type(owner).__name__
        for owner in owners
        if isinstance(owner, Callback) and "lightning." in type(owner).__module__
    ]
    where = f"trainer.callbacks ({names[0]})" if names else "trainer"
    return f"{where}: {' '.join(str(error).split()) or type(error).__name__}"


def _finish(job: Job, trainer: Trainer, concluded: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Write encoder.safetensors and result.json, which marks the run as finished."""
    (method, data, _), config, folder = job.parts, job.config, job.folder
    folder.check_still_there()
    check_finite(method, folder)
    metadata = encoder_metadata(method, data, config)
    save_encoder(folder.encoder, method.encoder, encoder_recipe(config.encoder), metadata)
    result = {
        "run": str(folder.path),
        "method": type(method).__name__,
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        **{name: float(value) for name, value in trainer.logged_metrics.items()},
        **concluded,
        "seconds": seconds,
    }
    result.setdefault("loss", None)  # for a run resumed after its last step
    if isinstance(method.views, Views) and (record := method.views.noise_record()):
        result["noise_in_views"] = record
    folder.finish(result)
    return result


def encoder_recipe(part: Any) -> dict[str, Any]:
    """``class_path`` and ``init_args`` of a part and of the parts within it, as plain values."""
    return {"class_path": part.class_path, "init_args": plain_values(part.get("init_args") or {})}


def plain_values(value: Any) -> Any:
    """Configuration values as JSON can hold them; functions by their import path."""
    from jsonargparse import Namespace

    if isinstance(value, Namespace):
        value = value.as_dict()
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return [plain_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def encoder_metadata(method: Any, data: Any, config: Any) -> dict[str, Any]:
    """Metadata of an encoder: versions, training loss and weights, data, and input normalization."""
    from rince import __version__
    from rince.views.views import about_views

    trust = config.get("trust")
    return {
        "rince": __version__,
        "method": type(method).__name__,
        "loss": {"name": type(method.loss).__name__, **plain_values(config.loss.get("init_args") or {})},
        "weights": None if trust is None or trust.source is None else plain_values(trust),
        "data": type(data).__name__,
        "normalize": about_views(method.views),
    }


def check_finite(method: Any, folder: RunFolder) -> None:
    """Reject weights that hold NaN or infinity: the run is not marked as finished."""
    values = {**dict(method.named_parameters()), **{f"encoder.{n}": b for n, b in method.encoder.named_buffers()}}
    broken = [name for name, value in values.items() if not bool(value.isfinite().all())]
    if broken:
        others = f" and {len(broken) - 1} others" if len(broken) > 1 else ""
        raise UsageError(
            f"{folder.path}: weights are not finite after the last step ({broken[0]}{others}): lower optimizer.lr, or "
            "set trainer.precision 32-true, and choose another --name"
        )


def run_name(config: Any) -> str:
    """digits-simclr for the configuration digits/simclr, mine for my/own/mine.yaml, else the method's name."""
    files = config.get("config") or []
    if not files:
        return str(config.method.class_path).rsplit(".", 1)[-1].lower()
    builtin = short_name(Path(files[0]))
    return builtin.replace("/", "-") if builtin else Path(files[0]).stem


def checked_out(out: str) -> Path:
    """Folder of all runs."""
    _check_variables("out", out)
    return check_local(out)


def _check_variables(option: str, text: str) -> None:
    if text.startswith("$") or "${" in text:
        raise UsageError(f"{option} must not contain variables, got {text}: they are not expanded in files and quotes")


def checked_name(name: str) -> str:
    """Name of a run, which stays within the folder of all runs."""
    _check_variables("name", name)
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise UsageError(f"name must be a folder below --out, got {name!r}")
    return name


def nested_settings(text: str) -> dict[str, Any]:
    """Nested values of a configuration in YAML."""
    values: dict[str, Any] = yaml.safe_load(text)
    return values
