"""A run folder as objects again: what `rince evaluate` and `rince export` start from."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rince.errors import MissingFile, UsageError
from rince.train.build import build
from rince.train.checkpoints import read_checkpoint
from rince.train.folder import RunFolder
from rince.train.foreign_code import trusting, without_fetching
from rince.train.parser import parse_settings, train_parser


def load_run(path: str | os.PathLike[str], trained: bool = True, trust: bool = False) -> tuple[Any, Any, Any]:
    """Method (in evaluation mode), data and configuration of a run.

    Args:
        path: The run's folder.
        trained: False leaves the weights as they were drawn.
        trust: Whether classes that are not rince's own may be imported because the configuration names them.

    Raises:
        UsageError: If there is no such run, it is damaged, or it names classes that are not trusted.
    """
    folder = RunFolder(path)
    settings = folder.read_config()
    for unused in ("trainer", "config"):  # nothing of it is built
        settings.pop(unused, None)
    settings = settings if trust else without_fetching(settings)
    with trusting(settings, folder.config, trust):
        parser = _parser_of(settings)
        config = parse_settings(parser, settings)
        method, data, _ = build(parser, config)
    if trained:
        load_weights(method, folder.checkpoint)
    return method.eval(), data, config


@contextmanager
def naming_places(data: Any, config: Path) -> Iterator[None]:
    """Where data of a run are missing whose place is relative: say so, for the run or its data may have been moved."""
    try:
        yield
    except MissingFile as error:
        given = {name: (data.get("init_args") or {}).get(name) for name in ("path", "root")}
        for name, place in given.items():
            if isinstance(place, str) and not Path(place).is_absolute() and not Path(place).exists():
                raise MissingFile(
                    f"{error} (data.{name} stands in {config}, and is relative to the folder of the command)"
                ) from error
        raise


def _parser_of(config: dict[str, Any]) -> Any:
    """A run of `rince finetune` has a few options more."""
    if "from_scratch" in config:
        from rince.train.finetune import finetune_parser

        return finetune_parser()
    return train_parser()


def load_weights(method: Any, checkpoint: Path) -> None:
    """The weights of a checkpoint, read without running anything in it."""
    state = read_checkpoint(checkpoint)["state_dict"]
    check_fit(method, state, checkpoint)
    try:
        method.load_state_dict(state)
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:  # what check_fit cannot see: extra state
        raise UsageError(f"{checkpoint} is of another architecture ({type(error).__name__})") from error


def check_fit(method: Any, state: dict[str, Any], checkpoint: Path) -> None:
    """One sentence on the first weight that does not fit, before anything is loaded."""
    own = {name: value for name, value in method.state_dict().items() if isinstance(value, torch.Tensor)}
    state = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    for name, value in own.items():
        if name not in state:
            raise UsageError(f"{checkpoint} is of another architecture: it has no {name}")
        if state[name].shape != value.shape:
            raise UsageError(
                f"{checkpoint} is of another architecture: "
                f"{name} is {tuple(state[name].shape)} there and {tuple(value.shape)} here"
            )
    if extra := state.keys() - own.keys():
        raise UsageError(f"{checkpoint} is of another architecture: nothing here is called {min(extra)}")
