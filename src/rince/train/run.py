"""From a configuration to a run folder, once, however often it is interrupted."""

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from rince.errors import UsageError
from rince.train.folder import RunFolder
from rince.train.parser import instantiate
from rince.train.shipped import short_name


def run(
    parser: Any,
    config: Any,
    path: Path | None = None,
    begin: Callable[[Any], None] | None = None,
    conclude: Callable[[Any, Any, Any], dict[str, Any]] | None = None,
) -> dict[str, Any] | None:
    """Train, or go on training, what the configuration describes. Only the first process returns a result.

    ``path`` is the run's folder, by default the name in the folder of all runs. ``begin(method)`` is called before the
    first step of a run that starts anew, ``conclude(trainer, method, data)`` after the last one, in all processes; what
    it returns belongs to the result.
    """
    from lightning.pytorch.utilities import rank_zero_only

    if config.trainer.max_epochs == -1 and config.trainer.max_steps == -1:
        raise UsageError("trainer.max_epochs = -1 trains without end: set trainer.max_steps, or a number of epochs")
    folder = RunFolder(path or Path(config.out) / (config.name or run_name(config)))
    text = parser.dump(config)
    folder.check(values_of(text))
    first = rank_zero_only.rank == 0
    with folder.locked() if first else contextlib.nullcontext(), _quiet():
        return _train(parser, config, folder, text, begin, conclude)


def _train(
    parser: Any,
    config: Any,
    folder: RunFolder,
    text: str,
    begin: Callable[[Any], None] | None,
    conclude: Callable[[Any, Any, Any], dict[str, Any]] | None,
) -> dict[str, Any] | None:
    from lightning.pytorch import Trainer, seed_everything

    from rince.encoders.files import save_encoder
    from rince.train.callbacks import MetricsTable, WholeCheckpoint
    from rince.train.misfit import FirstBatch

    started = time.time()
    seed_everything(config.seed, verbose=False)
    parts = instantiate(parser, config)
    data = parts.data
    data.seed = config.seed
    method = parts.method(parts.encoder, parts.loss, parts.views, parts.optimiser)
    method.seed = config.seed
    data.pairing = method.pairing
    data.check_views(method.views)
    data.folder = folder.path
    data.prepare_data()
    data.setup("fit")

    table, first_batch = MetricsTable(folder.metrics), FirstBatch()
    options = dict(parts.trainer)
    callbacks = [
        *_as_list(options.pop("callbacks", None)),
        *_probe(config, data),
        WholeCheckpoint(folder.checkpoint, config.checkpoint_every),
        first_batch,
    ]
    loggers = [table, *(logger for logger in _as_list(options.pop("logger", None)) if not isinstance(logger, bool))]
    trainer = Trainer(
        **options,
        callbacks=callbacks,
        logger=loggers,
        default_root_dir=folder.path,
        enable_checkpointing=False,
        use_distributed_sampler=False,
    )
    resume = folder.checkpoint if folder.checkpoint.exists() else None
    if begin is not None and resume is None:
        begin(method)
    if trainer.is_global_zero:
        folder.start(text, data.noise_record())
        state = torch.load(resume, weights_only=True) if resume else {"global_step": 0}
        table.go_back(int(state["global_step"]))
    try:
        trainer.fit(method, datamodule=data, ckpt_path=resume, weights_only=True)
    except (ValueError, OSError, ImportError):  # sentences already
        raise
    except Exception as error:
        if (sentence := first_batch.misfit(trainer, method, data)) is None:
            raise
        raise UsageError(sentence) from error
    if trainer.interrupted:
        raise KeyboardInterrupt
    logged = {name: float(value) for name, value in trainer.logged_metrics.items()}
    concluded = {} if conclude is None else conclude(trainer, method, data)
    if not trainer.is_global_zero:
        return None
    save_encoder(folder.encoder, method.encoder, recipe_of(config.encoder), about(method, data, config))
    result = {
        "run": str(folder.path),
        "method": type(method).__name__,
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        **logged,
        **concluded,
        "seconds": time.time() - started,
    }
    result.setdefault("loss", None)  # a run resumed after its last step has none to tell
    if (hits := getattr(getattr(method.views, "first", None), "hits", None)) is not None:
        result["noise_in_views"] = hits.record()
    folder.finish(result)
    return result


def recipe_of(part: Any) -> dict[str, Any]:
    """How to build a part again, parts within it too, in plain values."""
    return {"class_path": part.class_path, "init_args": _plain(part.get("init_args") or {})}


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):  # a namespace of jsonargparse
        value = value.as_dict()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def about(method: Any, data: Any, config: Any) -> dict[str, Any]:
    """What somebody who gets the encoder alone wants to know."""
    from rince import __version__

    return {
        "rince": __version__,
        "method": type(method).__name__,
        "loss": {"name": type(method.loss).__name__, **_plain(config.loss.get("init_args") or {})},
        "data": type(data).__name__,
        "normalise": _normalising(method.views),
    }


def _normalising(views: Any) -> dict[str, Any]:
    """How inputs were normalised: mean, std and size of an image, or of both sides of a pair."""
    if hasattr(views, "a") and hasattr(views, "b"):
        return {side: _normalising_of(getattr(views, side)) for side in "ab"}
    return _normalising_of(getattr(views, "first", views))


def _normalising_of(recipe: Any) -> dict[str, Any]:
    names = ("mean", "std", "size", "sample_rate", "window", "hop", "floor", "normalise")
    known = {name: getattr(recipe, name, None) for name in names}
    known = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in known.items()}
    return {name: value for name, value in known.items() if value is not None}


def _probe(config: Any, data: Any) -> list[Any]:
    from rince.evaluate.online import OnlineProbe

    return [OnlineProbe(data.classes)] if config.probe and data.classes else []


def run_name(config: Any) -> str:
    """digits-simclr for digits/simclr of rince, mine for my/own/mine.yaml; without a file, the method's name."""
    files = config.get("config") or []
    if not files:
        return str(config.method.class_path).rsplit(".", 1)[-1].lower()
    ours = short_name(Path(files[0]))
    return ours.replace("/", "-") if ours else Path(files[0]).stem


def values_of(text: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(text)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's notes on what is meant to be so."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for note in (
            ".*dataloader is not resumable.*",
            ".*does not have many workers.*",
            ".*smaller than the logging interval.*",
            ".*Checkpoint directory.*",
            ".*GPU available but not used.*",
            ".*treespec, LeafSpec.*",
            ".*Found .* module.* in eval mode.*",
            ".*but have no `validation_step`.*",
        ):
            warnings.filterwarnings("ignore", note)
        yield
