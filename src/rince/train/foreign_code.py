"""Whose code a configuration may run.

A configuration names classes, and naming a class runs its code. `rince train` takes the user's own configuration, so it
imports what it names. `rince evaluate`, `export` and `finetune` also take run folders of others: there only rince's own
classes and torch's networks, losses and optimizers are built, unless the user says otherwise. Functions other than
rince's objectives are never called: they may do anything, while a class that makes a part of a run only makes it.
"""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from rince.data.fetching import SWITCHES, fetched_by, may_fetch
from rince.data.module import DataModule
from rince.errors import MissingExtra, UsageError
from rince.train.build import _construct
from rince.train.catalogue import PARTS, whole_path
from rince.train.config_errors import may_import
from rince.train.parser import options_in

# Rooms of rince that do more than make a part of a run: they read files, fetch, or start commands.
DENIED: tuple[str, ...] = ("audit", "cli", "commands", "compare", "evaluate", "report", "reproduce", "train", "trust")
# Rooms with nothing but parts and what parts are made of; elsewhere a class has to be of one of these kinds.
ROOMS = ("encoders", "losses", "methods", "noise", "optimisers", "views")
KINDS = (nn.Module, torch.optim.Optimizer, DataModule)


class Named(NamedTuple):
    """What a user has named: import paths, what has been found there, and arguments that fetch."""

    paths: tuple[str, ...]
    found: list[Any]
    switches: tuple[str, ...]


_named: ContextVar[Named | None] = ContextVar("named", default=None)


def foreign_classes(values: Any) -> list[str]:
    """The classes named anywhere in plain values that are neither rince's nor torch's, in order, each once."""
    found: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            path = value.get("class_path")
            if isinstance(path, str) and not known_place(path):
                found[path] = None
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(values)
    return list(found)


def without_fetching(values: Any) -> Any:
    """The same settings, none of which downloads anything: a file of somebody else's does not send you to a server."""
    if isinstance(values, dict):
        quiet = {name: _quiet(name, without_fetching(value)) for name, value in values.items()}
        if str(quiet.get("class_path")).endswith("TorchvisionEncoder"):
            given = [quiet[key] for key in ("init_args", "dict_kwargs") if isinstance(quiet.get(key), dict)]
            for arguments in given:
                arguments |= {"weights": None} if "weights" in arguments else {}
        return quiet
    return [without_fetching(value) for value in values] if isinstance(values, list) else values


def _quiet(name: Any, value: Any) -> Any:
    return False if str(name).rpartition(".")[2] in SWITCHES and value is not None else value


