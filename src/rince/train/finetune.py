"""Fine-tuning: the encoder of a run is trained on labels and tested."""

import hashlib
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rince._support.atomic_files import write_text
from rince.encoders.files import check_network, fill, read_encoder
from rince.errors import ExistingFile, MissingFile, UsageError
from rince.train.config import argument_names, build
from rince.train.run import RunHooks, checked_name, checked_out, nested_settings, run, run_name
from rince.train.run_folder import RunFolder
from rince.train.short_names import import_class


class Source(NamedTuple):
    """Origin of an encoder: the run folder or file, the file of weights, and the parts of the run's configuration."""

    path: Path
    weights: Path
    parts: dict[str, Any]


def read_source(name: str) -> Source:
    """Encoder of a file or a run folder, with the encoder, views and data of the run's configuration."""
    path = Path(name)
    if path.is_file():
        return Source(path, path, {"encoder": read_encoder(path)[0]})
    folder = RunFolder(path)
    config = folder.read_config()
    if not isinstance(config.get("encoder"), dict):
        raise UsageError(f"{folder.config} has no encoder, so there is nothing to fine-tune")
    return Source(path, folder.encoder, {part: config[part] for part in ("encoder", "views", "data") if part in config})


def check_file(source: Source, named: set[str]) -> None:
    """Check an encoder's file: views and data must be given, and it may name encoders of rince only."""
    if source.path.is_dir():
        return
    if missing := {"views", "data"} - named:
        raise UsageError(
            f"{source.path} holds only an encoder: give a configuration, or --{' and --'.join(sorted(missing))}"
        )
    if "encoder" not in named:
        recipe, _, weights = read_encoder(source.path)
        check_network(source.path, recipe, weights)


def fine_tune(parser: Any, config: Any, source: Source) -> Iterator[dict[str, Any]]:
    """Result of every split and, for several splits, their mean; on rank 0 only."""
    complete(config, source)
    path = checked_out(config.out) / checked_name(config.name)
    if config.splits is None:
        result = one_run(parser, config, source, path)
        yield from [] if result is None else [result]
        return
    if (path / "result.json").exists() or (path / "config.yaml").exists():
        raise ExistingFile(f"{path} is another run, or finished: choose another --name, or delete the folder")
    results = []
    for split in config.splits:
        result = one_run(parser, with_split(config, split), source, path / f"split-{split}", reuse=True)
        if result is not None:
            results.append(result)
            yield result
    if results:
        accuracies = [result["accuracy"] for result in results]
        summary = {
            "run": str(path),
            "accuracy": statistics.fmean(accuracies),
            "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
            "splits": {str(split): accuracy for split, accuracy in zip(config.splits, accuracies, strict=True)},
        }
        write_text(path / "result.json", json.dumps(summary, indent=2) + "\n")
        yield summary


def complete(config: Any, source: Source) -> None:
    """Move short options to the method, select the encoder of the tower, and set the name and folder."""
    kind = import_class(config.method.class_path)
    if "classes" not in argument_names(kind):
        raise UsageError(
            f"--method {kind.__name__} does not fine-tune: leave it out, or use FineTune or LinearEvaluation"
        )
    if config.trust.source is not None:
        raise UsageError(f"{kind.__name__} learns labels, not pairs: leave out --trust")
    method = config.method.init_args
    if config.tower:
        if not towers_of(config.encoder) and not towers_of(config.get("views") or {}):
            raise UsageError(f"{source.path} has one encoder and no towers, got --tower {config.tower}: leave it out")
        method.tower = config.tower
    if config.linear:
        method.linear = True
    if config.from_scratch and method.get("linear"):
        raise UsageError("--from-scratch trains all weights, --linear only the classifier: leave out one of them")
    if config.from_scratch and "head_epochs" in method:
        method.head_epochs = 0  # a classifier on random features is useless
    config.tower, config.linear = None, False
    tower, towers = method.get("tower"), towers_of(config.encoder)
    if towers and tower not in towers:
        raise UsageError(
            f"{source.path} has two encoders: choose one with {' or '.join(f'--tower {t}' for t in towers)}"
        )
    if towers:
        config.encoder = towers[tower]
    if not config.name:
        config.name = run_name(config) if config.get("config") else "finetune"
        config.name += "-from-scratch" * bool(config.from_scratch) + "-linear" * bool(method.get("linear"))
    config.out = config.out or str(source.path if source.path.is_dir() else Path("runs") / source.path.stem)


def towers_of(encoder: Any) -> dict[str, Any]:
    """Encoders a and b of a cross-modal encoder; empty for any other."""
    from jsonargparse import Namespace

    arguments = encoder.get("init_args") or {}
    parts: dict[str, Any] = {name: arguments.get(name) for name in ("a", "b")}
    named = all(isinstance(part, dict | Namespace) and part.get("class_path") for part in parts.values())
    return parts if named else {}


def one_run(parser: Any, config: Any, source: Source, path: Path, reuse: bool = False) -> dict[str, Any] | None:
    """Fine-tune and test in a folder. With ``reuse``, the result of a finished run is returned."""
    data = build(parser, config).data
    data.prepare_data()
    if data.classes < 2:
        raise UsageError(f"{type(data).__name__} has fewer than two classes, so there is nothing to learn")
    data.test_dataloader()  # fails now rather than after the training if there is no test part
    if not config.method.init_args.get("classes"):
        config.method.init_args.classes = data.classes
    folder = RunFolder(path)
    if reuse and folder.result.exists():
        from lightning.pytorch.utilities import rank_zero_only

        folder.check_same(nested_settings(parser.dump(config)))
        return folder.read_result() if rank_zero_only.rank == 0 else None
    if not config.from_scratch and not source.weights.exists():
        raise MissingFile(
            f"{source.path} has no encoder.safetensors because the run is not finished: finish it with rince train, or "
            "write its current encoder to a file with rince export"
        )
    return run(parser, config, path, FineTuning(source, bool(config.from_scratch)))


class FineTuning(RunHooks):
    """Starts from the weights of a trained encoder, unless ``from_scratch``, and tests at the end."""

    def __init__(self, source: Source, from_scratch: bool):
        self.source, self.from_scratch = source, from_scratch

    def begin(self, method: Any) -> None:
        if not self.from_scratch:
            recipe, _, weights = read_encoder(self.source.weights)
            prefix = f"{method.tower}." if towers_of(recipe) else ""
            own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            fill(method.encoder, own, self.source.weights, recipe)

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Accuracy on the test part in percent, and the source of the encoder."""
        record = {"source": str(self.source.path), "from_scratch": self.from_scratch}
        if not self.from_scratch:
            record["sha256"] = hashlib.sha256(self.source.weights.read_bytes()).hexdigest()
        trainer.test(method, datamodule=data, verbose=False)
        return record | method.test_result()


def with_split(config: Any, split: int) -> Any:
    config = config.clone()
    config.splits = None
    if "split" not in (config.data.get("init_args") or {}):
        raise UsageError(f"{config.data.class_path} has no splits: leave out --splits")
    config.data.init_args.split = split
    return config
