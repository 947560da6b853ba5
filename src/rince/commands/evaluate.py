"""``rince evaluate RUN``: linear probe, nearest neighbors and retrieval on the frozen features of a run."""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rince._support.atomic_files import check_writable, write_text
from rince._support.command_options import add_allow_custom_code, add_output_options, check_counts, parsed, print_result
from rince._support.progress import silence
from rince._support.step_seeds import generator
from rince.errors import ExistingFile, MissingFile, UsageError


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rince evaluate", description="Evaluate the frozen features of a run.", exit_on_error=False
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "--probe", choices=("exact", "adam"), default="exact", help="linear probe: exact (L-BFGS) or the paper's Adam"
    )
    parser.add_argument(
        "--space",
        choices=("encoder", "projection"),
        default="encoder",
        help="features of the encoder or output of the projection head (encoder)",
    )
    parser.add_argument(
        "--labels-per-class",
        type=int,
        default=None,
        metavar="N",
        help="train on N random labels per class (default: all labels)",
    )
    parser.add_argument("--draws", type=int, help="number of random draws of --labels-per-class (10)")
    parser.add_argument("--k", type=int, help="number of nearest neighbors (200, or 20 with --labels-per-class)")
    parser.add_argument("--baselines", action="store_true", help="also evaluate raw inputs and the untrained encoder")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier evaluation")
    add_output_options(parser)
    add_allow_custom_code(parser)
    return parser


def main(arguments: list[str]) -> int:
    options = parsed(make_parser(), arguments)
    check_counts(options, "labels_per_class", "draws", "k")
    if options.draws is not None and options.labels_per_class is None:
        raise UsageError("--draws is the number of random draws of --labels-per-class: give both, or neither")
    options.draws = options.draws or 10
    suffix = f"-{options.labels_per_class}-labels" if options.labels_per_class else ""
    target = Path(options.run) / f"evaluation-{options.space}-{options.probe}{suffix}.json"
    if target.exists() and not options.force:
        raise ExistingFile(f"{target} exists: overwrite it with --force")
    if not (Path(options.run) / "config.yaml").exists():
        raise MissingFile(f"there is no run at {options.run}: it has no config.yaml")
    check_writable(target.parent)
    with silence(options.quiet):
        result = evaluate_run(options)
    write_text(target, json.dumps(result, indent=2) + "\n")
    print_result(options, {**result, "files": [str(target)]}, f"{table(result)}\nwritten to {target}")
    return 0


def evaluate_run(options: argparse.Namespace) -> dict[str, Any]:
    """Percentages by kind of features: mean and standard deviation over the draws."""
    from rince.methods.cross_modal import CrossModal
    from rince.methods.graphcl import GraphCL
    from rince.train.load import explain_relative_paths, load_run

    method, data, config = load_run(options.run, allow_custom_code=options.allow_custom_code)
    with explain_relative_paths(config.data, Path(options.run) / "config.yaml"):
        if not isinstance(method, CrossModal | GraphCL):
            return _labeled_accuracies(method, data, options)
        if options.labels_per_class or options.probe != "exact" or options.k:
            items = "pairs" if isinstance(method, CrossModal) else "graphs"
            raise UsageError(
                f"{items} are evaluated with all labels and one probe: omit --labels-per-class, --probe and --k"
            )
        result = {"trained": _scores(method, data, options.space)}
        if options.baselines:
            untrained = load_run(options.run, trained=False, allow_custom_code=options.allow_custom_code)[0]
            result["untrained"] = _scores(untrained, data, options.space)
        return result


def _scores(method: Any, data: Any, space: Any) -> dict[str, Any]:
    """Retrieval between two towers and a linear probe on each; cross-validation on graphs, which have no test split."""
    from rince.methods.graphcl import GraphCL

    if isinstance(method, GraphCL):
        from rince.evaluate.svm import evaluate_graphs

        return evaluate_graphs(method, data.graphs, space)
    from rince.evaluate.pairs import evaluate_pairs

    return evaluate_pairs(method, data, space)


