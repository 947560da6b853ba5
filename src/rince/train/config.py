"""The configuration of a run: jsonargparse over the constructors of its parts.

jsonargparse reads files and options, checks types and builds objects. This module adds defaults that do not leak into
classes the user names, and one-sentence errors that suggest the nearest name.
"""

import contextlib
import difflib
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import yaml
from torch import nn

from rince._moved import RENAMED_SETTINGS, current_settings
from rince._support.command_errors import first_line, innermost_module
from rince._support.optional_imports import install_hint, require
from rince.errors import MissingExtra, UsageError
from rince.train.run_folder import read_yaml
from rince.train.short_names import PARTS, find_config, import_class, known_classes

NO_DATA = "no data: give a configuration, such as digits/simclr (rince train --list), or --data CLASS"

# Last words of the options that take the name of a class.
CLASS_OPTIONS = (*PARTS, "a", "b", "class_path", "noise", "callbacks", "help")

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
    """Parser with one option per part of a run. Each takes any class of its kind by name or import path.

    The texts of ``--help`` are in ``rince.train.help``.
    """
    jsonargparse = require("jsonargparse", "train")
    lightning = require("lightning.pytorch", "train")
    from rince.data.module import DataModule
    from rince.methods.method import Method

    parser = jsonargparse.ArgumentParser(prog=f"rince {command}", exit_on_error=False)
    parser.add_argument("--config", action="config")
    parser.add_argument("--name", type=str | None, default=None)
    parser.add_argument("--out", type=str, default="runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint_every", type=int, default=100)
    parser.add_argument("--probe", type=bool, nargs="?", const=True, default=True)
    parser.add_class_arguments(TrustSettings, "trust", instantiate=False)
    # The run passes the first four arguments; the others are options of the method.
    method: Any = Callable[[nn.Module, nn.Module, nn.Module, Any], Method]
    parser.add_argument("--method", type=method)
    parser.add_subclass_arguments(nn.Module, "encoder")
    parser.add_subclass_arguments(nn.Module, "loss", skip={"contrast", "reduction"})
    parser.add_subclass_arguments(nn.Module, "views")
    parser.add_argument("--optimizer", type=Callable[[Iterable[Any]], torch.optim.Optimizer])
    parser.add_subclass_arguments(DataModule, "data", required=False)
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
    parser.add_argument("--run", type=str | None, default=None)
    parser.add_argument("--tower", type=str | None, default=None)
    parser.add_argument("--linear", type=bool, nargs="?", const=True, default=False)
    parser.add_argument("--from_scratch", type=bool, nargs="?", const=True, default=False)
    parser.add_argument("--splits", type=int, nargs="+", default=None)
    parser.set_defaults(FINETUNE_DEFAULTS | (parts or {}))
    return parser


def parse(parser: Any, arguments: list[str]) -> Any:
    """Configuration described by command-line arguments.

    Raises:
        UsageError: With one sentence about the first mistake.
    """
    words = normalized(arguments)
    named, files = named_classes(words), []
    for i, (option, value) in enumerate(itertools.pairwise(words), start=1):
        if option == "--config":
            files.append(value)
            words[i] = yaml.safe_dump(file_settings(Path(value)))
    with _without_defaults(parser, named), _one_sentence(parser):
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
        value = {name: full(item) for name, item in value.items()}
        if isinstance(value.get("class_path"), str):
            value["class_path"] = _class_path(value["class_path"])
        return value

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


_constructor_errors: list[Exception] = []


def instantiate(parser: Any, config: Any) -> Any:
    """Objects described by a configuration.

    Raises:
        UsageError: For values that constructors of rince or torch reject.
        Exception: Errors of the user's own constructors, unchanged.
    """
    _register_constructor()
    _constructor_errors.clear()
    try:
        return parser.instantiate(config)
    except Exception:
        # jsonargparse tries every type of a union and reports all failures; the first constructor error is the cause.
        if _constructor_errors:
            raise _constructor_errors[0] from _constructor_errors[0].__cause__
        raise


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
            raised = UsageError(f"{kind.__name__} rejects its arguments: {first_line(error)}")
        elif isinstance(error, ModuleNotFoundError) and "lightning" in str(getattr(kind, "__module__", "")):
            raised = MissingExtra(f"{kind.__name__}: {first_line(error)}")
        _constructor_errors.append(raised)
        if raised is error:
            raise
        raise raised from error


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
        elif len(words) > 1 and re.split(r"[.-]+", words[-2].removesuffix("+"))[-1] in CLASS_OPTIONS:
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