def dotted_names(arguments: list[str], settings: Any = None) -> tuple[str, ...]:
    """The import paths among a user's own words and settings, and what they ask to be fetched (as --download).

    Only what is said of a part counts: names of runs and folders are no import paths.
    """
    found: set[str] = set()

    def see(option: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                see(option if name in ("init_args", "dict_kwargs") else f"{option}.{name}".lstrip("."), inner)
        elif isinstance(value, list):
            for inner in value:
                see(option, inner)
        elif option.rpartition(".")[2] in SWITCHES:
            found.add(f"--{option.rpartition('.')[2]}")
        elif isinstance(value, str) and option.split(".")[0] in (*PARTS, "optimizer", "trainer"):
            name = whole_path(option, value)
            is_class = option in PARTS or option.endswith(".class_path")
            if _is_dotted(name) and (is_class or not Path(name).exists()):  # pairs.parquet may be a file
                found.add(name)

    see("", settings or [])
    for option, word in options_in(arguments):
        see(option.removesuffix("+"), _loaded(word))
    return tuple(sorted(found))


def _is_dotted(name: str) -> bool:
    return "." in name and all(word.isidentifier() for word in name.split("."))


def _loaded(word: str | None) -> Any:
    """A word of the command line; nested values where it is written so."""
    import yaml

    if word is not None and word.startswith(("{", "[")):
        with contextlib.suppress(yaml.YAMLError, RecursionError, ValueError):
            return yaml.safe_load(word)
    return word


def known_place(path: str) -> bool:
    """Whether an import path leads to one of rince's rooms, or to torch's networks, losses and optimizers."""
    words = path.split(".")
    if not _is_dotted(path) or any(word.startswith("_") for word in words):
        return False
    if words[0] == "rince":
        return words[1] not in DENIED
    networks = words[:2] == ["torch", "nn"] and (len(words) == 3 or words[2] == "modules")
    return networks or words[:2] == ["torch", "optim"]


@functools.cache
def allowed(path: str) -> bool:
    """Whether an import path leads to a public class that makes a part of a run, of rince or torch, or an objective."""
    kind = _at(path) if known_place(path) else None
    home = _home(kind)
    if not inspect.isclass(kind):
        return home.startswith("rince.losses.objectives.") and known_place(home)
    return known_place(home) and (home.split(".")[:2] in [["rince", room] for room in ROOMS] or issubclass(kind, KINDS))


def _at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except MissingExtra:
        raise
    except (ImportError, AttributeError):
        return None


def _home(found: Any) -> str:
    """Where a class or function was made, whatever name it goes by elsewhere."""
    return f"{found.__module__}.{found.__qualname__}" if inspect.isclass(found) or inspect.isroutine(found) else ""


@contextlib.contextmanager
def trusting(values: Any, source: Path, trust: bool, also: tuple[str, ...] = ()) -> Iterator[None]:
    """Within it, a configuration from ``source`` builds nothing but rince's and torch's classes unless it is trusted.

    The classes that a user would have to trust are listed first; whatever else tries to be imported, in whichever of
    the ways that jsonargparse knows, is denied by jsonargparse itself, and what would be fetched is not built.
    ``also`` is what the user gave, from ``dotted_names``.
    """
    if trust:
        yield
        return
    named = Named(also, [], tuple(name[2:] for name in also if name.startswith("--")))
    if foreign := [name for name in foreign_classes(values) if name not in also]:
        raise UsageError(
            f"{source} names classes that are not rince's: {', '.join(foreign)}. Importing them runs their code: if "
            "you trust them, add --trust-config"
        )
    _register()
    tokens = may_import.set(lambda path: known_place(path) or path in also), _named.set(named)
    with only_imports(lambda path: _may_build(path, named)):
        try:
            yield
        except Exception as error:
            if denied := _denied(error):
                raise UsageError(
                    f"{source} names {denied[:200]}, which is no class of rince's or torch's that makes a part of a "
                    "run: if you trust it, add --trust-config"
                ) from error
            raise
        finally:
            may_import.reset(tokens[0])
            _named.reset(tokens[1])


def _may_build(path: str, named: Named) -> bool:
    """Whether an import path is one of ours, or exactly what the user has named, under this name or where it is."""
    if path in named.paths:
        found = _at(path)
        named.found.extend([] if found is None else [found])
        return True
    return allowed(path) or any(path == _home(each) for each in named.found)


@functools.cache
def _register() -> None:
    """Have jsonargparse build networks and data through ``_built``, once: all ways to write them down end there."""
    from jsonargparse import add_instantiator

    for base in (nn.Module, DataModule):
        add_instantiator(_built, base, prepend=True)


def _built(kind: Any, *args: Any, **kwargs: Any) -> Any:
    """A part of a run; of what somebody else's configuration names, only what fetches nothing."""
    named = _named.get()
    if named is None or any(kind is each for each in named.found):
        return _construct(kind, *args, **kwargs)
    if what := fetched_by(kind, kwargs, named.switches):
        return _construct(_refuse, f"{kind.__name__} would fetch or load {what}: if you trust that, add --trust-config")
    token = may_fetch.set(bool(set(SWITCHES) & set(named.switches)))
    try:
        return _construct(kind, *args, **kwargs)
    finally:
        may_fetch.reset(token)


def _refuse(sentence: str) -> None:
    raise UsageError(sentence)


class Verdicts(dict[str, bool]):
    """What jsonargparse asks about an import path, the whole of it first: answered by a function.

    It is a list that denies everything for whoever reads it in another way.
    """

    def __init__(self, may: Callable[[str], bool]):
        super().__init__({"*": False})
        self.may = may

    def __contains__(self, path: object) -> bool:
        return True

    def __getitem__(self, path: str) -> bool:
        return self.may(path)


@contextlib.contextmanager
def only_imports(may: Callable[[str], bool]) -> Iterator[None]:
    """Let jsonargparse import nothing but what a function allows."""
    import jsonargparse
    from jsonargparse import _common

    before = dict(_common.parsing_settings)
    jsonargparse.set_parsing_settings(import_path_denylist=["*"])
    _common.parsing_settings["import_path_verdicts"] = Verdicts(may)
    try:
        yield
    finally:
        _common.parsing_settings.update(before)


def _denied(error: BaseException | None) -> str:
    """What jsonargparse refused to import, if that is what an error comes from; causes may form a circle."""
    from jsonargparse._common import ImportDenied

    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, ImportDenied):
            return str(error).split("'")[1]
        seen.append(error)
        error = error.__cause__ or error.__context__
    return ""
