"""The configuration of a run: jsonargparse over the constructors of its parts.

jsonargparse reads files and options, checks types and builds objects. What is added here: defaults that do not leak
into classes the user names, and errors in one sentence with the nearest name.
"""

import contextlib
import difflib
import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import yaml
from torch import nn

from rince._moved import RENAMED_SETTINGS, current_settings
from rince._support.command_errors import innermost_module
from rince._support.optional_imports import install_hint, require
from rince._support.yaml_files import read_yaml
from rince.errors import MissingExtra, UsageError
from rince.train.help import FINETUNE_OPTIONS, OPTIONS, PART_HELP
from rince.train.short_names import PARTS, argument_names, find_config, import_known_classes, known_classes

NO_DATA = "no data: give a configuration, such as digits/simclr (rince train --list), or --data CLASS"

# For small RGB images. The data has no default.
DEFAULTS = {
    "method": {"class_path": "rince.methods.SimCLR"},
    "encoder": {"class_path": "rince.encoders.ConvNet"},
    "loss": {"class_path": "rince.RINCE"},
    "views": {"class_path": "rince.views.SimCLRViews"},
    "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-3}},
}
FINETUNE_DEFAULTS = {
    "method": {"class_path": "rince.methods.FineTune"},
    "loss": {"class_path": "torch.nn.CrossEntropyLoss"},
    "probe": False,
    "out": "",  # below the run
    "trainer.max_epochs": 21,
    "trainer.log_every_n_steps": 10,
}


@dataclass
class TrustSettings:
    """Weights of the training pairs.

    Args:
        source: A table with one row per pair, such as audit/audit.csv or table.parquet:column; "auto" to estimate
            weights, from the inputs or a short warm-up of the model; "copies" to estimate them by copies of the model.
        features: With "auto": .npz file with the arrays a and b, features of both sides of every training pair, to
            estimate weights from. Default: the inputs themselves.
        folds: With "copies": number of copies, each of which scores the pairs that only the others learn from. Default:
            2, or 3 in runs of 20 epochs and more on fewer than 2,000 pairs.
        epochs: With "copies": epochs of each copy. Default: all copies together take as many steps as the run.
        loss: With "copies": "gce", the default, trains the copies with GCE at the temperature of the run if the run has
            InfoNCE or RINCE; "same" with the loss of the run.
    """

    source: str | None = None
    features: str | None = None
    folds: int | None = None
    epochs: int | None = None
    loss: Literal["gce", "same"] | None = None


class Parts(NamedTuple):
    """Objects of a run: a method with its encoder, loss, views and optimizer; the data; options of the trainer."""

    method: Any
    data: Any
    trainer: dict[str, Any]


def train_parser(command: str = "train") -> Any:
    """Parser with one option per part of a run. Each takes any class of its kind by name or import path."""
    jsonargparse = require("jsonargparse", "train")
    lightning = require("lightning.pytorch", "train")
    from rince.data.module import DataModule
    from rince.methods.method import Method

    import_known_classes()
    parser = jsonargparse.ArgumentParser(prog=f"rince {command}", exit_on_error=False)
    parser.add_argument("--config", action="config", help=OPTIONS["config"])
    parser.add_argument("--name", type=str | None, default=None, help=OPTIONS["name"])
    parser.add_argument("--out", type=str, default="runs", help=OPTIONS["out"])
    parser.add_argument("--seed", type=int, default=0, help=OPTIONS["seed"])
    parser.add_argument("--checkpoint_every", type=int, default=100, help=OPTIONS["checkpoint_every"])
    parser.add_argument("--probe", type=bool, nargs="?", const=True, default=True, help=OPTIONS["probe"])
    parser.add_class_arguments(TrustSettings, "trust", instantiate=False)
    # The run passes the first four arguments; the others are options of the method.
    method: Any = Callable[[nn.Module, nn.Module, nn.Module, Any], Method]
    parser.add_argument("--method", type=method, help=PART_HELP["method"])
    parser.add_subclass_arguments(nn.Module, "encoder", help=PART_HELP["encoder"])
    parser.add_subclass_arguments(nn.Module, "loss", skip={"contrast", "reduction"}, help=PART_HELP["loss"])
    parser.add_subclass_arguments(nn.Module, "views", help=PART_HELP["views"])
    optimizer = Callable[[Iterable[Any]], torch.optim.Optimizer]
    parser.add_argument("--optimizer", type=optimizer, help=PART_HELP["optimizer"])
    parser.add_subclass_arguments(DataModule, "data", required=False, help=PART_HELP["data"])
    skip = {"default_root_dir", "enable_checkpointing", "use_distributed_sampler", "fast_dev_run", "inference_mode"}
    parser.add_class_arguments(lightning.Trainer, "trainer", skip=skip, instantiate=False)
    for action in parser._actions:  # typing caches unions in any order, and a float first would read 1 as 1.0
        if action.dest.startswith("trainer.limit_"):
            action._typehint = int | float | None
    parser.set_defaults(DEFAULTS)
    return parser


def finetune_parser(parts: dict[str, Any] | None = None) -> Any:
    """Parser of ``rince train`` with a few more options. ``parts`` of the pretrained run are the defaults."""
    parser = train_parser("finetune")
    parser.add_argument("--run", type=str | None, default=None, help="The run; given as the first argument.")
    parser.add_argument("--tower", type=str | None, default=None, help=FINETUNE_OPTIONS["tower"])
    for name in ("linear", "from_scratch"):
        parser.add_argument(f"--{name}", type=bool, nargs="?", const=True, default=False, help=FINETUNE_OPTIONS[name])
    parser.add_argument("--splits", type=int, nargs="+", default=None, help=FINETUNE_OPTIONS["splits"])
    parser.set_defaults(FINETUNE_DEFAULTS | (parts or {}))
    return parser


def parse(parser: Any, arguments: list[str]) -> Any:
    """Configuration described by command-line arguments.

    Raises:
        UsageError: With one sentence about the first mistake.
    """
    arguments = normalized(arguments)
    words, files = list(arguments), []
    for i, word in enumerate(arguments[1:], start=1):
        if arguments[i - 1] == "--config":
            files.append(word)
            words[i] = yaml.safe_dump(file_settings(Path(word)))
    with _without_defaults(parser, named_classes(arguments)), _one_sentence(parser):
        config = parser.parse_args(words)
    config.config = files or None
    return _checked(config)


def parse_settings(parser: Any, settings: dict[str, Any]) -> Any:
    """Configuration described by nested values, as a file would hold them."""
    settings = _written_out(settings)
    named = {name for name, part in settings.items() if _names_class(part)}
    with _without_defaults(parser, named), _one_sentence(parser):
        return _checked(parser.parse_object(settings))


def file_settings(path: Path) -> dict[str, Any]:
    """Nested values of a configuration file, under current names and with import paths of classes."""
    if not (settings := read_yaml(path)):
        raise UsageError(f"{path} is empty: write options into it, such as seed: 1, or leave it out")
    return _written_out(current_settings(settings))


