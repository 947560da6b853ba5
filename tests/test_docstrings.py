"""Docstrings of public names describe arguments, results and errors, and have an example that runs."""

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
ADAPTERS = {path.stem: path.read_text("utf-8") for path in (SOURCES / "integrations").glob("*.py")}
SHARED = set(re.findall(r"^from rince\.integrations\.(\w+) import", "\n".join(ADAPTERS.values()), re.MULTILINE))
PACKAGES = sorted(
    ".".join(("rince", *path.parent.relative_to(SOURCES).parts))
    for path in SOURCES.rglob("__init__.py")
    if "\n__all__ = " in path.read_text("utf-8")
)
MODULES = [
    *PACKAGES,
    *("rince.errors", "rince.optimizers", "rince.losses.objectives", "rince.losses.schedules"),
    *(f"rince.integrations.{name}" for name in sorted(ADAPTERS.keys() - SHARED - {"__init__"})),
]


def load(module):
    """Import a module; skip an integration whose library is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if "integrations" not in module:
            raise
        pytest.skip(str(error))


def public_names(module):
    """Public classes and functions of a module, without those of public packages inside it."""
    loaded = load(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        names = [name for name, value in vars(loaded).items() if getattr(value, "__module__", None) == module]
    inner = {name for package in PACKAGES if package.startswith(f"{module}.") for name in load(package).__all__}
    values = {name: getattr(loaded, name) for name in names if not name.startswith("_") and name not in inner}
    return {name: value for name, value in values.items() if isinstance(value, types.FunctionType | type)}


def sections(docstring):
    """Sections of a docstring in Google style, by name."""
    names = r"^(Args|Attributes|Returns|Yields|Raises|Example):\s*$"
    parts = re.split(names, inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(docstrings):
    """Names in Args and Attributes; ``a, b: text`` describes two."""
    lines = "\n".join(s.get(name, "") for s in map(sections, docstrings) for name in ("Args", "Attributes"))
    heads = re.findall(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:", lines, re.MULTILINE)
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def parameters(value):
    """Parameters that a caller passes, without ``*args`` and ``**kwargs``."""
    if isinstance(value, type):
        if value.__init__ is object.__init__ and value.__new__ is object.__new__:
            return set()
        if issubclass(value, BaseException | Enum):
            return set()
    signature = inspect.signature(value).parameters.values()
    return {p.name for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def raises(function):
    """Whether the code of a function of rince has a ``raise``."""
    if not isinstance(function, types.FunctionType) or not function.__code__.co_filename.startswith(str(SOURCES)):
        return False
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def missing(name, value):
    """What the docstring of a public name lacks."""
    is_class = isinstance(value, type)
    own = [value.__doc__, value.__dict__.get("__init__", value).__doc__] if is_class else [value.__doc__]
    bases = value.__mro__ if is_class else ()
    inherited = [text for base in bases for text in (base.__doc__, getattr(vars(base).get("__init__"), "__doc__", ""))]
    constructors = [value.__dict__.get(n) for n in ("__init__", "__post_init__")] if is_class else [value]
    found = {section for docstring in own for section in sections(docstring)}
    lacks = []
    if not (value.__doc__ or "").strip():
        lacks.append("a docstring")
    if undescribed := sorted(parameters(value) - described(own + inherited)):
        lacks.append(f"Args: {', '.join(undescribed)}")
    if not is_class and value.__annotations__.get("return") not in (None, "None") and not {"Returns", "Yields"} & found:
        lacks.append("Returns")
    if "Raises" not in found and any(map(raises, constructors)):
        lacks.append("Raises")
    if ">>>" not in (value.__doc__ or ""):
        lacks.append("an example")
    return [f"{name}: {what}" for what in lacks]


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_are_complete(module):
    lines = [line for name, value in public_names(module).items() for line in missing(name, value)]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("module", MODULES)
def test_public_methods_have_docstrings(module):
    lines = [
        f"{name}.{method}"
        for name, value in public_names(module).items()
        if isinstance(value, type)
        for method, member in vars(value).items()
        if not method.startswith("_") and isinstance(member, types.FunctionType | property | functools.cached_property)
        if not inspect.getdoc(getattr(value, method))
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = vars(load(module)) | public_names(module)
    names |= {"rince": rince, "torch": torch, "nn": nn, "np": np, "functools": functools}
    for name, value in public_names(module).items():
        docstring = inspect.cleandoc(value.__doc__ or "")
        if any(importlib.util.find_spec(library) is None for library in re.findall(r"# needs (\w+)", docstring)):
            continue
        if '"clip.mp4"' in docstring:
            film(tmp_path / "clip.mp4")
        torch.manual_seed(0)
        test = doctest.DocTestParser().get_doctest(docstring, dict(names), name, None, None)
        output = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
            assert not runner.run(test, out=output.append).failed, "".join(output)


def test_public_names_are_in_the_api_reference():
    paths = set(re.findall(r"^::: (\S+)", "\n".join(p.read_text("utf-8") for p in API.glob("*.md")), re.MULTILINE))
    documented = {path.rsplit(".", 1)[-1] for path in paths}
    for path in paths:  # a page may name a whole module
        if "." in path and (SOURCES / Path(*path.split(".")[1:])).with_suffix(".py").exists():
            documented |= vars(load(path)).keys()
    for module in MODULES:
        try:
            undocumented = sorted(public_names(module).keys() - documented)
        except pytest.skip.Exception:
            continue
        assert not undocumented, f"{module}: not in docs/api: {', '.join(undocumented)}"


def test_incomplete_docstring_is_reported():
    def add(a: int, b: int) -> int:
        """Add.

        Args:
            a: One.
        """
        raise ValueError(a + b)

    assert missing("add", add) == ["add: Args: b", "add: Returns", "add: an example"]
