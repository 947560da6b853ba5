"""How an encoder is built again from what its file says, without trusting the file.

A recipe is ``{"class_path": ..., "init_args": {...}}``. Files come from anywhere, so a recipe may name rince's own
encoders only, and give their arguments only values of the kinds that they declare: no other class, no function and no
text that could become one reaches a constructor.
"""

import contextlib
import importlib
import inspect
import threading
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from rince.errors import UsageError

ROOM = "rince.encoders."
DEEPEST = 8  # recipes within recipes
LONGEST = 200  # characters of an import path
LEAST = 64  # what numbers and lists may be, however small the weights are


def build(path: Path, recipe: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """The network that a recipe from ``path`` describes, once it is known to be as large as its weights."""
    check_network(path, recipe, weights)
    return _built(recipe)


def check_network(path: Path, recipe: Any, weights: dict[str, Tensor]) -> None:
    """Refuse a recipe that is none of rince's, or describes another network than the weights are of.

    The network is built without memory for its weights, and no further than there are weights.

    Raises:
        UsageError: With the file, what is wrong with it, and the way out.
    """
    check_recipe(path, recipe, weights)
    try:
        with torch.device("meta"), _at_most(2 * len(weights) + LEAST):
            shapes = {name: tuple(each.shape) for name, each in _built(recipe).state_dict().items() if _is_tensor(each)}
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UsageError(f"{path} holds a {recipe['class_path']} that cannot be built: {why}") from error
    if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
        raise UsageError(f"{path} says that it holds {recipe['class_path']}, but its weights are of another network")


@contextlib.contextmanager
def _at_most(most: int) -> Iterator[None]:
    """Stop building a network that gets more parameters than there are weights for."""
    count, here = 0, threading.get_ident()

    def see(module: nn.Module, name: str, parameter: Any) -> None:
        nonlocal count
        count += threading.get_ident() == here
        if count > most:
            raise UsageError("it has more parameters than there are weights")

    handle = register_module_parameter_registration_hook(see)
    try:
        yield
    finally:
        handle.remove()


def check_recipe(path: Path, recipe: Any, weights: dict[str, Tensor], depth: int = 0) -> None:
    """Refuse a recipe that names anything but rince's encoders, or gives them what they do not take.

    Raises:
        UsageError: With the file, the class or argument, and the way out.
    """
    named = isinstance(recipe, dict) and isinstance(recipe.get("class_path"), str)
    if not named or len(recipe["class_path"]) > LONGEST or depth > DEEPEST:
        raise UsageError(f"{path} does not say how its encoder is built: it names no class")
    name, arguments = recipe["class_path"], recipe.get("init_args") or {}
    kind = _encoder(path, name)
    if not isinstance(arguments, dict) or set(recipe) - {"class_path", "init_args"}:
        raise UsageError(f"{path} gives {name} something else than arguments, and was not written by rince")
    hints = typing.get_type_hints(kind.__init__)
    known = inspect.signature(kind).parameters
    longest = max(LEAST, len(weights))
    largest = max([longest, *(weight.numel() for weight in weights.values())])
    for argument, value in arguments.items():
        if argument not in known:
            raise UsageError(f"{path} gives {name} an argument '{argument[:80]}', which it does not have")
        if isinstance(value, dict) and isinstance(hints.get(argument), type) and issubclass(hints[argument], nn.Module):
            check_recipe(path, value, weights, depth + 1)
        elif not _fits(value, hints.get(argument, Any), largest, longest):
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


def _fits(value: Any, hint: Any, largest: int, longest: int) -> bool:
    """Whether a plain value is of the kind that an argument declares; sizes as the weights allow."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arms
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, arm, largest, longest) for arm in arms)
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(origin, type) and isinstance(value, list) and len(value) <= longest:
        return all(_fits(each, arms[0] if arms else Any, largest, longest) for each in value)
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
