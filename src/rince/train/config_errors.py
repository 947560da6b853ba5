"""What is wrong with a configuration, in one sentence with the nearest right name.

The facts come from the constructors that the configuration names: which arguments there are, which are missing, and
what kind of value each takes.
"""

import contextlib
import difflib
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from rince._support.optional_imports import install_hint
from rince.errors import MissingExtra, UsageError
from rince.train.catalogue import classes_of

# Arguments that a part gets from the run, not from its configuration.
GIVEN = {
    "method": ("encoder", "loss", "views", "optimiser"),
    "optimiser": ("params",),
    "loss": ("contrast", "reduction"),
}


BESIDE = ("class_path", "init_args", "dict_kwargs")  # what jsonargparse knows of a part

# Options that have options below them, with an example of one.
WITHIN = {"trainer": "max_epochs: 10", "trust": "source: audit/audit.csv"}

# Whether an import path may be followed; settled by rince.train.foreign_code for configurations of others.
may_import: ContextVar[Callable[[str], bool]] = ContextVar("may_import", default=lambda path: True)


class Argument(NamedTuple):
    """An argument of a constructor: what it takes, whether it must be given, whether it is nothing by default."""

    kind: Any
    required: bool
    nothing: bool = False

    def refuses(self, value: Any) -> bool:
        """Whether the value is null, which jsonargparse lets pass for any argument, and this one does not take it."""
        arms = typing.get_args(self.kind) if _is_union(self.kind) else (self.kind,)
        if self.nothing or any(arm in (type(None), Any, object) or isinstance(arm, typing.TypeVar) for arm in arms):
            return False
        if value is None or value in ("null", "Null", "NULL", "~"):  # as YAML writes it
            return True
        said = isinstance(value, str) and value.lower() == "none"
        return said and str not in arms and not any(_is_literal(arm) for arm in arms)


def check_kind(option: str, value: Any, default: Any) -> None:
    """Refuse a number where options belong, and nothing where something is needed."""
    if option in WITHIN and not isinstance(value, dict) and not (option == "trust" and value is None):
        raise UsageError(f"{option} must have options below it, such as {WITHIN[option]}, got {value!r}")
    if value is None and default is not None and option not in WITHIN:
        raise UsageError(f"{option} must not be null: leave it out to get the default")


def check_part(option: str, part: Any, wanted: type | None = None) -> None:
    """Refuse a class that does not exist or is of another kind, arguments it does not have, and those it lacks."""
    path, given = _class_and_arguments(part)
    if path is None:
        return
    if beside := [str(name) for name in part if name not in BESIDE] if isinstance(part, dict) else []:
        raise UsageError(
            f"{option}: {', '.join(beside)} must not stand beside class_path: put {beside[0]} under init_args"
        )
    kind = class_at(option, path)
    if not inspect.isclass(kind):
        return  # a function that makes one: jsonargparse knows more about it
    if wanted is not None and not issubclass(kind, wanted):
        raise UsageError(f"{option}: {path} is no {wanted.__name__}")
    known, complete = arguments_of(kind)
    skipped = GIVEN.get(option, ())
    for name, value in given.items():
        if complete and (name not in known or name in skipped):
            choices = [each for each in known if each not in skipped]
            raise UsageError(f"{option}: {no_such('option', name, choices)}")
        if name in known and known[name].refuses(value):
            raise UsageError(f"{option}.{name} must be {readable(known[name].kind)}, got null")
        inner = part_of(value, known[name].kind) if name in known else None
        if inner is not None:
            check_part(f"{option}.{name}", inner)
    for name, argument in known.items():
        if argument.required and name not in given and name not in skipped:
            raise UsageError(f"{option}: {name} is missing: set {option}.{name}")


def part_of(value: Any, kind: Any) -> Any:
    """A value as a part of its own if it is one: a class with arguments, or arguments of the one class it takes."""
    if isinstance(value, dict) and "class_path" in value:
        return value
    arms = [arm for arm in (typing.get_args(kind) or (kind,)) if arm is not type(None)]
    if len(arms) != 1 or not inspect.isclass(arms[0]) or arms[0].__module__ == "builtins":
        return None
    if isinstance(value, str):
        return None if value.lower() in ("null", "none") else value  # the command line's way to say nothing
    if isinstance(value, dict) and not inspect.isabstract(arms[0]) and "init_args" in value:
        return {"class_path": f"{arms[0].__module__}.{arms[0].__qualname__}", **value}
    return None


def _class_and_arguments(part: Any) -> tuple[str | None, dict[str, Any]]:
    if isinstance(part, str):
        return part, {}
    if not isinstance(part, dict) or not isinstance(part.get("class_path"), str):
        return None, {}
    given = part.get("init_args") or {}
    return part["class_path"], given if isinstance(given, dict) else {}


