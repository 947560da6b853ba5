"""Run folders: their files, and whether a command may write into them."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rince._moved import current_settings
from rince._support.atomic_files import write_text, written_whole
from rince._support.fingerprints import of_lines
from rince.errors import ExistingFile, MissingFile, NotAFolder, UsageError
from rince.train.short_names import current_paths

# Settings that may change when a run is resumed: where it runs and what is shown, not what is computed.
MAY_CHANGE = (
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
    "trainer.logger",
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
        """Whether a checkpoint was saved."""
        return self.checkpoint.exists() or self.previous.exists()

    def check(self, config: dict[str, Any]) -> None:
        """Reject a finished run, a run with other settings, and a folder that is not a run.

        Settings of a run that saved no checkpoint may be corrected, with a warning.
        """
        if self.result.exists():
            raise ExistingFile(
                f"{self.path} is a finished run: choose another --name, or delete the folder to run it again"
            )
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise NotAFolder(f"{self.path} is a file, not the folder of a run")
        if not self.config.exists():
            files = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if files:
                raise ExistingFile(
                    f"{self.path} holds {files[0]} but no config.yaml, so it is not a run: choose another --name"
                )
            return
        if self.begun:
            self.check_same(config)
        elif difference := self.difference(config):
            warnings.warn(f"{self.path}: {difference}; no checkpoint had been saved, so the run starts over")

    def read_config(self) -> dict[str, Any]:
        """Content of config.yaml."""
        if not self.config.is_file():
            raise MissingFile(f"there is no run at {self.path}: it has no config.yaml")
        return current_paths(current_settings(read_yaml(self.config)))

    def read_result(self) -> dict[str, Any]:
        """Content of result.json."""
        try:
            result: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{self.result} is corrupt: delete it to repeat the end of the run") from error
        return result

    def check_same(self, config: dict[str, Any]) -> None:
        """Reject settings that change the result of a started run."""
        if difference := self.difference(config):
            raise UsageError(
                f"{self.path}: {difference}; restore the old value or version to resume the run, or choose another "
                "--name"
            )

    def difference(self, config: dict[str, Any]) -> str:
        """First setting that differs from config.yaml and matters for the result; empty if none does."""
        old, new = flat(self.read_config()), flat(config)
        keys = sorted(old.keys() | new.keys(), key=lambda key: (not key.endswith("class_path"), key))
        for key in keys:
            if not same(key, old.get(key), new.get(key)) and not key.startswith(MAY_CHANGE):
                if key not in old and new[key] is not None:
                    return f"was started by a version of rince without the setting {key}"
                return f"was started with {key} = {old.get(key)}, now it is {new.get(key)}"
        return ""

    def check_still_there(self) -> None:
        """Reject a folder that was deleted during the run, instead of creating one with half of a run."""
        if not self.config.exists():
            raise MissingFile(f"{self.path} was deleted during the run: start it again")

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
        """Delete files that a killed run was writing."""
        for file in (self.config, self.metrics, self.checkpoint, self.noise, self.encoder, self.result):
            for partial in self.path.glob(f".{file.name}.*"):
                partial.unlink(missing_ok=True)
        for other in self.path.glob("hpc_ckpt_*.ckpt"):  # Lightning would start from it under SLURM
            other.unlink(missing_ok=True)

    def finish(self, result: dict[str, Any]) -> None:
        self.check_still_there()
        write_text(self.result, json.dumps(result, indent=2) + "\n")
        self.previous.unlink(missing_ok=True)


def settings_code(config: dict[str, Any]) -> str:
    """Fingerprint of the settings that decide what is computed."""
    lines = []
    for key, value in sorted(flat(config).items()):
        if not key.startswith(MAY_CHANGE):
            short = key.endswith("class_path") and str(value).startswith("rince.")
            lines.append(f"{key} = {str(value).rpartition('.')[2] if short else value}")
    return of_lines(lines)


def same(key: str, old: Any, new: Any) -> bool:
    """Whether two values are equal; classes of rince are compared by name, since their modules may move."""
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


def read_yaml(path: Path) -> dict[str, Any]:
    """Mapping in a file; an empty file is an empty mapping.

    Raises:
        UsageError: If the file is missing, is not YAML, is not a mapping, or sets a name twice.
    """
    if not path.is_file():
        raise MissingFile(f"there is no file {path}")
    try:
        text = path.read_text(encoding="utf-8")
        _check_duplicates(yaml.compose(text, Loader=yaml.SafeLoader), path)
        values = yaml.safe_load(text)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path} is not valid YAML: {error.problem or error.context}{place}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # such as text that is not UTF-8
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict | None):
        raise UsageError(f"{path} is not a configuration: it holds a {type(values).__name__}, not names with values")
    return values or {}


def _check_duplicates(node: Any, path: Path) -> None:
    """Reject a mapping that sets a name twice."""
    lines: dict[str, int] = {}
    for child in node.value if node is not None and isinstance(node.value, list) else []:
        if not isinstance(child, tuple):
            _check_duplicates(child, path)
            continue
        key, value = child
        line = key.start_mark.line + 1
        if key.value != "<<" and isinstance(key.value, str):
            if key.value in lines:
                raise UsageError(f"{path} sets {key.value} twice, in lines {lines[key.value]} and {line}: keep one")
            lines[key.value] = line
        _check_duplicates(value, path)