def _labeled_accuracies(method: Any, data: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Evaluation on labels: of images, videos, or one side of pairs."""
    from rince.data.images import Images
    from rince.evaluate.features import inputs_of, labeled_features
    from rince.methods.finetune import FineTune
    from rince.train.load import load_run

    def batches(part: Any) -> Any:
        sounds = isinstance(method, FineTune) and method.tower == "b"
        return data.pair_batches(part) if sounds else data.labeled_batches(part)

    readers: dict[str, Any] = {"trained": lambda part: labeled_features(method, batches(part), options.space)}
    if options.baselines:
        untrained = load_run(options.run, trained=False, allow_custom_code=options.allow_custom_code)[0]
        readers["untrained"] = lambda part: labeled_features(untrained, batches(part), options.space)
        if isinstance(data, Images):
            readers["raw inputs"] = lambda part: inputs_of(batches(part))
    result = {}
    for name, read in readers.items():
        parts = {part: read(part) for part in ("train", "test")}
        if len(parts["train"][1].unique()) < 2 or not len(parts["test"][1]):
            raise UsageError("evaluation needs labels of at least two classes")
        features, labels = ({part: split[i] for part, split in parts.items()} for i in (0, 1))
        result[name] = accuracies(features, labels, options)
    return result


def accuracies(features: dict[str, Tensor], labels: dict[str, Tensor], options: argparse.Namespace) -> dict[str, Any]:
    from rince.evaluate.pairs import recall_at
    from rince.evaluate.probes import fit_adam, fit_linear, knn_accuracy

    scores: dict[str, list[float]] = {"linear": [], "knn": []}
    draws = options.draws if options.labels_per_class else 1
    for draw in range(draws):
        chosen = few_labels(labels["train"], options.labels_per_class, draw)
        x, y = features["train"][chosen], labels["train"][chosen]
        probe = fit_linear(x, y, seed=draw) if options.probe == "exact" else fit_adam(x, y, seed=draw)
        scores["linear"].append(100 * probe.accuracy(features["test"], labels["test"]))
        k = options.k or (20 if options.labels_per_class else 200)
        scores["knn"].append(100 * knn_accuracy(x, y, features["test"], labels["test"], k=k))
    recall = recall_at(features["test"], labels["test"], features["train"], labels["train"])
    result: dict[str, Any] = {f"recall@{k}": [100 * value, 0.0] for k, value in recall.items()}
    for name, values in scores.items():
        spread = torch.tensor(values).std().item() if draws > 1 else 0.0
        result[name] = [sum(values) / draws, spread]
    return result


def few_labels(labels: Tensor, per_class: int | None, draw: int) -> Tensor:
    """Indices of the training items: all, or ``per_class`` random ones of each class."""
    if per_class is None:
        return torch.arange(len(labels))
    order = torch.randperm(len(labels), generator=generator(draw, 60))
    chosen = [order[labels[order] == c][:per_class] for c in range(int(labels.max()) + 1)]
    if min(map(len, chosen)) < per_class:
        raise UsageError(
            f"--labels-per-class must be at most {min(map(len, chosen))}, the smallest class, got {per_class}"
        )
    return torch.cat(chosen)


def table(result: dict[str, Any]) -> str:
    if "a to b recall@1" in next(iter(result.values())):
        from rince.evaluate.pairs import table as table_of_pairs

        return table_of_pairs(result)
    metrics = ("svm", "linear", "knn", "recall@1", "recall@10")
    columns = [c for c in metrics if all(c in row for row in result.values())]
    width = max(map(len, result))
    lines = [f"{'':<{width}}" + "".join(f"{c:>15}" for c in columns)]
    for name, row in result.items():
        cells = "".join(
            f"{f'{row[c][0]:.1f} ± {row[c][1]:.1f}' if row[c][1] else f'{row[c][0]:.1f}':>15}" for c in columns
        )
        lines.append(f"{name:<{width}}{cells}")
    return "\n".join(lines)
