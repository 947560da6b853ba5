"""The configuration of a run, read from the constructors of what it is made of."""

import contextlib
import copy
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rince._support.optional_imports import require
from rince._support.yaml_files import check_text, read_yaml, read_yaml_text
from rince.errors import UsageError
from rince.train.catalogue import PARTS, in_full, whole_numbers_first, whole_path, with_flags, with_whole_paths
from rince.train.config_errors import arguments_of, check_kind, check_part, no_option, wrong_kind, wrong_value
from rince.train.help import OPTIONS, PART_HELP
from rince.train.shipped import find_config
from rince.train.trust.settings import TrustSettings

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
    """Options named after the parts of a run; each takes any class of its kind. Its help is in rince.train.help."""
    jsonargparse = require("jsonargparse", "train")
    lightning = require("lightning.pytorch", "train")
    kinds = kinds_of_parts()
    parser = jsonargparse.ArgumentParser(prog=f"rince {command}", exit_on_error=False)
    parser.add_argument("--config", action="config", help=OPTIONS["config"])
    parser.add_argument("--name", type=str | None, default=None, help=OPTIONS["name"])
    parser.add_argument("--out", type=str, default="runs", help=OPTIONS["out"])
    parser.add_argument("--seed", type=int, default=0, help=OPTIONS["seed"])
    parser.add_argument("--checkpoint_every", type=int, default=100, help=OPTIONS["checkpoint_every"])
    parser.add_argument("--probe", type=bool, default=True, help=OPTIONS["probe"])
    parser.add_class_arguments(TrustSettings, "trust", instantiate=False)
    # The method gets these four from its neighbours below; the rest of its arguments are its own.
    method: Any = Callable[[nn.Module, nn.Module, nn.Module, Any], kinds["method"]]
    parser.add_argument("--method", type=method, help=PART_HELP["method"])
    parser.add_subclass_arguments(nn.Module, "encoder", help=PART_HELP["encoder"])
    parser.add_subclass_arguments(nn.Module, "loss", skip={"contrast", "reduction"}, help=PART_HELP["loss"])
    parser.add_subclass_arguments(nn.Module, "views", help=PART_HELP["views"])
    optimiser = Callable[[Iterable[Any]], torch.optim.Optimizer]
    parser.add_argument("--optimiser", type=optimiser, help=PART_HELP["optimiser"])
    parser.add_subclass_arguments(kinds["data"], "data", required=False, help=PART_HELP["data"])
    skip = {"default_root_dir", "enable_checkpointing", "use_distributed_sampler", "fast_dev_run", "inference_mode"}
    parser.add_class_arguments(lightning.Trainer, "trainer", skip=skip, instantiate=False)
    whole_numbers_first(parser)
    parser.set_defaults(DEFAULTS)
    return parser


def kinds_of_parts() -> dict[str, type]:
    """The class that every part has to be of."""
    from rince.data.module import DataModule
    from rince.methods.method import Method

    modules = {"encoder": nn.Module, "loss": nn.Module, "views": nn.Module}
    return {"method": Method, **modules, "data": DataModule, "optimiser": torch.optim.Optimizer}


def parse(parser: Any, arguments: list[str]) -> Any:
    """The configuration that the arguments describe. Whatever is wrong with them is one sentence."""
    arguments = classes_first(spelled_out(arguments))
    named = named_classes(arguments)
    if parser.get_default("data") is None and "data" not in named and any(n.startswith("data.") for n in named):
        raise UsageError(NO_DATA)
    files = [value for option, value in itertools.pairwise(arguments) if option == "--config"]
    texts = {file: with_whole_paths(read_yaml_text(Path(file))) for file in files}
    words = [texts[word] if before == "--config" else word for before, word in itertools.pairwise(["", *arguments])]
    check_options(parser, arguments)
    with _without_defaults(parser, named):
        settings = described(parser, files, arguments)
        check_settings(parser, settings)
        with _explained(parser, settings):
            config = parser.parse_args(words)
    config.config = files or None
    return config


def parse_settings(parser: Any, settings: dict[str, Any]) -> Any:
    """The configuration that nested values describe, as a file would."""
    settings = in_full(settings)
    check_settings(parser, settings)
    with (
        _without_defaults(parser, {name for name, part in settings.items() if _names_class(part)}),
        _explained(parser, settings),
    ):
        return parser.parse_object(settings)


def spelled_out(arguments: list[str]) -> list[str]:
    """The arguments with the configuration as an option, files and classes by their whole names, and underscores."""
    options: list[str] = []
    for word in ["--config", *arguments] if arguments and not arguments[0].startswith("-") else arguments:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = re.sub(r"^optimizer(?=\.|$)", "optimiser", name[2:].replace("-", "_"))
            option = "trust.source" if option == "trust" else option
            options.append(f"--{option}")
            if equals:
                options[-1:] = ["--config", value] if option == "config" else [f"--{option}={_value(option, value)}"]
        else:
            options.append(_value(options[-1][2:], word) if options and options[-1].startswith("--") else word)
        if len(options) > 1 and options[-2] == "--config":
            options[-1] = str(find_config(options[-1]))
    return with_flags(options)


def classes_first(arguments: list[str]) -> list[str]:
    """Files, then the classes of parts, then everything else: so that arguments meet the class they are meant for."""
    groups: list[list[str]] = []
    for word in arguments:
        if word.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(word)

    def place(group: list[str]) -> int:
        name = group[0].partition("=")[0][2:].removesuffix(".class_path")
        return 0 if name == "config" else 1 if name in PARTS else 2

    return [word for group in sorted(groups, key=place) for word in group]


