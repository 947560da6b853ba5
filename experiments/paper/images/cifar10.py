"""CIFAR-10 in the small: label noise, augmentation noise and the ablation of lam."""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from experiments.experiment import Experiment, grid, several
from experiments.figures import lines
from experiments.tables import Cell
from experiments.training import LOSS_HELP, loss_changes, loss_title, settings_of, split_loss, trained
from rince.compare.grid import Result, Run

STEM_CONFIG = str(Path(__file__).with_name("small_label_noise.yaml"))
DECAY = 0.1  # of the linear probe on standardized features: near the best for the stem alone, the same for all
SPACES: tuple[Literal["encoder", "projection"], ...] = ("encoder", "projection")
ETAS = (0.2, 0.4, 0.6, 0.8)
LOSSES = ("infonce", "rince-0.01", "rince-0.1", "rince-0.5", "rince-1", "infonce@0.2", "infonce@0.1")


class CIFAR10Experiment(Experiment):
    """Losses x noise on CIFAR-10, small enough for a CPU. A subclass names its configuration and where noise goes."""

    config = ""
    corner = "accuracy, % at a noise of"
    losses: Sequence[str] = LOSSES
    etas: Sequence[float] = ETAS
    neighbors = True  # nearest neighbors beside the linear probe

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--root", default=default_root(), help="folder with CIFAR-10, packed or not (%(default)s)")
        parser.add_argument(
            "--download", action="store_true", help="fetch CIFAR-10 (170 MB) to --root if it is not there"
        )
        several(parser, "--losses", self.losses, LOSS_HELP)
        several(parser, "--etas", self.etas, "the paper's noise rates")

    def check(self, options: argparse.Namespace) -> None:
        for name in options.losses:
            split_loss(name)
        if options.download:
            from rince.data.images import CIFAR10

            CIFAR10(options.root, download=True).prepare_data()

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Every rate and loss of a seed before the next seed; without noise the first loss alone, to compare with."""
        return [
            {"loss": loss, "eta": eta, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for eta, losses in ((0.0, options.losses[:1]), *((eta, options.losses) for eta in options.etas))
            for loss in losses
        ]

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """What the run changes in the configuration, beside loss, seed and epochs."""
        raise NotImplementedError

    def settings(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """The whole configuration of a run."""
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "probe": False}
        return settings_of(self.config, loss_changes(self.config, run["loss"]) | common | self.changes(run, options))

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        return evaluate(*trained(self.settings(run, options), self.folder_of(run, options)), self.neighbors)

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for space in SPACES:
            for kind in ("linear", "knn"):
                for r in sorted(results, key=lambda r: r["settings"]["eta"]):
                    row = f"{space}, {'linear probe' if kind == 'linear' else 'kNN'}: {self.title(r['settings'])}"
                    yield row, f"eta {r['settings']['eta']:g}", r[f"{space}_{kind}_test"]

    def title(self, run: Run) -> str:
        """How a run's loss is written, and what else tells it from others at the same noise."""
        return loss_title(run["loss"])

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{space}, linear probe", self.title(r["settings"]), r["settings"]["eta"], r[f"{space}_linear_test"])
            for space in SPACES
            for r in results
            if r["settings"]["eta"] or len(options.etas) < 2
        ]
        return lines(points, "noise rate eta", "accuracy, %")

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return chosen_temperatures([r for r in results if r["settings"]["eta"]])


def default_root() -> str:
    """$RINCE_CIFAR10 if that variable is set."""
    return os.environ.get("RINCE_CIFAR10", "data")


