"""From a configuration to a run folder, once, however often it is interrupted."""

import contextlib
import re
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
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
from rince.train.about import about, recipe_of
from rince.train.build import Parts, build, check_rate, check_trainer, make_trainer, quiet
from rince.train.callbacks.end_together import EndTogether
from rince.train.callbacks.shape_check import FirstBatch
from rince.train.checkpoints import SaveCheckpoints, WholeFiles, latest, while_restoring
from rince.train.folder import RunFolder, settings_code
from rince.train.metrics import MetricsTable
from rince.train.processes import settle_rank
from rince.train.shipped import short_name
from rince.train.trust.phase import Phase, trust_phase
from rince.views.views import Views

Begin = Callable[[Any], None]
Conclude = Callable[[Any, Any, Any], dict[str, Any]]


def run(
    parser: Any,
    config: Any,
    path: Path | None = None,
    begin: Begin | None = None,
    conclude: Conclude | None = None,
    phase: Phase | None = None,
) -> dict[str, Any] | None:
    """Train, or go on training, what the configuration describes. Only the first process returns a result.

    Args:
        parser: What the configuration was parsed with.
        config: The configuration.
        path: The run's folder; by default the name, in the folder of all runs.
        begin: Called with the method before the first step of a run that starts anew.
        conclude: Called with trainer, method and data after the last step, in all processes; what it returns belongs to
            the result.
        phase: What is done about the trust in pairs; by default what the configuration says.

    Raises:
        UsageError: For a finished run, a run of other settings or data, and whatever else the user got wrong.
    """
    check_trainer(dict(config.trainer))
    check_rate(config.optimiser)
    settle_rank(dict(config.trainer))
    folder = RunFolder(path or checked_out(config.out) / checked_name(config.name or run_name(config)))
    try:
        text = parser.dump(config)
    except ValueError as error:  # a number of more digits than Python writes
        raise UsageError(f"the settings cannot be written down: {error}") from error
    folder.check(values_of(text))
    started = time.time()
    with quiet():
        parts = _checked_parts(parser, config)  # before anything is written
        with locked(folder.path) if rank_zero_only.rank == 0 else contextlib.nullcontext():
            phase = phase or trust_phase(parser, config, folder, text, parts.data)
            trainer = _fit(parts, config, folder, text, begin, phase)
            concluded = {} if conclude is None else conclude(trainer, parts.method, parts.data)
            if not trainer.is_global_zero:
                return None
            concluded = {**concluded, **phase.record(trainer.global_step)}
            return _finish(parts, config, folder, trainer, concluded, time.time() - started)


def _checked_parts(parser: Any, config: Any) -> Parts:
    """The objects of a run that can be trained. What they warn of is told only where nothing is refused."""
    with warnings.catch_warnings(record=True) as noted:
        parts = build(parser, config)
    parts.method.check()
    if isinstance(parts.method.loss, ContrastiveLoss):
        kind = torch.float64 if "64" in str(parts.trainer.get("precision")) else torch.float32
        parts.method.loss.check_embeddings(torch.zeros(1, 1, dtype=kind))
    for each in noted:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return parts