def _value(option: str, value: str) -> str:
    """What was given for an option, with the import path of a class of ours."""
    return whole_path(option.removesuffix(".help").removesuffix("+"), value)


def options_in(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """Names and values of options that are spelled out; None where a value does not follow."""
    for word, after in itertools.pairwise([*arguments, "--"]):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name != "--":
            yield name[2:], value if equals else None if after.startswith("--") else after


def named_classes(arguments: list[str]) -> set[str]:
    """The parts for which the user names a class, in a file or on the command line."""
    named = set()
    for name, value in options_in(arguments):
        if value is not None:
            named.add(name.removesuffix(".class_path"))
        if name == "config" and value is not None:
            parts = read_yaml(find_config(value))
            named |= {{"optimizer": "optimiser"}.get(key, key) for key, part in parts.items() if _names_class(part)}
    return named


def _names_class(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and "class_path" in part)


def described(parser: Any, files: list[str], arguments: list[str]) -> dict[str, Any]:
    """What files and options say, as nested values: enough to check names, while jsonargparse reads the values."""
    import yaml

    settings: dict[str, Any] = {}
    for part in PARTS:
        default = parser.get_default(part)
        settings |= {} if default is None else {part: copy.deepcopy(_nested(default))}
    for file in files:
        for key, value in (yaml.safe_load(with_whole_paths(read_yaml_text(Path(file)))) or {}).items():
            settings[key] = _merged(settings.get(key), value)
    for name, value in options_in(arguments):
        if not name.endswith(".help") and value is not None and name != "config":
            _put(settings, name.removesuffix("+"), _loaded(value))
        elif value is None:
            settings.setdefault(name.split(".")[0], {})
    return settings


def _loaded(value: str) -> Any:
    """A value of the command line: nested values where it is written so, else the text."""
    import yaml

    if value.startswith(("{", "[")):
        with contextlib.suppress(yaml.YAMLError, RecursionError, ValueError):
            return yaml.safe_load(value)
    return value


def _nested(value: Any) -> Any:
    from jsonargparse import Namespace

    return value.as_dict() if isinstance(value, Namespace) else value


def _merged(old: Any, new: Any) -> Any:
    """Arguments of a class are added to; a class that is named takes its place."""
    if not isinstance(new, dict) or not isinstance(old, dict) or "class_path" in new:
        return new
    return {key: _merged(old.get(key), new.get(key, old.get(key))) for key in {**old, **new}}


def _put(settings: dict[str, Any], name: str, value: Any) -> None:
    part, *inner = [word for word in name.split(".") if word not in ("class_path", "init_args")]
    place, key = settings, part
    for word in inner:
        node = place.get(key)
        if part == "trainer":
            node = node if isinstance(node, dict) else {}
            place[key] = node
            place, key = node, word
            continue
        node = {"class_path": node} if isinstance(node, str) else node if isinstance(node, dict) else {}
        node["init_args"] = dict(node.get("init_args") or {})
        place[key] = node
        place, key = node["init_args"], word
    node = place.get(key)
    place[key] = {**node, "class_path": value} if isinstance(node, dict) and name.endswith(".class_path") else value


def known_options(parser: Any) -> set[str]:
    found = set(parser.get_defaults(skip_validation=True).keys(branches=True))
    return found | {"config", "print_config", "help", *PARTS}


def check_options(parser: Any, arguments: list[str]) -> None:
    """Refuse options of the command line that there are not."""
    known = known_options(parser)
    for name, value in options_in(arguments):
        check_text(name, value)
        group, *inner = name.removesuffix("+").split(".")
        if group not in known or (group == "trainer" and inner and f"trainer.{inner[0]}" not in known):
            raise UsageError(no_option(f"--{name}", known))


def check_settings(parser: Any, settings: dict[str, Any]) -> None:
    """Refuse options that there are not, and classes and arguments that there are not."""
    known, kinds, defaults = known_options(parser), kinds_of_parts(), parser.get_defaults(skip_validation=True)
    for name, value in settings.items():
        if name not in known:
            raise UsageError(no_option(str(name), known))
        if name == "trainer" and isinstance(value, dict):
            for inner in value:
                if f"trainer.{inner}" not in known:
                    raise UsageError(no_option(f"trainer.{inner}", known))
        check_kind(name, value, DEFAULTS.get(name, defaults.get(name)))
        if name in kinds:
            check_part(name, value, kinds[name])


@contextlib.contextmanager
def _explained(parser: Any, settings: dict[str, Any]) -> Iterator[None]:
    """Turn what jsonargparse does not like into one sentence: which option, what it takes, what it got."""
    from jsonargparse import ArgumentError

    try:
        yield
    except (ArgumentError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        sentences = [*_wrong_values(settings), " ".join(str(error).split())]
        raise UsageError(sentences[0]) from error


def _wrong_values(settings: dict[str, Any]) -> Iterator[str]:
    from lightning.pytorch import Trainer

    plain = {"seed": int, "checkpoint_every": int, "probe": bool, "splits": list[int] | None, "linear": bool}
    trainer = settings.get("trainer")
    for name, value in settings.items():
        if name in PARTS:
            yield from wrong_value(name, value)
        elif name in plain:
            yield from wrong_kind(name, value, plain[name])
    for name, value in trainer.items() if isinstance(trainer, dict) else ():
        yield from wrong_kind(f"trainer.{name}", value, arguments_of(Trainer)[0][name].kind)


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
        parser.set_defaults({name: _nested(part) for name, part in kept.items()})
