"""The folder of a run: who may write into it, and how far it is."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from rince._support.atomic_files import write_text, written_whole
from rince._support.fingerprints import of_lines
from rince._support.yaml_files import read_yaml
from rince.errors import ExistingFile, MissingFile, NotAFolder, UsageError

# What may differ between the two halves of a resumed run: where it runs and what is shown, not what is computed.
FREE = (
    "config",
    "out",
    "name",
    "checkpoint_every",
    "data.workers",
    "trainer.devices",
    "trainer.num_nodes",
    "trainer.accelerator",
    "trainer.strategy",
    "trainer.enable_progress_bar",
    "trainer.enable_model_summary",
    "trainer.profiler",
)


class RunFolder:
    """runs/NAME/: config.yaml, metrics.csv, last.ckpt, noise.npz, encoder.safetensors and, at the end, result.json."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.csv"
        self.checkpoint = self.path / "last.ckpt"
        self.previous = self.path / "previous.ckpt"
        self.noise = self.path / "noise.npz"
        self.encoder = self.path / "encoder.safetensors"
        self.result = self.path / "result.json"

    @property
    def begun(self) -> bool:
        """Whether anything has been learnt."""
        return self.checkpoint.exists() or self.previous.exists()

    def check(self, config: dict[str, Any]) -> None:
        """Refuse a finished run, a run of other settings, and a folder that is no run."""
        if self.result.exists():
            raise ExistingFile(
                f"{self.path} is a finished run: choose another --name, or delete the folder to run it again"
            )
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise NotAFolder(f"{self.path} is a file, not the folder of a run")
        if not self.config.exists():
            others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if others:
                raise ExistingFile(
                    f"{self.path} holds {others[0]} but no config.yaml, so it is no run: choose another --name"
                )
            return
        if self.begun:  # before, nothing has been learnt yet, and mistakes can be corrected
            self.check_same(config)

    def read_config(self) -> dict[str, Any]:
        """What config.yaml says."""
        if not self.config.is_file():
            raise MissingFile(f"there is no run at {self.path}: it would hold a config.yaml")
        return read_yaml(self.config)

    def read_result(self) -> dict[str, Any]:
        """What result.json says of a finished run."""
        try:
            result = json.loads(self.result.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self.result} is damaged: remove it to do the rest of the run again") from error
        if not isinstance(result, dict):
            raise UsageError(f"{self.result} is not the result of a run: remove it to do the rest of the run again")
        return result

    def check_same(self, config: dict[str, Any]) -> None:
        """Refuse settings that compute something else than what the folder was started with."""
        old, new = flat(self.read_config()), flat(config)
        for key in sorted(old.keys() | new.keys()):
            if not same(key, old.get(key), new.get(key)) and not key.startswith(FREE):
                raise UsageError(
                    f"{self.path} was started with {key} = {old.get(key)}, now it is {new.get(key)}: "
                    "give the old value to resume, or choose another --name"
                )

    def check_still_there(self) -> None:
        """Notice that somebody has deleted the folder, before a new one is made that holds half of a run."""
        if not self.config.exists():
            raise MissingFile(f"{self.path} was deleted while its run was under way: start it again")

    def start(self, config: str, noise: dict[str, Any]) -> None:
        self._sweep()
        if self.begun:
            return
        for stale in (self.noise, *self.path.glob("skipped.csv"), *self.path.glob(".skipped-*.csv")):
            stale.unlink(missing_ok=True)
        if noise:
            with written_whole(self.noise) as path, open(path, "wb") as file:
                np.savez_compressed(file, **noise)
        write_text(self.config, config)

    def _sweep(self) -> None:
        """Remove what a killed run was writing; it was never whole."""
        for file in (self.config, self.metrics, self.checkpoint, self.noise, self.encoder, self.result):
            for half in self.path.glob(f".{file.name}.*"):
                half.unlink(missing_ok=True)
        for other in self.path.glob("hpc_ckpt_*.ckpt"):  # Lightning would start from it under SLURM
            other.unlink(missing_ok=True)

    def finish(self, result: dict[str, Any]) -> None:
        self.check_still_there()
        write_text(self.result, json.dumps(result, indent=2) + "\n")
        self.previous.unlink(missing_ok=True)  # it has served its purpose


def settings_code(config: dict[str, Any]) -> str:
    """A text that differs where settings compute something else."""
    lines = []
    for key, value in sorted(flat(config).items()):
        if not key.startswith(FREE):
            short = key.endswith("class_path") and str(value).startswith("rince.")
            lines.append(f"{key} = {str(value).rpartition('.')[2] if short else value}")
    return of_lines(lines)


def same(key: str, old: Any, new: Any) -> bool:
    """Whether two values mean the same: a class of rince's has a path of its own and one in its room."""
    if key.endswith("class_path") and str(old).startswith("rince.") and str(new).startswith("rince."):
        return str(old).rpartition(".")[2] == str(new).rpartition(".")[2]
    return bool(old == new)


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"loss": {"init_args": {"q": 1}}} -> {"loss.q": 1}"""
    values: dict[str, Any] = {}
    for key, value in config.items():
        name = prefix if key == "init_args" else f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            values |= flat(value, name)
        else:
            values[name] = value
    return values