def evaluate(method: Any, data: Any, neighbors: bool = True) -> Result:
    """Linear probe, with right labels, on the validation and test parts, in both spaces; nearest neighbors on test."""
    from experiments.features import both_spaces
    from rince.evaluate.probes import fit_linear, knn_accuracy

    images, labels = data.split("train")
    train_features = both_spaces(method, images)
    held_out = {part: data.split(part) for part in ("validation", "test")}
    features = {part: both_spaces(method, images) for part, (images, _) in held_out.items()}
    result: Result = {}
    for space in SPACES:
        probe = fit_linear(train_features[space], labels, DECAY)
        for part, (_, truth) in held_out.items():
            result[f"{space}_linear_{part}"] = 100 * probe.accuracy(features[part][space], truth)
        if neighbors:  # of the test part alone: nothing is chosen by them
            truth = held_out["test"][1]
            result[f"{space}_knn_test"] = 100 * knn_accuracy(
                train_features[space], labels, features["test"][space], truth, k=50
            )
    knn_text = f", kNN {result['encoder_knn_test']:.1f}" if neighbors else ""
    result["headline"] = f"linear {result['encoder_linear_test']:.1f}{knn_text}"
    return result


def chosen_temperatures(results: Sequence[Result]) -> list[str]:
    """Which of InfoNCE's temperatures the linear probe of the validation part prefers, in each space."""
    accuracies: dict[tuple[str, str], list[float]] = {}
    for result in results:
        loss = result["settings"]["loss"]
        for space in SPACES if split_loss(loss)[0] == "infonce" else ():
            accuracies.setdefault((space, loss_title(loss)), []).append(result[f"{space}_linear_validation"])
    notes = []
    for space in SPACES:
        means = {title: fmean(values) for (key_space, title), values in accuracies.items() if key_space == space}
        if len(means) > 1:
            listed = ", ".join(f"{title} {mean:.1f}" for title, mean in means.items())
            notes.append(f"- {space}, validation part, mean over all noise: {listed}.")
    return notes


def stem_cache(options: argparse.Namespace) -> str:
    """The features of the fixed stem, computed once for all runs of an experiment."""
    return str(Path(options.out) / "stem-10000.npz")


class AugmentationNoise(CIFAR10Experiment):
    name = "cifar10-augmentation-noise"
    summary = (
        "A share eta of the views is cropped once more, to a fifth of its area. Writes results.csv, table.md, "
        "figure.png and figure.svg."
    )
    config = "cifar10/small-augmentation-noise"
    epochs = 12
    etas = (*ETAS, 1.0)

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return {"views.noise.rate": run["eta"], "data.root": options.root}


class LabelNoise(CIFAR10Experiment):
    name = "cifar10-label-noise"
    summary = (
        "Positives are images of the same, often wrong, label: labels of five classes are flipped with the paper's "
        "probability eta / 2. Writes results.csv, table.md, figure.png and figure.svg."
    )
    config = STEM_CONFIG
    epochs = 40

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--positives", ["one"], "one positive per anchor, or several", choices=("one", "several"))

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [{"positives": form, **run} for run in super().runs(options) for form in options.positives]

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "method.positives": run["positives"],
            "data.noise.eta": run["eta"],
            "data.source.root": options.root,
            "data.cache": stem_cache(options),
        }

    def title(self, run: Run) -> str:
        return loss_title(run["loss"]) + (", several positives" if run["positives"] == "several" else "")


class Lam(AugmentationNoise):
    name = "cifar10-lam"
    summary = (
        "RINCE with the configuration's q at several lam. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, % at lam"
    losses = ("rince",)
    etas = (0.0, 0.4)
    neighbors = False  # the table has none

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--lams", [0.01, 0.05, 0.1, 0.2, 0.4], "weights of the negatives")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return grid(
            seed=range(options.seeds), eta=options.etas, lam=options.lams, loss=options.losses,
            epochs=[options.epochs],
        )  # fmt: skip

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return super().changes(run, options) | {"loss.lam": run["lam"]}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for space in SPACES:
            for r in results:
                yield f"{space}, {self.title(r['settings'])}", f"{r['settings']['lam']:g}", r[f"{space}_linear_test"]

    def title(self, run: Run) -> str:
        return f"{super().title(run)}, noise {run['eta']:g}"

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{space}, linear probe", self.title(r["settings"]), r["settings"]["lam"], r[f"{space}_linear_test"])
            for space in SPACES
            for r in results
        ]
        return lines(points, "lam", "accuracy, %", log=True)

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []
