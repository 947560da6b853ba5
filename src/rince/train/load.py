"""Run folders as objects: the starting point of ``rince evaluate``, ``export`` and ``finetune``.

A configuration names classes, and importing a class runs code. ``rince train`` takes the user's own configuration and
imports what it names. The ``config.yaml`` of a run folder may come from anyone: unless custom code is allowed, only
classes of rince and torch are built, and nothing is downloaded.
"""

import contextlib
import inspect
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from rince.errors import MissingExtra, MissingFile, UsageError
from rince.train.checkpoints import read_checkpoint
from rince.train.config import build, finetune_parser, parse_settings, train_parser
from rince.train.run_folder import RunFolder
from rince.train.short_names import NOT_PARTS, PACKAGES, import_class, known_classes

FETCHING = ("HuggingFacePairs",)  # downloads, and may run a script of the data set


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
        UsageError: If the run does not exist, is damaged, or names classes that are not allowed.
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
    try:
        method.load_state_dict(read_checkpoint(checkpoint)["state_dict"])
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:
        # the last problem that torch lists
        problem = (str(error) or type(error).__name__).splitlines()[-1].strip()[:300]
        raise UsageError(f"{checkpoint} is of another architecture ({problem})") from error


@contextlib.contextmanager
def only_known_classes(source: Path) -> Iterator[None]:
    """Let jsonargparse import only classes of rince and torch that are parts of a run.

    Raises:
        UsageError: If another import path is named, with ``source`` and that path.
    """
    import jsonargparse
    from jsonargparse import _common

    # The public function adds to the lists but cannot remove entries, so the settings are restored by hand.
    before = dict(_common.parsing_settings)
    jsonargparse.set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=allowed_paths())
    try:
        yield
    except UsageError as error:
        if "--allow-custom-code" in str(error):
            raise UsageError(f"{source}: {error}") from error
        raise
    finally:
        _common.parsing_settings.update(before)


def allowed_paths() -> list[str]:
    """Import paths, public and private, of the classes that an untrusted configuration may name."""
    import rince.losses
    from rince.losses import objectives

    allowed = {f"rince.{name}": getattr(rince.losses, name) for name in rince.losses.__all__}
    paths = [path for part, classes in known_classes().items() if part != "callback" for path in classes.values()]
    paths += [f"rince.{package}.{name}" for package in PACKAGES.values() for name in NOT_PARTS]
    for path in paths:
        with contextlib.suppress(MissingExtra, AttributeError):
            allowed[path] = import_class(path)
    for module, base in ((nn, nn.Module), (torch.optim, torch.optim.Optimizer)):
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and issubclass(kind, base) and kind is not nn.DataParallel:
                allowed[f"{module.__name__}.{name}"] = kind
    allowed = {path: kind for path, kind in allowed.items() if inspect.isclass(kind)}
    for name, function in vars(objectives).items():
        if name[0] != "_" and inspect.isfunction(function) and function.__module__.startswith("rince.losses."):
            allowed[f"rince.objectives.{name}"] = function
    return sorted(
        path
        for public, kind in allowed.items()
        for path in (public, f"{kind.__module__}.{kind.__qualname__}")
        if kind.__name__ not in FETCHING
    )


def disable_downloads(config: Any) -> None:
    """Set every ``download`` argument of a parsed configuration to False."""
    from jsonargparse import Namespace

    for key, value in vars(config).items() if isinstance(config, Namespace) else config.items():
        if key == "download":
            config[key] = False
        elif isinstance(value, Namespace | dict):
            disable_downloads(value)


def checked_parts(parts: dict[str, Any], source: Path) -> dict[str, Any]:
    """Parts of an untrusted configuration, fully resolved to known classes and plain values.

    Raises:
        UsageError: If they name any other class.
    """
    parser = train_parser()
    with only_known_classes(source):
        config = parse_settings(parser, parts)
        disable_downloads(config)
        values = yaml.safe_load(parser.dump(config))
    return {name: values.get(name) for name in parts}