def _written_out(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with import paths instead of short names of classes, and ``trust: SOURCE`` as ``source``."""

    def full(value: Any) -> Any:
        if isinstance(value, list):
            return [full(item) for item in value]
        if not isinstance(value, dict):
            return value
        named = value.get("class_path")
        return {name: full(item) for name, item in value.items()} | (
            {"class_path": _class_path(named)} if isinstance(named, str) else {}
        )

    settings = full(settings)
    settings |= {name: _class_path(settings[name]) for name in PARTS if isinstance(settings.get(name), str)}
    if isinstance(settings.get("trust"), str):
        settings["trust"] = {"source": settings["trust"]}
    return settings


def _checked(config: Any) -> Any:
    for name, example in (("trainer", "max_epochs: 10"), ("trust", "source: audit/audit.csv")):
        if config.get(name) is not None and not hasattr(config[name], "as_dict"):
            raise UsageError(f"{name} must have options below it, such as {example}, got {config[name]!r}")
    return config


def build(parser: Any, config: Any) -> Parts:
    """Objects of a run, with weights drawn by its seed. Reads and writes nothing."""
    from lightning.pytorch import seed_everything

    if not 0 <= config.seed < 2**32:
        raise UsageError(f"seed must be in [0, {2**32 - 1}], got {config.seed}")
    for part in PARTS:
        if config.get(part) is None:
            raise UsageError(f"{part} is missing: set --{part} CLASS (rince train --help lists the classes)")
    seed_everything(config.seed, verbose=False)
    parts = instantiate(parser, config)
    method, data = parts.method(parts.encoder, parts.loss, parts.views, parts.optimizer), parts.data
    method.seed = data.seed = config.seed
    data.pairing = method.pairing
    return Parts(method, data, dict(parts.trainer))


_constructor_errors: ContextVar[list[Exception] | None] = ContextVar("constructor_errors", default=None)


def instantiate(parser: Any, config: Any) -> Any:
    """Objects described by a configuration.

    Raises:
        UsageError: For values that constructors of rince or torch reject.
        Exception: Errors of the user's own constructors, unchanged.
    """
    _register_constructor()
    errors: list[Exception] = []
    token = _constructor_errors.set(errors)
    try:
        return parser.instantiate(config)
    except Exception:
        # jsonargparse tries every type of a union and reports all failures; the first constructor error is the cause.
        if errors:
            raise errors[0] from errors[0].__cause__
        raise
    finally:
        _constructor_errors.reset(token)


@functools.cache
def _register_constructor() -> None:
    from jsonargparse import add_instantiator

    add_instantiator(_construct, object)


def _construct(kind: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return kind(*args, **kwargs)
    except Exception as error:
        raised: Exception = error
        if not isinstance(error, UsageError) and innermost_module(error).split(".")[0] == "torch":
            raised = UsageError(f"{kind.__name__} rejects its arguments: {_first_line(error)}")
        elif isinstance(error, ModuleNotFoundError) and "lightning" in str(getattr(kind, "__module__", "")):
            raised = MissingExtra(f"{kind.__name__}: {_first_line(error)}")
        if (errors := _constructor_errors.get()) is not None:
            errors.append(raised)
        if raised is error:
            raise
        raise raised from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def normalized(arguments: list[str]) -> list[str]:
    """Arguments as jsonargparse takes them: the leading configuration as ``--config``, and underscores in names."""
    words: list[str] = []
    for word in ["--config", *arguments] if arguments and not arguments[0].startswith("-") else arguments:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            first, dot, rest = name.replace("-", "_").partition(".")
            name = "trust.source" if name == "trust" else RENAMED_SETTINGS.get(first, first) + dot + rest
            words += [f"--{name}", value] if equals else [f"--{name}"]
        else:
            words.append(word)
        if len(words) > 1 and words[-2] == "--config":
            words[-1] = str(find_config(words[-1]))
        elif len(words) > 1 and words[-2].startswith("--"):
            part, _, inner = words[-2][2:].partition(".")
            if part in PARTS and inner in ("", "a", "b", "class_path"):
                words[-1] = _class_path(words[-1])
    # Files, then classes, then their arguments: jsonargparse applies options in order.
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(word)
    rank = {"config": 0, **dict.fromkeys(PARTS, 1)}
    groups.sort(key=lambda group: rank.get(group[0][2:].removesuffix(".class_path"), 2))
    return [word for group in groups for word in group]


def _class_path(name: str) -> str:
    """Import path of a class of rince. jsonargparse would reject a name that another loaded library has, too."""
    return next((classes[name] for classes in known_classes().values() if name in classes), name)


def options_in(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Name and value of every option; None where no value follows."""
    for word, following in itertools.pairwise([*arguments, "--"]):
        if word.startswith("--"):
            yield word[2:], None if following.startswith("--") else following


def named_classes(arguments: list[str]) -> set[str]:
    """Parts for which the user names a class, in a file or on the command line."""
    named = set()
    for name, value in options_in(arguments):
        if value is not None and name.removesuffix(".class_path") in PARTS:
            named.add(name.removesuffix(".class_path"))
        if name == "config" and value is not None:
            named |= {key for key, part in file_settings(Path(value)).items() if _names_class(part)}
    return named


def _names_class(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and "class_path" in part)


@contextlib.contextmanager
def _without_defaults(parser: Any, names: Iterable[str]) -> Iterator[None]:
    """Remove the default classes of some parts.

    jsonargparse would pass the arguments of the default class on to the user's class where names agree: the batch
    size of one data set to another, the width of a small network to a large one.
    """
    kept = {name: parser.get_default(name) for name in names if name in PARTS}
    parser.set_defaults(dict.fromkeys(kept))
    try:
        yield
    finally:
        parser.set_defaults({name: part.as_dict() if hasattr(part, "as_dict") else part for name, part in kept.items()})


@contextlib.contextmanager
def _one_sentence(parser: Any) -> Iterator[None]:
    """Turn errors of jsonargparse into one sentence: the option, the allowed values, the value given."""
    from jsonargparse import ArgumentError

    try:
        yield
    except (ArgumentError, TypeError, ValueError, KeyError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(sentence_for(" ".join(str(error).split()), parser)) from error


UNKNOWN_OPTION = re.compile(r"(?:Option|option) '([^']+)'(?: is not accepted)?|unrecognized arguments: --([^\s=]+)")
UNKNOWN_CLASS = re.compile(
    r"(?:has no attribute|No module named) '|Expected a dot import path string: |Unexpected import path format: "
)
TYPE_NAMES = re.compile(r"<class '(?:[\w.]+\.)?(\w+)'>|(?:typing\.)?Literal\[([^]]*)\]|(?:typing|collections\.abc)\.")


def sentence_for(message: str, parser: Any) -> str:
    """One sentence for an error message of jsonargparse; the end of the message where its form is not known."""
    option = ".".join(re.findall(r'Parser key "([^"]+)"', message))
    if denied := re.search(r"Importing '([^']+)' is not allowed", message):
        return f"{option}: {denied[1][:200]} is not a class of rince or torch: if you trust it, add --allow-custom-code"
    innermost = message.rpartition('Parser key "')[2]
    if unknown := UNKNOWN_OPTION.search(innermost):
        group = re.search(r"Group '([^']+)'", message)
        name = f"{group[1]}.{unknown[1]}" if group and not option else unknown[1] or unknown[2]
        classes = re.findall(r"class_path[=' ]+([\w.]+)", message[: message.find(unknown[0])]) or re.findall(
            r"class_path='([\w.]+)", message
        )
        if not option:
            return _no_option(name, parser)
        if name == "class_path":
            return f"{option}: arguments of a class belong under init_args, not beside class_path"
        if option == "data" and not classes:
            return NO_DATA
        hint = _nearest(name.split(".")[0], argument_names(import_class(classes[-1]))) if classes else ""
        return f"{option}: there is no option '{name}'{hint}"
    if missing := re.search(r"the following arguments are required: ([\w, ]+?)(?: - |$|\.)", message):
        names = missing[1].strip().split(", ")
        return f"{option}: {', '.join(names)} must be given: set --{option}.{names[0]}"
    union = message.rpartition("Union subtypes Subtypes: [")[2] if "Subtypes: [" in message else ""
    types, given = union.partition("] Errors:")[0], union.partition("Given value: ")[2].partition(" - Expected")[0]
    of_values = re.search(r"'(?:int|float|str|bool|list|dict)'|Literal|list\[", types)
    if not of_values and (no_class := UNKNOWN_CLASS.search(innermost)):
        name = re.split(r"[\s']", innermost[no_class.end() :])[0]
        paths = re.findall(r"class_path '([^']+)'|Got value: ([\w.]+)", innermost)
        path = next((a or b for a, b in reversed(paths)), name)
        return _no_class(option, path)
    if of_values:
        return f"{option} must be {TYPE_NAMES.sub(_type_name, types).replace(', ', ' or ')}, got {given!r}"
    if simple := re.search(r"Expected an? (.+?)\. Got value: (.*?)(?: - Expected|$)", innermost):
        return f"{option} must be {TYPE_NAMES.sub(_type_name, simple[1])}, got {simple[2]!r}"
    return TYPE_NAMES.sub(_type_name, innermost.replace('":', ":", 1))[:500]


def _type_name(match: re.Match[str]) -> str:
    """Readable name of a type in an error message of jsonargparse."""
    if match[2] is not None:
        return f"one of {match[2]}"
    return "null" if match[1] == "NoneType" else match[1] or ""


def _no_option(name: str, parser: Any) -> str:
    """Suggest an option of the same group, or the same option of a group with a similar name."""
    options = [*parser.get_defaults(skip_validation=True).keys(branches=True), *PARTS]
    group, dot, rest = name.partition(".")
    if group in options:
        near = _nearest(rest, [o.partition(".")[2] for o in options if o.startswith(f"{group}.")], f"--{group}.{{}}")
    else:
        near = _nearest(group, {o.split(".")[0] for o in options}, f"--{{}}{dot}{rest}")
    return f"there is no option '--{name}'{near}"


def _no_class(option: str, path: str) -> str:
    """Suggest a class of rince for the same part, or a class of the module that the user names."""
    part = option.rpartition(".")[2] if option.endswith("noise") else option.split(".")[0]
    known = dict(known_classes().get(part, {}))
    short = path.rpartition(".")[2]
    if short in known and "." not in path:
        importlib.import_module(known[short].rpartition(".")[0])  # raises MissingExtra
    module = path.rpartition(".")[0]
    if (hint := install_hint(module)) is not None:
        raise MissingExtra(hint)
    if module and module in _loaded_modules():
        kinds = vars(_loaded_modules()[module])
        known |= {name: f"{module}.{name}" for name, kind in kinds.items() if inspect.isclass(kind) and name[0] != "_"}
    hint = _nearest(short, known) or " (give its import path)"
    return f"{option}: there is no class '{path}'{hint}"


def _loaded_modules() -> dict[str, Any]:
    import sys

    return sys.modules


def import_class(path: str) -> type:
    module, _, name = path.rpartition(".")
    kind: type = getattr(importlib.import_module(module), name)
    return kind


def _nearest(name: str, known: Iterable[str], form: str = "{}") -> str:
    """``; did you mean 'X'?`` for the most similar name, ignoring case; empty if none is similar."""
    lower = {each.lower(): each for each in reversed(list(known))}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"; did you mean '{form.format(lower[near[0]])}'?" if near else ""
