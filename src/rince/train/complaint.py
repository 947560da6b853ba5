"""What is wrong with a configuration, in one sentence, with the nearest name of the same kind."""

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from rince.train.catalogue import classes_of

CHAFF = ("Parser key", "Does not validate", "Subtypes", "Errors", "Given value", "Expected a <class 'NoneType'>")
NO_CLASS = r"Expected a path but (\S+) either|No module named '[\w.]+'|has no attribute '\w+'|import path string: (\S+)"


def one_sentence(parser: Any, message: str) -> str:
    """What jsonargparse found wrong, in one line, with the nearest valid name."""
    message = re.sub(r"Type \S.*? expects a function or a callable class: ", "", message)
    if missing := re.search(r"this needs \S+: run pip install \S+", message):
        return missing[0]
    keys = re.findall(r'Parser key "([\w.]+)"', message)
    prefix = f"{keys[0]}: " if keys else ""
    if found := re.search(r"arguments are required: ([\w.]+)", message):
        option = ".".join([*keys, found[1]])
        return f"{'.'.join(keys)}: {found[1]} is missing: set {option}"
    if found := re.search(r"unrecognized arguments?: (\S+)|Option '([\w.]+)' is not accepted", message):
        name = (found[1] or found[2]).split("=")[0]
        if not keys:
            return _no_option(name, {s for action in parser._actions for s in action.option_strings})
        classes = re.findall(r"class_path[ ='\"]+([\w.]+)", message)
        arguments = _arguments_of(classes[-1]) if classes else []
        return f"{'.'.join(keys)}: {_no_argument(name.lstrip('-').split('.')[0], arguments)}"
    if found := re.search(r"Key ['\"]?([\w.]+)['\"]? is not expected|[Nn]o action for key \"?([\w.]+)\"?", message):
        return _no_option(found[1] or found[2], {action.dest for action in parser._actions})
    if found := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message):
        return _no_option(f"{found[1]}.{found[2]}", {action.dest for action in parser._actions})
    if found := re.search(NO_CLASS, message):
        given = re.findall(r"(?:Given value:|Got value:|given class_path) ['\"]?([\w.]+)", message)
        name = found[1] or found[2] or (given[0] if given else "")
        if len(keys) > 1 and not classes_of(".".join(keys), nested=False):  # no class is wanted there
            return f"{prefix}{keys[-1]}: '{name}' is no value that it takes"
        return f"{'.'.join(keys)}: {_no_class(name, '.'.join(keys))}"
    if inner := re.search(r'Parser key "([\w.]+)":\s*(Expected[^\n]*)', message):
        return f"{prefix if keys and inner[1] != keys[0] else ''}{inner[1]}: {_plain(inner[2])}"
    causes = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    useful = [cause for cause in causes if not cause.startswith(CHAFF)]
    return prefix + _plain((useful or causes)[0])


def _no_option(name: str, known: set[str]) -> str:
    """An option of the same group, or the same option of the group that was meant."""
    dashes = "--" if name.startswith("--") else ""
    group, dot, rest = name.removeprefix("--").partition(".")
    options = sorted(option.removeprefix("--") for option in known if option)
    groups = {option.split(".")[0] for option in options}
    if dot and group in groups:
        near = _nearest(rest, [option.partition(".")[2] for option in options if option.startswith(f"{group}.")])
        near = near and f"{group}.{near}"
    else:
        near = _nearest(group, groups)
        near = near and f"{near}{dot}{rest}"
    return f"there is no option '{name}'" + (f"; did you mean '{dashes}{near}'?" if near else "")


def _no_argument(name: str, known: Iterable[str]) -> str:
    near = _nearest(name, known)
    return f"there is no option '{name}'" + (f"; did you mean '{near}'?" if near else "")


def _no_class(name: str, option: str) -> str:
    """The nearest class that the option may name: one of ours, or one of the module that was given."""
    known = classes_of(option)
    module, _, short = name.rpartition(".")
    try:
        theirs = vars(importlib.import_module(module)) if module and module != "rince" else {}
    except ImportError:
        theirs = {}
    public = {each: f"{module}.{each}" for each, kind in theirs.items() if inspect.isclass(kind) and each[0] != "_"}
    near = _nearest(short, [*known, *(each for each in public if each not in known)])
    if near is None:
        return f"there is no class '{name}' (give its whole import path)"
    return f"there is no class '{name}'; did you mean '{(public | known)[near]}'?"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """However the letters are written, large or small."""
    lower: dict[str, str] = {}
    for each in known:
        lower.setdefault(each.lower(), each)
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return lower[near[0]] if near else None


def _plain(text: str) -> str:
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text).replace("typing.", "")


def _arguments_of(class_path: str) -> list[str]:
    module, _, name = class_path.rpartition(".")
    names: list[str] = []
    kinds: Any = inspect.getmro(getattr(importlib.import_module(module), name))
    for kind in kinds:
        if "__init__" in vars(kind):
            names += [p for p in inspect.signature(kind.__init__).parameters if p not in ("self", "args", "kwargs")]
    return names
