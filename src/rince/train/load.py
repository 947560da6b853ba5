"""Run folders as objects: the starting point of ``rince evaluate`` and ``rince export``."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rince.errors import MissingFile, UsageError
from rince.train.checkpoints import read_checkpoint
from rince.train.config import build, finetune_parser, parse_settings, train_parser
from rince.train.run_folder import RunFolder
from rince.train.untrusted_config import disable_downloads, only_known_classes


def load_run(
    path: str | os.PathLike[str], trained: bool = True, allow_custom_code: bool = False, trust: bool | None = None
) -> tuple[Any, Any, Any]:
    """Method (in evaluation mode), data and configuration of a run.

    Args:
        path: Folder of the run.
        trained: False leaves the weights as initialized.
        allow_custom_code: Import classes from outside rince and torch that the configuration names, and allow it to
            download data. Only for run folders you trust.
        trust: Deprecated name of ``allow_custom_code``.

    Raises:
        UsageError: If there is no such run, it is damaged, or it names classes that are not allowed.
    """
    if trust is not None:
        warnings.warn("load_run(trust=) is now allow_custom_code=", DeprecationWarning, stacklevel=2)
        allow_custom_code = trust
    folder = RunFolder(path)
    settings = {name: part for name, part in folder.read_config().items() if name not in ("trainer", "config")}
    with contextlib.nullcontext() if allow_custom_code else only_known_classes(folder.config):
        parser = finetune_parser() if "from_scratch" in settings else train_parser()
        config = parse_settings(parser, settings)
        if not allow_custom_code:
            disable_downloads(config)
        method, data, _ = build(parser, config)
    if trained:
        load_weights(method, folder.checkpoint)
    return method.eval(), data, config


@contextlib.contextmanager
def explain_relative_paths(data: Any, config: Path) -> Iterator[None]:
    """Mention a relative data path in the error about missing files: the run or its data may have moved."""
    try:
        yield
    except MissingFile as error:
        for name in ("path", "root"):
            place = (data.get("init_args") or {}).get(name)
            if isinstance(place, str) and not Path(place).is_absolute() and not Path(place).exists():
                raise MissingFile(f"{error} (data.{name} in {config} is relative to the current directory)") from error
        raise


def load_weights(method: Any, checkpoint: Path) -> None:
    """Load the weights of a checkpoint, without running code from it."""
    state = read_checkpoint(checkpoint)["state_dict"]
    own = {name: value for name, value in method.state_dict().items() if isinstance(value, torch.Tensor)}
    saved = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    for name, value in own.items():
        if name not in saved:
            raise UsageError(f"{checkpoint} is of another architecture: it has no {name}")
        if saved[name].shape != value.shape:
            shapes = f"{tuple(saved[name].shape)} in the checkpoint and {tuple(value.shape)} in the configuration"
            raise UsageError(f"{checkpoint} is of another architecture: {name} is {shapes}")
    if extra := saved.keys() - own.keys():
        raise UsageError(f"{checkpoint} is of another architecture: its {min(extra)} is not in the configuration")
    try:
        method.load_state_dict(state)
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:  # extra state, which is not a tensor
        raise UsageError(f"{checkpoint} is of another architecture ({type(error).__name__})") from error


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
    """What is written beside an encoder: versions, training loss and weights, data, and input normalization."""
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
