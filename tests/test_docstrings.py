"""Every public name says what goes in, what comes out and what it refuses, and shows an example, which runs."""

import ast
import doctest
import functools
import importlib.util
import inspect
import re
import textwrap
import types
import warnings
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rince
from support.video.films import film

SOURCES = Path(rince.__file__).parent
API = Path(__file__).parents[1] / "docs" / "api"
INTEGRATIONS = {path.stem: path.read_text("utf-8") for path in (SOURCES / "integrations").glob("*.py")}
# What others are made of is no part of the library.
SHARED = set(re.findall(r"^from rince\.integrations\.(\w+) import", "\n".join(INTEGRATIONS.values()), re.MULTILINE))
PEERS = sorted(set(INTEGRATIONS) - SHARED - {"__init__"})
MODULES = ["rince.errors", "rince.optimizers", "rince.losses.objectives", "rince.losses.schedules"]
ROOMS = sorted(
    ".".join(("rince", *path.parent.relative_to(SOURCES).parts))
    for path in SOURCES.rglob("__init__.py")
    if "\n__all__ = " in path.read_text("utf-8")
)
PLACES = [*ROOMS, *MODULES, *(f"rince.integrations.{peer}" for peer in PEERS)]


def load(place):
    """A room or a module; a peer's is left out where the peer is not installed."""
    try:
        return importlib.import_module(place)
    except ImportError as missing:
        if "integrations" not in place:
            raise
        pytest.skip(str(missing))


def public(place):
    """Public names of a room or a module, but for those that a room inside of it has too."""
    module = load(place)
    own = getattr(module, "__all__", None)
    if own is None:
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == place]
    deeper = {name for room in ROOMS if room.startswith(f"{place}.") for name in load(room).__all__}
    found = {name: getattr(module, name) for name in own if not name.startswith("_") and name not in deeper}
    # An alias of types (``Reduction``) and a table (``STATEMENTS``) have no docstring of their own.
    return {name: value for name, value in found.items() if isinstance(value, types.FunctionType | type)}


def sections(text):
    """The sections of a docstring in Google's style, by name."""
    parts = re.split(r"^(Args|Attributes|Returns|Yields|Raises|Example):\s*$", inspect.cleandoc(text or ""), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(texts):
    """Names that Args or Attributes describe: ``a, b: text`` describes two."""
    lines = "\n".join(found.get(name, "") for found in map(sections, texts) for name in ("Args", "Attributes"))
    heads = re.findall(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:", lines, re.M)
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def parameters(value):
    """Names of the arguments that a caller gives, without self and the collectors of further ones."""
    if isinstance(value, type) and value.__init__ is object.__init__ and value.__new__ is object.__new__:
        return set()
    if isinstance(value, type) and issubclass(value, (BaseException, Enum)):
        return set()
    found = inspect.signature(value).parameters.values()
    return {p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def raises(function):
    """Whether a function itself, not one that it calls, raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def lacks(name, value):
    """What the docstring of a public name does not say."""
    is_class = isinstance(value, type)
    own = [value.__doc__, value.__dict__.get("__init__", value).__doc__] if is_class else [value.__doc__]
    every = (
        [
            text
            for kind in value.__mro__
            for text in (kind.__doc__, getattr(kind.__dict__.get("__init__"), "__doc__", ""))
        ]
        if is_class
        else own
    )
    found = {key for text in own for key in sections(text)}
    missing = []
    if not (value.__doc__ or "").strip():
        missing.append("a docstring")
    if unsaid := sorted(parameters(value) - described(every)):
        missing.append(f"Args: {', '.join(unsaid)}")
    gives = not is_class and value.__annotations__.get("return") not in (None, "None")
    if gives and not {"Returns", "Yields"} & found:
        missing.append("Returns")
    door = [value.__dict__[n] for n in ("__init__", "__post_init__") if n in value.__dict__] if is_class else [value]
    written = [f for f in door if isinstance(f, types.FunctionType) and f.__code__.co_filename.startswith(str(SOURCES))]
    if "Raises" not in found and any(map(raises, written)):
        missing.append("Raises")
    if ">>>" not in (value.__doc__ or ""):
        missing.append("an example")
    return [f"{name}: {what}" for what in missing]


@pytest.mark.parametrize("place", PLACES)
def test_a_public_name_says_what_a_caller_needs(place):
    found = [line for name, value in public(place).items() for line in lacks(name, value)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("place", PLACES)
def test_public_methods_say_what_they_do(place):
    """Own ones: those of torch and Lightning have their documents there."""
    silent = [
        f"{name}.{method}"
        for name, value in public(place).items()
        if isinstance(value, type)
        for method, what in vars(value).items()
        if not method.startswith("_") and isinstance(what, types.FunctionType | property | functools.cached_property)
        if not inspect.getdoc(getattr(value, method))
    ]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("place", PLACES)
def test_the_examples_of_a_place_run(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"rince": rince, "torch": torch, "nn": nn, "np": np, "functools": functools}
    for name, value in public(place).items():
        torch.manual_seed(0)
        text = inspect.cleandoc(value.__doc__ or "")
        if any(importlib.util.find_spec(peer) is None for peer in re.findall(r"# needs (\w+)", text)):
            continue
        if '"clip.mp4"' in text:
            film(tmp_path / "clip.mp4")
        globs = {**vars(load(place)), **public(place), **names}
        test = doctest.DocTestParser().get_doctest(text, globs, name, None, None)
        told = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failed = (
                doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=told.append).failed
            )
        assert not failed, "".join(told)


def test_every_public_name_has_its_place_in_the_api_reference():
    shown = set(re.findall(r"^::: (\S+)", "\n".join(p.read_text("utf-8") for p in API.glob("*.md")), re.M))
    for path in shown.copy():  # a module stands for all that it holds
        if "." in path and (SOURCES / Path(*path.split(".")[1:])).with_suffix(".py").exists():
            module = load(path)
            shown |= {f"{path}.{name}" for name in vars(module)}
    shown = {path.rsplit(".", 1)[-1] for path in shown}
    for place in PLACES:
        try:
            missing = sorted(set(public(place)) - shown)
        except pytest.skip.Exception:
            continue
        assert not missing, f"{place}: not in docs/api: {', '.join(missing)}"


def test_the_reader_of_docstrings_sees_what_is_missing():
    def plain(a: int, b: int) -> int:
        """Add.

        Args:
            a: One.
        """
        raise ValueError(a + b)

    assert lacks("plain", plain)[0] == "plain: Args: b"
    assert {"plain: Returns", "plain: an example"} <= set(lacks("plain", plain))
