"""The configuration of a run, read from the constructors of what it is made of."""

import contextlib
import difflib
import importlib
import inspect
import re
from argparse import ArgumentError
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rince.extras import require

DEFAULTS = {
    "method": {"class_path": "rince.methods.simclr.SimCLR"},
    "encoder": {"class_path": "rince.encoders.convnet.ConvNet"},
    "loss": {"class_path": "rince.RINCE"},
    "views": {"class_path": "rince.views.image.SimCLRViews"},
    "data": {"class_path": "rince.data.digit_images.DigitImages"},
    "optimiser": {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-3}},
}


def train_parser(command: str = "train", usage: str = "[CONFIG.yaml]", description: str | None = None) -> Any:
    """Options named after the parts of a run; each takes any class of its kind."""
    jsonargparse = require("jsonargparse", "train")
    lightning = require("lightning.pytorch", "train")
    from rince.methods.method import Method

    parser = jsonargparse.ArgumentParser(
        prog=f"rince {command}",
        usage=f"rince {command} {usage} [--name NAME] [--trainer.max_epochs 100] [any other option]",
        description=description or "Train an encoder. The same command again resumes an unfinished run.",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="A YAML file with any of the options below.")
    parser.add_argument(
        "--name", type=str | None, default=None, help="Name of the run; the configuration's by default."
    )
    parser.add_argument("--out", type=str, default="runs", help="Folder of all runs.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of everything random but the noise.")
    parser.add_argument("--checkpoint_every", type=int, default=100, help="Steps between two checkpoints.")
    parser.add_argument("--probe", type=bool, default=True, help="Watch a linear probe during training.")
    # The method gets these four from its neighbours below; the rest of its arguments are its own.
    kind = Callable[[nn.Module, nn.Module, nn.Module, Any], Method]
    parser.add_argument("--method", type=kind, help="How views, encoder and loss are put together.")
    parser.add_subclass_arguments(nn.Module, "encoder", help="From a view to features.")
    parser.add_subclass_arguments(nn.Module, "loss", skip={"contrast", "reduction"}, help="What is minimised.")
    parser.add_subclass_arguments(nn.Module, "views", help="From a batch to two views.")
    optimiser = Callable[[Iterable[Any]], torch.optim.Optimizer]
    parser.add_argument("--optimiser", type=optimiser, help="Who takes the steps.")
    parser.add_subclass_arguments(lightning.LightningDataModule, "data", help="What is learnt from.")
    skip = {"default_root_dir", "enable_checkpointing", "use_distributed_sampler", "fast_dev_run", "inference_mode"}
    parser.add_class_arguments(lightning.Trainer, "trainer", skip=skip, instantiate=False)
    parser.set_defaults(DEFAULTS)
    return parser


def parse(parser: Any, arguments: list[str]) -> Any:
    """The configuration that the arguments describe. Whatever is wrong with them is one sentence."""
    if arguments and not arguments[0].startswith("-"):
        if not Path(arguments[0]).is_file():
            raise FileNotFoundError(f"there is no configuration {arguments[0]}")
        arguments = ["--config", *arguments]
    try:
        with _without_defaults(parser, named_classes(arguments)):
            return parser.parse_args(arguments)
    except ArgumentError as error:
        raise ValueError(one_sentence(parser, str(error))) from error


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
        if name == "--config" and Path(file := word.removeprefix("--config=") if given else after).is_file():
            try:
                parts = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
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
        raise ValueError(one_sentence(parser, str(error))) from error


def one_sentence(parser: Any, message: str) -> str:
    """What jsonargparse found wrong, in one line, with the nearest valid name."""
    message = re.sub(r"Type \S.*? expects a function or a callable class: ", "", message)
    if missing := re.search(r"this needs \S+: run pip install \S+", message):
        return missing[0]
    where = re.search(r'Parser key "([\w.]+)"', message)
    prefix = f"{where[1]}: " if where else ""
    if found := re.search(r"unrecognized arguments?: (\S+)", message):
        return _no_option(found[1].split("=")[0], [s for action in parser._actions for s in action.option_strings])
    if found := re.search(r"Key ['\"]?([\w.]+)['\"]? is not expected|[Nn]o action for key \"?([\w.]+)\"?", message):
        return _no_option(found[1] or found[2], [action.dest for action in parser._actions])
    if found := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message):
        return _no_option(f"{found[1]}.{found[2]}", [action.dest for action in parser._actions])
    if found := re.search(r"Option '([\w.]+)' is not accepted", message):
        path = re.search(r"class_path[ ='\"]+([\w.]+)", message)
        return prefix + _no_option(found[1], _arguments_of(path[1]) if path else [])
    if found := re.search(
        r"Expected a path but (\S+) either|No module named '([\w.]+)'|has no attribute '(\w+)'", message
    ):
        keys = re.findall(r'Parser key "([\w.]+)"', message)
        if len(keys) > 1:  # not the class itself but a value of one of its options
            return f"{prefix}{keys[-1]}: '{found[1] or found[2] or found[3]}' is no value that it takes"
        return prefix + _no_class(found[1] or found[2] or found[3])
    if inner := re.search(r'Parser key "([\w.]+)":\s*(Expected[^\n]*)', message):
        return f"{prefix if where and inner[1] != where[1] else ''}{inner[1]}: {_plain(inner[2])}"
    causes = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    useful = [cause for cause in causes if not cause.startswith(CHAFF)]
    return prefix + _plain((useful or causes)[0])


CHAFF = ("Parser key", "Does not validate", "Subtypes", "Errors", "Given value", "Expected a <class 'NoneType'>")


def _no_option(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"there is no option '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")


def _no_class(name: str) -> str:
    """The nearest class of ours that has been imported so far, which is all that a default mentions."""
    known = {kind.__name__: f"{kind.__module__}.{kind.__name__}" for kind in _subclasses(nn.Module)}
    ours = {short: path for short, path in known.items() if path.startswith("rince.")}
    near = difflib.get_close_matches(name.rsplit(".", 1)[-1], ours, n=1, cutoff=0.5)
    return f"there is no class '{name}'" + (
        f"; did you mean '{ours[near[0]]}'?" if near else " (give its whole import path)"
    )


def _subclasses(kind: Any) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


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
