"""Configurations written by others: only classes of rince and torch are built, and nothing is downloaded.

A configuration names classes, and importing a class runs code. ``rince train`` takes the user's own configuration and
imports what it names. ``rince evaluate``, ``export`` and ``finetune`` also read the ``config.yaml`` of run folders,
which may come from anyone.
"""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rince.errors import MissingExtra, UsageError
from rince.train.config import parse_settings, train_parser
from rince.train.known_classes import PACKAGES, known_classes

FETCHING = ("HuggingFacePairs",)  # downloads, and may run a script of the data set


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
    """Import paths, public and private, of the classes that a configuration of others may name."""
    import rince.losses
    from rince.losses import objectives

    kinds: list[tuple[str, Any]] = []
    for part, names in known_classes().items():
        for name, path in names.items() if part != "callback" else ():
            with contextlib.suppress(MissingExtra):
                module = importlib.import_module(path.rpartition(".")[0])
                modules = [each for each in vars(module).items() if _is_module_of(module.__name__, each[1])]
                kinds += [(f"{module.__name__}.{each}", kind) for each, kind in [(name, vars(module)[name]), *modules]]
    kinds += [(f"rince.{name}", getattr(rince.losses, name)) for name in rince.losses.__all__]
    for name, function in vars(objectives).items():
        if name[0] != "_" and inspect.isfunction(function) and function.__module__.startswith("rince.losses."):
            kinds.append((f"rince.objectives.{name}", function))
    for module, base in ((nn, nn.Module), (torch.optim, torch.optim.Optimizer)):
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and issubclass(kind, base) and kind is not nn.DataParallel:
                kinds.append((f"{module.__name__}.{name}", kind))
    paths: set[str] = set()
    for path, kind in kinds:
        name = path.rpartition(".")[2]
        if name not in FETCHING and (inspect.isclass(kind) or inspect.isfunction(kind)):
            paths |= {path, f"{kind.__module__}.{kind.__qualname__}"}
            paths |= {
                f"rince.{package}.{name}" for package in PACKAGES.values() if path.startswith(f"rince.{package}.")
            }
    return sorted(paths)


def _is_module_of(name: str, kind: Any) -> bool:
    """Whether an object is an ``nn.Module`` class defined in a module, such as the loss of a method."""
    return inspect.isclass(kind) and issubclass(kind, nn.Module) and kind.__module__ == name


def disable_downloads(config: Any) -> None:
    """Set every ``download`` argument of a parsed configuration to False."""
    from jsonargparse import Namespace

    for key, value in vars(config).items() if isinstance(config, Namespace) else config.items():
        if key == "download":
            config[key] = False
        elif isinstance(value, Namespace | dict):
            disable_downloads(value)


def checked_parts(parts: dict[str, Any], source: Path) -> dict[str, Any]:
    """Parts of a configuration of others, fully resolved to known classes and plain values.

    Raises:
        UsageError: If they name any other class.
    """
    import yaml

    parser = train_parser()
    with only_known_classes(source):
        config = parse_settings(parser, parts)
        disable_downloads(config)
        values = yaml.safe_load(parser.dump(config))
    return {name: values.get(name) for name in parts}
