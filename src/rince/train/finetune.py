"""Fine-tuning: the encoder of a run learns labels, and is tested."""

import contextlib
import hashlib
import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rince._support.atomic_files import write_text
from rince._support.command_errors import innermost_module
from rince.encoders.files import fill, read_encoder
from rince.encoders.recipes import check_network
from rince.errors import ExistingFile, MissingFile, UsageError
from rince.train.build import build
from rince.train.config_errors import arguments_of, class_at
from rince.train.folder import RunFolder
from rince.train.help import FINETUNE_OPTIONS
from rince.train.parser import train_parser
from rince.train.run import checked_name, checked_out, run, run_name, values_of

DEFAULTS = {
    "method": {"class_path": "rince.methods.finetune.FineTune"},
    "loss": {"class_path": "torch.nn.CrossEntropyLoss"},
    "probe": False,
    "out": "",  # below the run
    "trainer.max_epochs": 21,
    "trainer.log_every_n_steps": 10,
}


class Source(NamedTuple):
    """Where the encoder comes from: its file, the configuration that builds it, and what else the run was made of."""

    path: Path
    weights: Path
    parts: dict[str, Any]


def finetune_parser(source: Source | None = None) -> Any:
    """The options of `rince train` and a few more; the run gives the defaults of what the user does not give."""
    parser = train_parser("finetune")
    parser.add_argument("--run", type=str | None, default=None, help="The run; given as the first argument.")
    parser.add_argument("--tower", type=str | None, default=None, help=FINETUNE_OPTIONS["tower"])
    parser.add_argument("--linear", type=bool, default=False, help=FINETUNE_OPTIONS["linear"])
    parser.add_argument("--from_scratch", type=bool, default=False, help=FINETUNE_OPTIONS["from_scratch"])
    parser.add_argument("--splits", type=int, nargs="+", default=None, help=FINETUNE_OPTIONS["splits"])
    try:
        parser.set_defaults(DEFAULTS | ({} if source is None else source.parts))
    except KeyError as error:  # jsonargparse's, for a name that none can have
        raise UsageError(f"the settings of {source and source.path} cannot be used: {error.args[0]}") from error
    return parser


def read_source(name: str) -> Source:
    """The encoder's file with its recipe and, from the folder of a run, the run's views and data."""
    path = Path(name)
    if path.is_file():
        return Source(path, path, {"encoder": read_encoder(path)[0]})
    folder = RunFolder(path)
    config = folder.read_config()
    if not isinstance(config.get("encoder"), dict):
        raise UsageError(f"{folder.config} describes no encoder, so there is nothing to fine-tune")
    return Source(path, folder.encoder, {part: config[part] for part in ("encoder", "views", "data") if part in config})


@contextlib.contextmanager
def usable(source: Source) -> Iterator[None]:
    """What jsonargparse does not like about the parts of the run, in one sentence."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError) or not innermost_module(error).startswith("jsonargparse"):
            raise
        message = " ".join(str(error).split())
        raise UsageError(f"{source.path} has a configuration that cannot be used: {message[:300]}") from error


def check_file(source: Source, named: set[str]) -> None:
    """An encoder's file says nothing of views and data, and is not to be trusted with the choice of what is run."""
    if source.path.is_dir():
        return
    if missing := {"views", "data"} - named:
        raise UsageError(
            f"{source.path} is an encoder alone: give a configuration, or --{' and --'.join(sorted(missing))}"
        )
    if "encoder" not in named:
        recipe, _, weights = read_encoder(source.path)
        check_network(source.path, recipe, weights)


def fine_tune(parser: Any, config: Any, source: Source) -> Iterator[dict[str, Any]]:
    """The result of every split and, where there are several, of all of them; only the first process has any."""
    settle(config, source)
    path = checked_out(config.out) / checked_name(config.name)
    if config.splits is None:
        result = one_run(parser, config, source, path)
        yield from [] if result is None else [result]
        return
    if (path / "result.json").exists() or (path / "config.yaml").exists():
        raise ExistingFile(f"{path} is a finished run or another one: choose another --name, or delete the folder")
    results = []
    for split in config.splits:
        result = one_run(parser, of_split(config, split), source, path / f"split-{split}", again=True)
        if result is not None:
            results.append(result)
            yield result
    if results:
        summary = summary_of(path, config.splits, results)
        write_text(path / "result.json", json.dumps(summary, indent=2) + "\n")
        yield summary


