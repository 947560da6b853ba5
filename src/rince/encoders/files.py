"""Safetensors files with the weights of an encoder and its class path and arguments."""

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
from rince.errors import MissingFile, UsageError

PACKAGE = "rince.encoders."


def check_network(path: Path, recipe: Any, weights: dict[str, Tensor]) -> None:
    """Check that a recipe names encoders of rince only and matches the weights.

    The network is built on the meta device, so invalid sizes allocate no memory.
    """
    _check_classes(path, recipe)
    try:
        with torch.device("meta"):
            state = _build_network(recipe).state_dict()
    except Exception as error:  # constructors raise any type on invalid arguments
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UsageError(f"{path} has a {recipe['class_path']} that cannot be constructed: {reason}") from error
    shapes = {name: tuple(value.shape) for name, value in state.items() if isinstance(value, Tensor)}
    if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
        raise UsageError(f"the weights in {path} do not match its class {recipe['class_path']}")


def _check_classes(path: Path, recipe: Any) -> None:
    """Reject a recipe with classes other than encoders of rince, at any depth."""
    if not isinstance(recipe, dict) or not isinstance(recipe.get("class_path"), str):
        raise UsageError(f"{path} has no class path of its encoder")
    name, arguments = recipe["class_path"], recipe.get("init_args") or {}
    if not isinstance(arguments, dict) or set(recipe) - {"class_path", "init_args"}:
        raise UsageError(f"{path} has invalid arguments of {name}, so it was not written by rince")
    module, _, short = name.rpartition(".")
    if not name.startswith(PACKAGE):
        raise UsageError(
            f"{path} has an encoder from outside rince, {name}: construct it and call load_encoder(path, encoder=...), "
            "or name it with --encoder"
        )
    try:
        kind = getattr(importlib.import_module(module), short, None)
    except (ImportError, ValueError):
        kind = None
    if not (isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__.startswith(PACKAGE)):
        raise UsageError(f"{path} has the class path {name[:200]}, which is not an encoder of rince")
    for value in arguments.values():
        if isinstance(value, dict):
            _check_classes(path, value)


def _build_network(recipe: dict[str, Any]) -> nn.Module:
    """Network of a checked recipe."""
    arguments = {
        name: _build_network(value) if isinstance(value, dict) else value
        for name, value in (recipe.get("init_args") or {}).items()
    }
    module, _, name = recipe["class_path"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**arguments)


def save_encoder(
    path: str | os.PathLike[str], encoder: nn.Module, recipe: dict[str, Any], about: dict[str, Any]
) -> None:
    """Write the weights of an encoder to a safetensors file, with its class path and arguments.

    Args:
        path: File to write, atomically.
        encoder: The encoder.
        recipe: ``class_path`` and ``init_args``, as in a configuration.
        about: Metadata as plain values; ``load_encoder`` returns it as ``encoder.about``.

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
    # Copy, because safetensors rejects tensors that share memory, such as tied weights.
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in encoder.state_dict().items()}
    # A single entry, since safetensors writes several in random order.
    metadata = {"rince_encoder": json.dumps({"encoder": recipe, "about": about})}
    with written_whole(path) as temporary:
        temporary.write_bytes(safetensors.save(weights, metadata))


def load_encoder(path: str | os.PathLike[str], encoder: nn.Module | None = None) -> nn.Module:
    """Load the encoder of an exported file or a run folder, in evaluation mode.

    Only encoders of rince are constructed from the class path in the file. Construct and pass any other encoder.

    Args:
        path: File written by ``rince export`` or :func:`save_encoder`, or folder of a run.
        encoder: Module to load the weights into. Default: None, constructed from the file.

    Returns:
        The encoder. ``encoder.about`` is metadata such as the data set and the normalization of the inputs.

    Raises:
        MissingFile: If the path does not exist.
        UsageError: If the file is damaged, has a class from outside rince, or does not fit the given encoder.

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
        encoder = _build_network(recipe)
    fill(encoder, weights, path, recipe)
    encoder.about = about  # type: ignore[assignment]
    return encoder.eval()


def fill(encoder: nn.Module, weights: dict[str, torch.Tensor], path: Path, recipe: dict[str, Any]) -> None:
    """Load weights into an encoder. The error names the first mismatch."""
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        name, reason = recipe.get("class_path", "an encoder"), str(error).splitlines()[1].strip()[:200]
        raise UsageError(f"{path} has a {name}, which does not fit this {type(encoder).__name__}: {reason}") from error


def read_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    """Recipe (class_path and init_args), metadata and weights in a file."""
    safetensors = require("safetensors", "train")
    if not path.is_file():
        raise MissingFile(f"{path} does not exist")
    try:
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise UsageError(f"{path} is not a valid safetensors file ({error})") from error
    if "rince_encoder" not in metadata:
        raise UsageError(f"{path} is not an encoder written by rince")
    try:
        content = json.loads(metadata["rince_encoder"])
        return dict(current_settings(content["encoder"])), dict(current_settings(content["about"])), weights
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} has invalid metadata of its encoder ({type(error).__name__})") from error