def class_at(option: str, path: str) -> Any:
    """What an import path leads to; the nearest class of that kind where it leads nowhere."""
    module, _, name = path.rpartition(".")
    if not may_import.get()(path):
        raise UsageError(f"{option}: {path} is not rince's: if you trust its code, add --trust-config")
    try:
        found: Any = importlib.import_module(module) if _is_import_path(path) else None
        return getattr(found, name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if (hint := install_hint(missing)) is not None:
            raise MissingExtra(hint) from error
        if not f"{module}.".startswith(f"{missing}."):  # something that the module itself imports
            raise
    except (AttributeError, ValueError, TypeError):
        pass
    raise UsageError(f"{option}: {_no_class(path, option)}")


def _is_import_path(path: str) -> bool:
    """Whether it reads module.name; '..x' would be relative to nothing."""
    return "." in path and all(part.isidentifier() for part in path.split("."))


def _no_class(path: str, option: str) -> str:
    known = classes_of(option)
    module, _, short = path.rpartition(".")
    theirs: dict[str, Any] = {}
    if _is_import_path(path) and module != "rince" and may_import.get()(path):
        with contextlib.suppress(ImportError, ValueError):
            theirs = vars(importlib.import_module(module))
    public = {each: f"{module}.{each}" for each, kind in theirs.items() if inspect.isclass(kind) and each[0] != "_"}
    near = nearest(short, [*known, *(each for each in public if each not in known)])
    if near is None:
        return f"there is no class '{path}' (give its whole import path)"
    return f"there is no class '{path}'; did you mean '{(public | known)[near]}'?"


def arguments_of(kind: Any) -> tuple[dict[str, Argument], bool]:
    """The arguments of a constructor and of those it hands its keywords on to; whether these are all there are."""
    found: dict[str, Argument] = {}
    for number, each in enumerate(inspect.getmro(kind)):
        init = vars(each).get("__init__")
        if init is None or each is object:
            continue
        try:
            parameters = inspect.signature(init).parameters.values()
        except ValueError:
            return found, False
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)][1:]
        hints: dict[str, Any] = {}
        with contextlib.suppress(Exception):  # an annotation that only exists for type checkers
            hints = typing.get_type_hints(init)
        for parameter in named:
            # What a parent requires, its child may well give.
            required = number == 0 and parameter.default is parameter.empty
            nothing = parameter.default is None
            found.setdefault(parameter.name, Argument(hints.get(parameter.name, Any), required, nothing))
        if not any(p.kind == p.VAR_KEYWORD for p in parameters) or (not named and not found and _is_frame(each)):
            return found, True
        if _is_frame(each):
            return found, True
    return found, True


def _is_frame(kind: type) -> bool:
    """Whether it is one of the classes that take whatever they are given and use none of it."""
    return kind.__module__.split(".")[0] in ("torch", "lightning", "pytorch_lightning")


def no_such(what: str, name: Any, known: Iterable[str]) -> str:
    near = nearest(str(name), known)  # in YAML a name may be a number
    return f"there is no {what} '{name}'" + (f"; did you mean '{near}'?" if near else "")


def no_option(name: str, known: Iterable[str]) -> str:
    """An option of the same group, or the same option of the group that was meant."""
    dashes = "--" if name.startswith("--") else ""
    group, dot, rest = name.removeprefix("--").partition(".")
    options = sorted(known)
    groups = {option.split(".")[0] for option in options}
    if dot and group in groups:
        near = nearest(rest, [option.partition(".")[2] for option in options if option.startswith(f"{group}.")])
        near = near and f"{group}.{near}"
    else:
        near = nearest(group, groups)
        near = near and f"{near}{dot}{rest}"
    return f"there is no option '{name}'" + (f"; did you mean '{dashes}{near}'?" if near else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """However the letters are written, large or small."""
    lower: dict[str, str] = {}
    for each in known:
        lower.setdefault(each.lower(), each)
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return lower[near[0]] if near else None


def wrong_value(option: str, part: Any) -> Iterator[str]:
    """A sentence on every value that is not of the kind its argument takes; values of parts within it too."""
    path, given = _class_and_arguments(part)
    if path is None:
        return
    kind = class_at(option, path)
    known = arguments_of(kind)[0] if inspect.isclass(kind) else {}
    for name, value in given.items():
        inner = part_of(value, known[name].kind) if name in known else None
        if inner is not None:
            yield from wrong_value(f"{option}.{name}", inner)
        elif name in known:
            yield from wrong_kind(f"{option}.{name}", value, known[name].kind)


def wrong_kind(option: str, value: Any, kind: Any) -> Iterator[str]:
    from jsonargparse import ArgumentError, ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_argument("--value", type=kind)
    except ValueError:
        return  # a kind that cannot be checked
    try:
        parser.parse_object({"value": value})
    except (ArgumentError, TypeError, ValueError, OverflowError):
        yield f"{option} must be {readable(kind)}, got {shown(value)}"


def shown(value: Any) -> str:
    """A value as it would be written, up to a length that fits into a sentence."""
    try:
        text = repr(value)
    except ValueError:  # of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}..."


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Literal


def readable(kind: Any) -> str:
    """int, or one of 'bin', 'sound': a kind of values as a user would say it."""
    if _is_literal(kind):
        return "one of " + ", ".join(map(repr, typing.get_args(kind)))
    if _is_union(kind):
        return " or ".join(map(readable, typing.get_args(kind)))
    if kind is type(None):
        return "null"
    if inspect.isclass(kind) and not typing.get_args(kind):
        return kind.__name__
    return inspect.formatannotation(kind).replace("typing.", "").replace("collections.abc.", "")
