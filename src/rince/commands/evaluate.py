"""``rince evaluate RUN``: what the frozen features of a run are worth."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rince._support.atomic_files import check_writable, write_text
from rince._support.command_options import parsed
from rince._support.step_seeds import generator
from rince.errors import ExistingFile, MissingFile, UsageError


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rince evaluate", description="What the frozen features of a run are worth.", exit_on_error=False
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "--probe", choices=("exact", "adam"), default="exact", help="linear probe: exact (L-BFGS) or the paper's Adam"
    )
    parser.add_argument(
        "--space", choices=("encoder", "projection"), default="encoder", help="where features are taken (encoder)"
    )
    parser.add_argument(
        "--labels_per_class",
        type=int,
        default=None,
        metavar="N",
        help="learn from N labels per class, several draws",
    )
    parser.add_argument("--draws", type=int, default=10, help="draws of the labels (10)")
    parser.add_argument("--k", type=int, default=None, help="neighbours of the kNN (200, or 20 with few labels)")
    parser.add_argument("--baselines", action="store_true", help="also raw inputs and the untrained encoder")
    parser.add_argument("--force", action="store_true", help="write over an earlier evaluation")
    parser.add_argument("--trust-config", action="store_true", help="import classes that are not rince's own")
    return parser


def main(arguments: list[str]) -> int:
    found = parsed(options(), arguments)
    for name in ("labels_per_class", "draws", "k"):
        if getattr(found, name) is not None and getattr(found, name) < 1:
            raise UsageError(f"--{name} must be at least 1, got {getattr(found, name)}")
    few = f"-{found.labels_per_class}-labels" if found.labels_per_class else ""
    target = Path(found.run) / f"evaluation-{found.space}-{found.probe}{few}.json"
    if target.is_dir():
        raise ExistingFile(f"{target} is a folder, where a file is to be written: move it away")
    if target.exists() and not found.force:
        raise ExistingFile(f"{target} is there already: look into it, or write over it with --force")
    if not (Path(found.run) / "config.yaml").exists():
        raise MissingFile(f"there is no run at {found.run}: it would hold a config.yaml")
    check_writable(target.parent)
    result = evaluate_run(found)
    write_text(target, json.dumps(result, indent=2) + "\n")
    print(table(result))
    print(f"written to {target}")
    return 0


def evaluate_run(found: argparse.Namespace) -> dict[str, Any]:
    """Accuracies of every kind of features, in percent: mean and standard deviation over the draws."""
    from rince.methods.cross_modal import CrossModal
    from rince.methods.graphcl import GraphCL
    from rince.train.load import load_run, naming_places

    method, data, config = load_run(found.run, trust=found.trust_config)
    with naming_places(config.data, Path(found.run) / "config.yaml"):
        if isinstance(method, CrossModal):
            return _pair_scores(method, data, found)
        if isinstance(method, GraphCL):
            return _graph_accuracies(method, data.graphs, found)
        return _labelled_accuracies(method, data, found)


def _labelled_accuracies(method: Any, data: Any, found: argparse.Namespace) -> dict[str, Any]:
    """Images, videos, or one side of pairs: read batch by batch, since they need not fit into memory."""
    from rince.data.images.in_memory import Images
    from rince.data.pairs.in_memory import Pairs
    from rince.data.video.videos import Videos
    from rince.evaluate.features import inputs_of, labelled_features
    from rince.methods.finetune import FineTune
    from rince.train.load import load_run

    if isinstance(data, Videos | Pairs) and not isinstance(method, FineTune):
        gives = "clips" if isinstance(data, Videos) else "pairs"
        raise UsageError(
            f"{type(method).__name__} learns from images, but {type(data).__name__} gives {gives}: the configuration "
            f"of {found.run} is none that could be trained"
        )

    def batches(part: Any) -> Any:
        sounds = isinstance(method, FineTune) and method.tower == "b"
        return data.pair_batches(part) if sounds else data.labelled_batches(part)

    ways: dict[str, Any] = {"trained": lambda part: labelled_features(method, batches(part), found.space)}
    if found.baselines:
        untrained = load_run(found.run, trained=False, trust=found.trust_config)[0]
        ways["untrained"] = lambda part: labelled_features(untrained, batches(part), found.space)
        if isinstance(data, Images):
            ways["raw inputs"] = lambda part: inputs_of(batches(part))
    result = {}
    for name, read in ways.items():
        parts = {part: read(part) for part in ("train", "test")}
        if len(parts["train"][1].unique()) < 2 or not len(parts["test"][1]):
            raise UsageError("these data have no labels of two classes or more, so nothing can be evaluated")
        features, labels = ({part: both[i] for part, both in parts.items()} for i in (0, 1))
        result[name] = accuracies(features, labels, found)
    return result


def _graph_accuracies(method: Any, graphs: Any, found: argparse.Namespace) -> dict[str, Any]:
    """Graphs come without a test part: everything is cross-validated."""
    from rince.evaluate.graphs import evaluate_graphs

    if found.labels_per_class or found.probe != "exact":
        raise UsageError("a run on graphs is cross-validated with all labels: leave out --labels_per_class and --probe")
    return _beside_untrained(method, found, lambda one: evaluate_graphs(one, graphs, found.space))


def _pair_scores(method: Any, data: Any, found: argparse.Namespace) -> dict[str, Any]:
    """Two towers are compared with each other, and each is probed on its own."""
    from rince.evaluate.pairs import evaluate_pairs

    if found.labels_per_class or found.probe != "exact" or found.k:
        raise UsageError("a run on pairs is probed with all labels: leave out --labels_per_class, --probe and --k")
    return _beside_untrained(method, found, lambda one: evaluate_pairs(one, data, found.space))


def _beside_untrained(method: Any, found: argparse.Namespace, scores_of: Callable[[Any], Any]) -> dict[str, Any]:
    from rince.train.load import load_run

    result = {"trained": scores_of(method)}
    if found.baselines:
        result["untrained"] = scores_of(load_run(found.run, trained=False, trust=found.trust_config)[0])
    return result


def accuracies(features: dict[str, Tensor], labels: dict[str, Tensor], found: argparse.Namespace) -> dict[str, Any]:
    from rince.evaluate.knn import knn_accuracy
    from rince.evaluate.linear import fit_adam, fit_linear
    from rince.evaluate.retrieval import recall_at

    scores: dict[str, list[float]] = {"linear": [], "knn": []}
    draws = found.draws if found.labels_per_class else 1
    for draw in range(draws):
        chosen = few_labels(labels["train"], found.labels_per_class, draw)
        x, y = features["train"][chosen], labels["train"][chosen]
        probe = fit_linear(x, y, seed=draw) if found.probe == "exact" else fit_adam(x, y, seed=draw)
        scores["linear"].append(100 * probe.accuracy(features["test"], labels["test"]))
        k = found.k or (20 if found.labels_per_class else 200)
        scores["knn"].append(100 * knn_accuracy(x, y, features["test"], labels["test"], k=k))
    recall = recall_at(features["test"], labels["test"], features["train"], labels["train"])
    result: dict[str, Any] = {f"recall@{k}": [100 * value, 0.0] for k, value in recall.items()}
    for name, values in scores.items():
        spread = torch.tensor(values).std().item() if draws > 1 else 0.0
        result[name] = [sum(values) / draws, spread]
    return result


def few_labels(labels: Tensor, per_class: int | None, draw: int) -> Tensor:
    """Which items may show their labels: all, or ``per_class`` of each class by the given draw."""
    if per_class is None:
        return torch.arange(len(labels))
    order = torch.randperm(len(labels), generator=generator(draw, 60))
    chosen = [order[labels[order] == c][:per_class] for c in range(int(labels.max()) + 1)]
    if min(map(len, chosen)) < per_class:
        raise UsageError(f"a class has only {min(map(len, chosen))} items, so {per_class} labels of it cannot be drawn")
    return torch.cat(chosen)


def table(result: dict[str, Any]) -> str:
    if "a to b recall@1" in next(iter(result.values())):
        from rince.evaluate.pairs import table as table_of_pairs

        return table_of_pairs(result)
    known = ("svm", "linear", "knn", "recall@1", "recall@10")
    columns = [c for c in known if all(c in row for row in result.values())]
    width = max(map(len, result))
    lines = [f"{'':<{width}}" + "".join(f"{c:>15}" for c in columns)]
    for name, row in result.items():
        cells = "".join(
            f"{f'{row[c][0]:.1f} ± {row[c][1]:.1f}' if row[c][1] else f'{row[c][0]:.1f}':>15}" for c in columns
        )
        lines.append(f"{name:<{width}}{cells}")
    return "\n".join(lines)