def named_classes(arguments: list[str]) -> set[str]:
    """Parts for which the user names a class, in a file or on the command line."""
    named = set()
    for word, value in itertools.pairwise(arguments):
        name = word[2:].removesuffix(".class_path") if word.startswith("--") else ""
        if name in PARTS and not value.startswith("--"):
            named.add(name)
        if name == "config":
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
TYPE = re.compile(r"<class '(?:[\w.]+\.)?(\w+)'>|(?:typing\.)?Literal\[([^]]*)\]|(?:typing|collections\.abc)\.")


def sentence_for(message: str, parser: Any) -> str:
    """One sentence for an error message of jsonargparse; the end of the message where its form is not known."""
    option, inner = ".".join(re.findall(r'Parser key "([^"]+)"', message)), message.rpartition('Parser key "')[2]
    if denied := re.search(r"Importing '([^']+)' is not allowed", message):
        return f"{option}: {denied[1][:200]} is not a class of rince or torch: if you trust it, add --allow-custom-code"
    if unknown := UNKNOWN_OPTION.search(inner):
        group = re.search(r"Group '([^']+)'", message)
        name = f"{group[1]}.{unknown[1]}" if group and not option else unknown[1] or unknown[2]
        classes = re.findall(r"class_path[=' ]+([\w.]+)", message)
        if not option:
            return _no_option(name, parser)
        if name == "class_path":
            return f"{option}: arguments of a class belong under init_args, not beside class_path"
        if option == "data" and not classes:
            return NO_DATA
        hint = _nearest(name.split(".")[0], argument_names(import_class(classes[-1]))) if classes else ""
        return f"{option}: there is no option '{name}'{hint}"
    if missing := re.search(r"the following arguments are required: ([\w, ]+?)(?: - |$|\.)", message):
        return f"{option}: {missing[1]} must be given: set --{option}.{missing[1].split(', ')[0]}"
    types = inner.partition("Subtypes: [")[2].partition("] Errors:")[0]
    if re.search(r"'(?:int|float|str|bool|list|dict)'|Literal|list\[", types):
        given = inner.partition("Given value: ")[2].partition(" - Expected")[0]
        return f"{option} must be {_readable(types).replace(', ', ' or ')}, got {given!r}"
    if no_class := UNKNOWN_CLASS.search(inner):
        paths = re.findall(r"class_path '([^']+)'|Got value: ([\w.]+)", inner)
        path = next((a or b for a, b in reversed(paths)), re.split(r"[\s']", inner[no_class.end() :])[0])
        return _no_class(option, path)
    if simple := re.search(r"Expected an? (.+?)\. Got value: (.*?)(?: - Expected|$)", inner):
        return f"{option} must be {_readable(simple[1])}, got {simple[2]!r}"
    return _readable(inner.replace('":', ":", 1))[:500]


def _readable(text: str) -> str:
    """A message of jsonargparse with readable names of types."""
    names = {"NoneType": "null"}
    return TYPE.sub(lambda m: f"one of {m[2]}" if m[2] else names.get(m[1], m[1] or ""), text)


def _no_option(name: str, parser: Any) -> str:
    """Suggest an option of the same group, or the same option of a group with a similar name."""
    options = [*parser.get_defaults(skip_validation=True).keys(branches=True), *PARTS]
    group, dot, rest = name.partition(".")
    if group in options:
        suggestion = _nearest(
            rest, [o.partition(".")[2] for o in options if o.startswith(f"{group}.")], f"--{group}.{{}}"
        )
    else:
        suggestion = _nearest(group, {o.split(".")[0] for o in options}, f"--{{}}{dot}{rest}")
    return f"there is no option '--{name}'{suggestion}"


def _no_class(option: str, path: str) -> str:
    """Suggest a class of rince for the same part, or a class of the module that the user names."""
    classes = dict(
        known_classes().get(option.rpartition(".")[2] if option.endswith("noise") else option.split(".")[0], {})
    )
    module, _, name = path.rpartition(".")
    if path in classes:
        import_class(classes[path])  # raises MissingExtra
    if (hint := install_hint(module)) is not None:
        raise MissingExtra(hint)
    if module in sys.modules:
        classes |= {
            name: "" for name, kind in vars(sys.modules[module]).items() if inspect.isclass(kind) and name[0] != "_"
        }
    hint = _nearest(name, classes) or " (give its import path)"
    return f"{option}: there is no class '{path}'{hint}"


def argument_names(kind: type) -> list[str]:
    """Names of the arguments of a class and its bases."""
    inits = [vars(base)["__init__"] for base in inspect.getmro(kind) if "__init__" in vars(base)]
    return [name for init in inits if inspect.isfunction(init) for name in list(inspect.signature(init).parameters)[1:]]


def _nearest(name: str, names: Iterable[str], form: str = "{}") -> str:
    """``; did you mean 'X'?`` for the most similar name, ignoring case; empty if none is similar."""
    lower = {candidate.lower(): candidate for candidate in reversed(list(names))}
    matches = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"; did you mean '{form.format(lower[matches[0]])}'?" if matches else ""
