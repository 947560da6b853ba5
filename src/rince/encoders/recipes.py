"""How an encoder is built again from what its file says, without trusting the file.

A recipe is ``{"class_path": ..., "init_args": {...}}``. Files come from anywhere, so a recipe may name rince's own
encoders only, and give their arguments only values of the kinds that they declare: no other class, no function and no
text that could become one reaches a constructor.
"""

import importlib
import inspect
import types
import typing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rince.errors import UsageError

ROOM = "rince.encoders."
DEEPEST = 8  # recipes within recipes


def build(path: Path, recipe: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """The network that a recipe from ``path`` describes, once it is known to be as large as its weights."""
    check_recipe(path, recipe, weights)
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in _built(recipe).state_dict().items() if _is_tensor(value)}
    if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
        raise UsageError(f"{path} says that it holds {recipe['class_path']}, but its weights are of another network")
    return _built(recipe)


def check_recipe(path: Path, recipe: Any, weights: dict[str, Tensor], depth: int = 0) -> None:
    """Refuse a recipe that names anything but rince's encoders, or gives them what they do not take.

    Raises:
        UsageError: With the file, the class or argument, and the way out.
    """
    if not isinstance(recipe, dict) or not isinstance(recipe.get("class_path"), str) or depth > DEEPEST:
        raise UsageError(f"{path} does not say how its encoder is built: it names no class")
    name, arguments = recipe["class_path"], recipe.get("init_args") or {}
    kind = _encoder(path, name)
    if not isinstance(arguments, dict) or set(recipe) - {"class_path", "init_args"}:
        raise UsageError(f"{path} gives {name} something else than arguments, and was not written by rince")
    hints = typing.get_type_hints(kind.__init__)
    known = inspect.signature(kind).parameters
    largest = max([64, len(weights), *(size for weight in weights.values() for size in weight.shape)])
    for argument, value in arguments.items():
        if argument not in known:
            raise UsageError(f"{path} gives {name} an argument '{argument}', which it does not have")
        if isinstance(value, dict) and isinstance(hints.get(argument), type) and issubclass(hints[argument], nn.Module):
            check_recipe(path, value, weights, depth + 1)
        elif not _fits(value, hints.get(argument, Any), largest):
            raise UsageError(f"{path} gives {name} {str(value)[:80]!r} for {argument}, which it does not take")
    for argument, parameter in known.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise UsageError(f"{path} does not give {name} its argument {argument}")


def _encoder(path: Path, name: str) -> type[nn.Module]:
    module, _, short = name.rpartition(".")
    if name.startswith(ROOM) and short.isidentifier():
        try:
            found = getattr(importlib.import_module(module), short, None)
        except (ImportError, ValueError):
            found = None
        if isinstance(found, type) and issubclass(found, nn.Module) and found.__module__.startswith(ROOM):
            return found
        raise UsageError(f"{path} names {name} as its encoder, which is no network of rince's")
    raise UsageError(
        f"{path} holds {name}, which is not rince's: build it and call load_encoder(path, encoder=yours), or name it "
        "yourself with --encoder"
    )


def _fits(value: Any, hint: Any, largest: int) -> bool:
    """Whether a plain value is of the kind that an argument declares; numbers no larger than the weights allow."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arms
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, arm, largest) for arm in arms)
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= largest
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(origin, type) and isinstance(value, list) and len(value) <= largest:
        return all(_fits(each, arms[0] if arms else Any, largest) for each in value)
    return False


def _built(recipe: dict[str, Any]) -> nn.Module:
    """A recipe that has been checked, as a network."""
    arguments = {
        name: _built(value) if isinstance(value, dict) else value
        for name, value in (recipe.get("init_args") or {}).items()
    }
    module, _, name = recipe["class_path"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**arguments)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