def settle(config: Any, source: Source) -> None:
    """Short options move to where they belong, the encoder becomes the one of the tower, and the folder gets a name."""
    kind = class_at("method", config.method.class_path)
    if "classes" not in arguments_of(kind)[0]:
        raise UsageError(
            f"--method {kind.__name__} does not fine-tune: leave it out, or take FineTune or LinearEvaluation"
        )
    method = config.method.init_args
    if config.tower:
        if not towers_of(config.encoder) and not towers_of(config.get("views") or {}):
            raise UsageError(f"{source.path} has one encoder and no towers, got --tower {config.tower}: leave it out")
        method.tower = config.tower
    if config.linear:
        method.linear = True
    if config.from_scratch and method.get("linear"):
        raise UsageError(
            "--from_scratch true trains all weights, and --linear true only the classifier: leave out one of them"
        )
    if config.from_scratch and "head_epochs" in method:
        method.head_epochs = 0  # nothing is gained by a classifier on random features
    config.tower, config.linear = None, False
    tower, towers = method.get("tower"), towers_of(config.encoder)
    if towers and tower not in towers:
        names = " or ".join(f"--tower {name}" for name in towers)
        raise UsageError(f"{source.path} has two encoders: say which one is to be fine-tuned, {names}")
    if towers:
        config.encoder = towers[tower]
    if not config.name:
        config.name = run_name(config) if config.get("config") else "finetune"
        config.name += "-from-scratch" * bool(config.from_scratch) + "-linear" * bool(method.get("linear"))
    config.out = config.out or str(source.path if source.path.is_dir() else Path("runs") / source.path.stem)


def check_head_epochs(config: Any, given: Iterable[str]) -> None:
    """Refuse more epochs for the classifier alone than there are, where they were asked for."""
    most, own = config.trainer.max_epochs, config.method.init_args.get("head_epochs")
    if "method.head_epochs" in given and own is not None and most is not None and 0 < most < own:
        raise UsageError(
            f"method.head_epochs must be at most trainer.max_epochs, which is {most}, got {own}: lower it, or take "
            "--linear true to train the classifier alone"
        )


def towers_of(encoder: Any) -> dict[str, Any]:
    """The two encoders, a and b, that a cross-modal one is made of; none for a plain one."""
    from jsonargparse import Namespace

    arguments = encoder.get("init_args") or {}
    parts: dict[str, Any] = {name: arguments.get(name) for name in ("a", "b")}
    return (
        parts if all(isinstance(part, dict | Namespace) and part.get("class_path") for part in parts.values()) else {}
    )


def one_run(parser: Any, config: Any, source: Source, path: Path, again: bool = False) -> dict[str, Any] | None:
    """Fine-tune and test in a folder. With ``again``, a finished run is no mistake: its result is returned."""
    data = build(parser, config).data
    data.prepare_data()
    if data.classes < 2:
        raise UsageError(f"{type(data).__name__} has no labels of two classes or more, so there is nothing to learn")
    data.test_dataloader()  # complains now, not after the training, if there is nothing to test on
    if not config.method.init_args.get("classes"):
        config.method.init_args.classes = data.classes
    folder = RunFolder(path)
    if again and folder.result.exists():
        from lightning.pytorch.utilities import rank_zero_only

        folder.check_same(values_of(parser.dump(config)))
        return folder.read_result() if rank_zero_only.rank == 0 else None
    record = {"source": str(source.path), "from_scratch": bool(config.from_scratch)}
    if not config.from_scratch:
        record["sha256"] = hashlib.sha256(_weights(source).read_bytes()).hexdigest()

    def begin(method: Any) -> None:
        if not config.from_scratch:
            recipe, _, weights = read_encoder(_weights(source))
            prefix = f"{method.tower}." if towers_of(recipe) else ""
            own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            fill(method.encoder, own, source.weights, recipe)

    def conclude(trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        return record | test(trainer, method, data)

    return run(parser, config, path, begin, conclude)


def _weights(source: Source) -> Path:
    if not source.weights.exists():
        raise MissingFile(
            f"{source.path} has no encoder.safetensors, for it is not finished: finish it with rince train, or write "
            "its encoder so far to a file with rince export"
        )
    return source.weights


def test(trainer: Any, method: Any, data: Any) -> dict[str, Any]:
    """What the method finds on the test part, among it its accuracy in percent."""
    trainer.test(method, datamodule=data, verbose=False)
    return method.test_result()


def of_split(config: Any, split: int) -> Any:
    config = config.clone()
    config.splits = None
    if "split" not in (config.data.get("init_args") or {}):
        raise UsageError(f"{config.data.class_path} knows no splits: leave out --splits")
    config.data.init_args.split = split
    return config


def summary_of(path: Path, splits: list[int], results: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [result["accuracy"] for result in results]
    return {
        "run": str(path),
        "accuracy": statistics.fmean(accuracies),
        "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
        "splits": {str(split): accuracy for split, accuracy in zip(splits, accuracies, strict=True)},
    }
