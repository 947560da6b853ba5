"""A run folder as objects again: what `rince evaluate` and `rince export` start from."""

import os
from pathlib import Path
from typing import Any

import torch

from rince.errors import MissingFile, UsageError
from rince.train.folder import RunFolder
from rince.train.parser import instantiate, parse, train_parser


def load_run(path: str | os.PathLike[str], trained: bool = True) -> tuple[Any, Any, Any]:
    """Method (in evaluation mode), data and configuration of a run; ``trained=False`` leaves the weights as drawn."""
    from lightning.pytorch import seed_everything

    folder = RunFolder(path)
    if not folder.config.exists():
        raise MissingFile(f"there is no run at {Path(path)}: it would hold a config.yaml")
    parser = _parser_of(folder)
    config = parse(parser, [str(folder.config)])
    seed_everything(config.seed, verbose=False)
    parts = instantiate(parser, config)
    method = parts.method(parts.encoder, parts.loss, parts.views, parts.optimiser)
    parts.data.seed, parts.data.pairing = config.seed, method.pairing
    if trained:
        load_weights(method, folder.checkpoint)
    return method.eval(), parts.data, config


def _parser_of(folder: RunFolder) -> Any:
    """A run of `rince finetune` has a few options more."""
    import yaml

    if "from_scratch" in (yaml.safe_load(folder.config.read_text(encoding="utf-8")) or {}):
        from rince.train.finetune import finetune_parser

        return finetune_parser()
    return train_parser()


def load_weights(method: Any, checkpoint: Path) -> None:
    """The weights of a checkpoint, read without running anything in it."""
    if not checkpoint.exists():
        raise MissingFile(f"{checkpoint.parent} has no checkpoint yet: it was stopped before its first one")
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except (KeyError, TypeError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise UsageError(f"{checkpoint} is no checkpoint of rince ({type(error).__name__})") from error
    except Exception as error:  # pickle.UnpicklingError and whatever else a hostile file provokes
        raise UsageError(f"{checkpoint} was refused: it holds more than weights") from error
    check_fit(method, state, checkpoint)
    method.load_state_dict(state)


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
