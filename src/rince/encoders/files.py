"""Encoders as safetensors files with the recipe to build them; usable without Lightning."""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rince._moved import current_settings
from rince._support.atomic_files import written_whole
from rince._support.optional_imports import require
from rince.errors import FileError, MissingFile, UsageError

PACKAGE = "rince.encoders."


def check_network(path: Path, recipe: Any, weights: dict[str, Tensor]) -> None:
    """Check that a recipe names encoders of rince only, and describes the network that the weights are of.

    The network is built on the meta device: a wrong size in a file takes no memory.

    Raises:
        UsageError: With the file, what is wrong with it, and the fix.
    """
    _check_classes(path, recipe)
    try:
        with torch.device("meta"):
            state = _built(recipe).state_dict()
    except Exception as error:  # whatever a constructor says of arguments that do not fit
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UsageError(f"{path} holds a {recipe['class_path']} that cannot be built: {why}") from error
    shapes = {name: tuple(value.shape) for name, value in state.items() if isinstance(value, Tensor)}
    if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
        raise UsageError(f"{path} says that it holds {recipe['class_path']}, but its weights are of another network")


def _check_classes(path: Path, recipe: Any) -> None:
    """Refuse a recipe that names anything but rince's encoders, at any depth."""
    if not isinstance(recipe, dict) or not isinstance(recipe.get("class_path"), str):
        raise UsageError(f"{path} does not say how its encoder is built: it names no class")
    name, arguments = recipe["class_path"], recipe.get("init_args") or {}
    if not isinstance(arguments, dict) or set(recipe) - {"class_path", "init_args"}:
        raise UsageError(f"{path} gives {name} something else than arguments, and was not written by rince")
    module, _, short = name.rpartition(".")
    if not name.startswith(PACKAGE):
        raise UsageError(
            f"{path} holds {name}, which is not rince's: build it and call load_encoder(path, encoder=yours), or name "
            "it yourself with --encoder"
        )
    try:
        found = getattr(importlib.import_module(module), short, None)
    except (ImportError, ValueError):
        found = None
    if not (isinstance(found, type) and issubclass(found, nn.Module) and found.__module__.startswith(PACKAGE)):
        raise UsageError(f"{path} names {name[:200]} as its encoder, which is not an encoder of rince")
    for value in arguments.values():
        if isinstance(value, dict):
            _check_classes(path, value)


def _built(recipe: dict[str, Any]) -> nn.Module:
    """The network of a recipe whose classes have been checked."""
    arguments = {
        name: _built(value) if isinstance(value, dict) else value
        for name, value in (recipe.get("init_args") or {}).items()
    }
    module, _, name = recipe["class_path"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**arguments)


def save_encoder(
    path: str | os.PathLike[str], encoder: nn.Module, recipe: dict[str, Any], about: dict[str, Any]
) -> None:
    """Write the weights of an encoder into a safetensors file, with the recipe to build it again.

    Args:
        path: The file to write. It is written completely or not at all.
        encoder: The module whose weights are written.
        recipe: ``class_path`` and ``init_args``, as in a configuration.
        about: Other information, as plain values; ``load_encoder`` returns it as ``encoder.about``.

    Raises:
        FileError: If the file cannot be written.

    Example:
        >>> encoder = rince.encoders.ConvNet(width=8)
        >>> recipe = {"class_path": "rince.encoders.ConvNet", "init_args": {"width": 8}}
        >>> rince.encoders.save_encoder("encoder.safetensors", encoder, recipe, {"data": "mine"})
        >>> rince.load_encoder("encoder.safetensors").about
        {'data': 'mine'}
    """
    safetensors = require("safetensors.torch", "train")
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    # One entry only: safetensors writes several in random order, and equal encoders should be equal files.
    metadata = {"rince_encoder": json.dumps({"encoder": recipe, "about": about})}
    try:
        with written_whole(path) as temporary:
            safetensors.save_file(weights, temporary, metadata=metadata)
    except (OSError, safetensors_error()) as error:  # its own error for a disk that is full
        raise FileError(f"the encoder {path} could not be written ({error})") from error


def safetensors_error() -> type[Exception]:
    error: type[Exception] = require("safetensors", "train").SafetensorError
    return error


def load_encoder(path: str | os.PathLike[str], encoder: nn.Module | None = None) -> nn.Module:
    """The encoder of an exported file or a run folder, in evaluation mode.

    The file names the class of the encoder. A class from outside rince is not built from a name in a file: build it
    yourself and pass it.

    Args:
        path: A file that ``rince export`` or :func:`save_encoder` wrote, or the folder of a run.
        encoder: The module that gets the weights, if its class is not from rince.

    Returns:
        The encoder. ``encoder.about`` says how it was trained and how its inputs were normalized.

    Raises:
        MissingFile: If there is no encoder at the path.
        UsageError: If the file is damaged, names a class from outside rince, or does not fit the encoder given.

    Example:
        >>> recipe = {"class_path": "rince.encoders.ConvNet", "init_args": {"width": 8}}
        >>> rince.encoders.save_encoder("encoder.safetensors", rince.encoders.ConvNet(width=8), recipe, {})
        >>> encoder = rince.load_encoder("encoder.safetensors")
        >>> encoder(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 32])
    """
    path = Path(path)
    path = path / "encoder.safetensors" if path.is_dir() else path
    if not path.exists():
        raise MissingFile(f"there is no encoder at {path}: train one, or make it with rince export RUN")
    recipe, about, weights = read_encoder(path)
    if encoder is None:
        check_network(path, recipe, weights)
        encoder = _built(recipe)
    fill(encoder, weights, path, recipe)
    encoder.about = about  # type: ignore[assignment]
    return encoder.eval()


def fill(encoder: nn.Module, weights: dict[str, torch.Tensor], path: Path, recipe: dict[str, Any]) -> None:
    """Put weights that were read from ``path`` into an encoder, or say in one sentence what does not fit."""
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        name = recipe.get("class_path", "an encoder")
        why = _first_difference(encoder, weights)
        raise UsageError(f"{path} holds {name}, which does not fit this {type(encoder).__name__}: {why}") from error


def read_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    """Recipe (class_path and init_args), what is told about it, and weights of an encoder's file; nothing is built."""
    safetensors = require("safetensors", "train")
    if not path.is_file():
        raise MissingFile(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise UsageError(f"{path} is no whole safetensors file ({error})") from error
    if "rince_encoder" not in metadata:
        raise UsageError(f"{path} is a safetensors file, but no encoder written by rince")
    try:
        known = json.loads(metadata["rince_encoder"])
        recipe, about = current_settings(known["encoder"]), current_settings(known["about"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} does not say how its encoder is built ({type(error).__name__})") from error
    if not isinstance(recipe, dict) or not isinstance(about, dict):
        raise UsageError(f"{path} does not say how its encoder is built: it holds no recipe")
    return recipe, about, weights


def _first_difference(encoder: nn.Module, weights: dict[str, torch.Tensor]) -> str:
    own = encoder.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights:
            return f"{name} is missing in the file"
        if name not in own:
            return f"{name} is in the file only"
    for name, value in own.items():
        if value.shape != weights[name].shape:
            return f"{name} is {tuple(weights[name].shape)} in the file and {tuple(value.shape)} in the network"
    return "values differ in kind"