def _fit(parts: Parts, config: Any, folder: RunFolder, text: str, begin: Begin | None, phase: Phase) -> Trainer:
    method, data, options = parts
    data.check_views(method.views)
    data.folder = folder.path
    data.prepare_data()
    data.setup("fit")
    resume: Path | None = None
    state: dict[str, Any] = {"global_step": 0}
    settings = settings_code(values_of(text))
    if (found := latest(folder, settings)) is not None:
        resume, state = found
    fingerprint = data.fingerprint()
    _check_same_data(folder, fingerprint, state.get("data_fingerprint", ""))
    phase.prepare(data, method)
    table, first_batch = MetricsTable(folder.metrics), FirstBatch()
    probe = [OnlineProbe(data.classes)] if config.probe and data.classes else []
    callbacks = [*probe, SaveCheckpoints(folder, config.checkpoint_every, fingerprint, settings), first_batch]
    together = EndTogether()
    callbacks += [*phase.callbacks(resume is None), together]
    trainer = make_trainer(options | {"default_root_dir": folder.path}, callbacks, [table], [WholeFiles()])
    if begin is not None and resume is None:
        begin(method)
    if trainer.is_global_zero:
        folder.start(text, data.noise_record())
        table.go_back(int(state["global_step"]))
    try:
        with together:
            trainer.fit(method, datamodule=data, ckpt_path=resume)
    except Terminated:
        raise
    except SIGTERMException:  # Lightning's word for the same, which would end with 0
        raise Terminated from None
    except SystemExit as stop:  # its word for an interrupt from the keyboard, and rich's for output nobody reads
        if isinstance(stop.__context__, KeyboardInterrupt | BrokenPipeError):
            raise stop.__context__ from None
        raise
    except (UsageError, OSError):  # sentences already
        raise
    except Exception as error:
        if isinstance(error, MisconfigurationException):
            raise UsageError(_of_trainer(error)) from error
        if resume is not None and while_restoring(error):
            raise UsageError(
                f"{resume} cannot be gone on from ({type(error).__name__}): it is damaged, or of another version of "
                f"what it was written by; put a whole copy in its place, or delete {folder.path} to start anew"
            ) from error
        if innermost_module(error).startswith("torch.optim."):
            raise UsageError(f"the optimizer refuses to take a step: {' '.join(str(error).split())}") from error
        sentence = first_batch.problem(trainer, method, data)
        if sentence is None and innermost_module(error).startswith("lightning."):
            sentence = _of_trainer(error)
        if sentence is None:
            raise
        raise UsageError(sentence) from error
    return trainer


def _of_trainer(error: Exception) -> str:
    """What Lightning refuses, with the callback of its own that it is about, if it is about one."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    owners = [frame.f_locals.get("self") for frame in frames]
    names = [type(one).__name__ for one in owners if isinstance(one, Callback) and "lightning." in type(one).__module__]
    where = f"trainer.callbacks ({names[0]})" if names else "trainer"
    return f"{where}: {' '.join(str(error).split()) or type(error).__name__}"


def _finish(
    parts: Parts, config: Any, folder: RunFolder, trainer: Trainer, concluded: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """The encoder's file and the result, which says that the run is finished."""
    method, data, _ = parts
    folder.check_still_there()
    save_encoder(folder.encoder, method.encoder, recipe_of(config.encoder), about(method, data, config))
    result = {
        "run": str(folder.path),
        "method": type(method).__name__,
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        **{name: float(value) for name, value in trainer.logged_metrics.items()},
        **concluded,
        "seconds": seconds,
    }
    result.setdefault("loss", None)  # a run resumed after its last step has none to tell
    if isinstance(method.views, Views) and (record := method.views.noise_record()):
        result["noise_in_views"] = record
    folder.finish(result)
    return result


def _check_same_data(folder: RunFolder, now: str, before: str) -> None:
    if before and now and before != now:
        raise UsageError(
            f"{folder.path} was started with other data: put them back to resume it, or choose another --name"
        )


def run_name(config: Any) -> str:
    """digits-simclr for digits/simclr of rince, mine for my/own/mine.yaml; without a file, the method's name."""
    files = config.get("config") or []
    if not files:
        return str(config.method.class_path).rsplit(".", 1)[-1].lower()
    ours = short_name(Path(files[0]))
    return ours.replace("/", "-") if ours else Path(files[0]).stem


def checked_out(out: str) -> Path:
    """The folder of all runs, as it is meant to be called."""
    _check_variables("out", out)
    return check_local(out)


def _check_variables(option: str, text: str) -> None:
    if text.startswith("$") or "${" in text:
        raise UsageError(f"{option} must be spelt out, got {text}: variables are not expanded in a file or in quotes")


def checked_name(name: str) -> str:
    """A name that stays within the folder of all runs."""
    _check_variables("name", name)
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or re.search(r"[\x00-\x1f]", name):
        raise UsageError(f"name must be that of a folder below --out, got {name!r}")
    return name


def values_of(text: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(text)
