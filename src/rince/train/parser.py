"""The configuration of a run, read from the constructors of what it is made of."""

import contextlib
import itertools
from argparse import ArgumentError
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rince._support.optional_imports import require
from rince.errors import UsageError
from rince.train.catalogue import whole_path, with_whole_paths
from rince.train.complaint import one_sentence
from rince.train.guide import OPTIONS, PART_HELP
from rince.train.shipped import find_config

NO_DATA = (
    "say what to learn from: give a configuration, such as digits/simclr (rince train --list shows them), or --data "
    "CLASS (rince train --help)"
)

# Made for small RGB images; what to learn from is for the user to say.
DEFAULTS = {
    "method": {"class_path": "rince.methods.simclr.SimCLR"},
    "encoder": {"class_path": "rince.encoders.convnet.ConvNet"},
    "loss": {"class_path": "rince.RINCE"},
    "views": {"class_path": "rince.views.image.SimCLRViews"},
    "optimiser": {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-3}},
}


def train_parser(command: str = "train") -> Any:
    """Options named after the parts of a run; each takes any class of its kind. Its help is in rince.train.guide."""
    jsonargparse = require("jsonargparse", "train")
    lightning = require("lightning.pytorch", "train")
    from rince.data.module import DataModule
    from rince.methods.method import Method

    parser = jsonargparse.ArgumentParser(prog=f"rince {command}", exit_on_error=False)
    parser.add_argument("--config", action="config", help=OPTIONS["config"])
    parser.add_argument("--name", type=str | None, default=None, help=OPTIONS["name"])
    parser.add_argument("--out", type=str, default="runs", help=OPTIONS["out"])
    parser.add_argument("--seed", type=int, default=0, help=OPTIONS["seed"])
    parser.add_argument("--checkpoint_every", type=int, default=100, help=OPTIONS["checkpoint_every"])
    parser.add_argument("--probe", type=bool, default=True, help=OPTIONS["probe"])
    # The method gets these four from its neighbours below; the rest of its arguments are its own.
    kind = Callable[[nn.Module, nn.Module, nn.Module, Any], Method]
    parser.add_argument("--method", type=kind, help=PART_HELP["method"])
    parser.add_subclass_arguments(nn.Module, "encoder", help=PART_HELP["encoder"])
    parser.add_subclass_arguments(nn.Module, "loss", skip={"contrast", "reduction"}, help=PART_HELP["loss"])
    parser.add_subclass_arguments(nn.Module, "views", help=PART_HELP["views"])
    optimiser = Callable[[Iterable[Any]], torch.optim.Optimizer]
    parser.add_argument("--optimiser", type=optimiser, help=PART_HELP["optimiser"])
    parser.add_subclass_arguments(DataModule, "data", required=False, help=PART_HELP["data"])
    skip = {"default_root_dir", "enable_checkpointing", "use_distributed_sampler", "fast_dev_run", "inference_mode"}
    parser.add_class_arguments(lightning.Trainer, "trainer", skip=skip, instantiate=False)
    parser.set_defaults(DEFAULTS)
    return parser


def parse(parser: Any, arguments: list[str]) -> Any:
    """The configuration that the arguments describe. Whatever is wrong with them is one sentence."""
    arguments = spelled_out(arguments)
    named = named_classes(arguments)
    if parser.get_default("data") is None and "data" not in named and any(n.startswith("data.") for n in named):
        raise UsageError(NO_DATA)
    files = [value for option, value in itertools.pairwise(arguments) if option == "--config"]
    words = [_text_of(word) if before == "--config" else word for before, word in itertools.pairwise(["", *arguments])]
    try:
        with _without_defaults(parser, named):
            config = parser.parse_args(words)
    except ArgumentError as error:
        raise UsageError(one_sentence(parser, str(error))) from error
    config.config = files or None
    return config


def spelled_out(arguments: list[str]) -> list[str]:
    """The arguments with the configuration as an option, files and classes by their whole names, and underscores."""
    words = list(arguments)
    if words and not words[0].startswith("-"):
        words = ["--config", *words]
    told: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = name[2:].replace("-", "_")
            told.append(f"--{option}")
            if equals:
                told[-1:] = ["--config", value] if option == "config" else [f"--{option}={_value(option, value)}"]
        else:
            told.append(_value(told[-1][2:], word) if told and told[-1].startswith("--") else word)
        if len(told) > 1 and told[-2] == "--config":
            told[-1] = str(find_config(told[-1]))
    return told


def _value(option: str, value: str) -> str:
    """What was given for an option, with the import path of a class of ours."""
    return whole_path(option.removesuffix(".help").removesuffix("+"), value)


def _text_of(file: str) -> str:
    """The file itself or, where it has short names of classes, its content with whole ones."""
    import yaml

    try:
        text = Path(file).read_text(encoding="utf-8")
        whole = with_whole_paths(text)
    except (yaml.YAMLError, UnicodeDecodeError):
        return file  # what is wrong with it is told when it is parsed
    return file if whole == text else whole


def parse_settings(parser: Any, settings: dict[str, Any]) -> Any:
    """The configuration that nested values describe, as a file would."""
    with _without_defaults(parser, {name for name, part in settings.items() if _names_class(part)}):
        return parser.parse_object(settings)


def named_classes(arguments: list[str]) -> set[str]:
    """The parts for which the user names a class, in a file or on the command line."""
    import yaml

    named = set()
    for place, word in enumerate(arguments):
        after = arguments[place + 1] if place + 1 < len(arguments) else "--"
        name, given, _ = word.partition("=")
        if name.startswith("--") and (given or not after.startswith("-")):
            named.add(name[2:].removesuffix(".class_path"))
        if name == "--config" and (file := word.removeprefix("--config=") if given else after) != "--":
            try:
                parts = yaml.safe_load(find_config(file).read_text(encoding="utf-8"))
            except (yaml.YAMLError, UnicodeDecodeError):
                continue  # what is wrong with it is told when it is parsed
            named |= {key for key, part in parts.items() if _names_class(part)} if isinstance(parts, dict) else set()
    return named


def _names_class(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and "class_path" in part)


@contextlib.contextmanager
def _without_defaults(parser: Any, names: set[str]) -> Iterator[None]:
    """Leave out the default classes of some parts.

    Otherwise arguments of the default class would become those of the user's class where they have the same names: a
    batch size of one data set that of another, the width of a small network that of a large one.
    """
    kept = {name: parser.get_default(name) for name in names if name in DEFAULTS}
    parser.set_defaults(dict.fromkeys(kept))
    try:
        yield
    finally:
        parser.set_defaults({name: part.as_dict() if hasattr(part, "as_dict") else part for name, part in kept.items()})


def instantiate(parser: Any, config: Any) -> Any:
    """The objects that the configuration describes; what a constructor does not like is one sentence."""
    try:
        return parser.instantiate(config)
    except (ValueError, TypeError) as error:
        raise UsageError(one_sentence(parser, str(error))) from error
