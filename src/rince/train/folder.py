"""The folder of a run: who may write into it, and how far it is."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rince._support.atomic_files import write_text, written_whole
from rince.errors import ExistingFile, NotAFolder, UsageError

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
        self.noise = self.path / "noise.npz"
        self.encoder = self.path / "encoder.safetensors"
        self.result = self.path / "result.json"

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
            strangers = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if strangers:
                raise ExistingFile(
                    f"{self.path} holds {strangers[0]} but no config.yaml, so it is no run: choose another --name"
                )
            return
        if self.checkpoint.exists():  # without one nothing has been learnt yet, and mistakes can be corrected
            self.check_same(config)

    def check_same(self, config: dict[str, Any]) -> None:
        """Refuse settings that compute something else than what the folder was started with."""
        import yaml

        old, new = flat(yaml.safe_load(self.config.read_text()) or {}), flat(config)
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key) and not key.startswith(FREE):
                raise UsageError(
                    f"{self.path} was started with {key} = {old.get(key)}, now it is {new.get(key)}: "
                    "give the old value to resume, or choose another --name"
                )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second command out of the folder. The system takes the lock back even from a killed process."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "w") as file:
            os.register_at_fork(after_in_child=file.close)  # a loader's worker may outlive a killed run for seconds
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExistingFile(f"{self.path} is being written by another rince command") from None
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def start(self, config: str, noise: dict[str, Any]) -> None:
        if self.checkpoint.exists():
            return
        for stale in (self.noise, *self.path.glob("skipped.csv"), *self.path.glob(".skipped-*.csv")):
            stale.unlink(missing_ok=True)
        if noise:
            with written_whole(self.noise) as path, open(path, "wb") as file:
                np.savez_compressed(file, **noise)
        write_text(self.config, config)

    def finish(self, result: dict[str, Any]) -> None:
        write_text(self.result, json.dumps(result, indent=2) + "\n")


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
