"""Clips and sounds of generated videos, some with wrong sounds; then fine-tuning on few labels."""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.experiment import Experiment, several
from experiments.figures import COLORS, legend, lines, panels
from experiments.tables import Cell, grouped
from experiments.training import loss_changes, loss_title, part, settings_of, trained
from rince.compare.grid import Result, Run
from rince.compare.tables import mean_and_deviation
from rince.errors import UsageError

CONFIG, TUNING = (str(Path(__file__).parent / name) for name in ("train.yaml", "finetune.yaml"))
XID = str(Path(__file__).parents[1] / "baselines" / "xid.yaml")
VIDEOS_SEED = 1  # settings were chosen on the videos of seed 0


class GeneratedVideoExperiment(Experiment):
    """Learns from clips and sounds without labels, then from a few labeled clips."""

    epochs: int | None = 24
    tuning_epochs = 128

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(
            parser, "--losses", ["infonce", "warm-up"], "losses: infonce, warm-up (RINCE, q from 0.01 to 0.4); or xid"
        )
        counts = {
            "--tuning-epochs": (self.tuning_epochs, "epochs with labels"),
            "--per-class": (2, "labeled videos of each class"),
            "--videos": (480, "videos to learn from without labels"),
            "--test-videos": (160, "videos to test on"),
            "--videos-seed": (VIDEOS_SEED, "of what the videos show; settings were chosen on 0"),
        }
        for option, (default, description) in counts.items():
            parser.add_argument(option, type=int, default=default, metavar="N", help=f"{description} (%(default)s)")
        parser.add_argument("--root", default="data/generated_video", help="folder that keeps the videos (%(default)s)")

    def check(self, options: argparse.Namespace) -> None:
        for loss in options.losses:
            title(loss)
        for name in ("tuning_epochs", "per_class", "videos", "test_videos"):
            if getattr(options, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")

    def videos(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """Which videos a run sees."""
        return {
            "data.root": options.root,
            "data.videos_seed": options.videos_seed,
            "data.train": run.get("videos", options.videos),
            "data.test": options.test_videos,
        }

    def pretrain(self, run: Run, options: argparse.Namespace) -> Path:
        """The folder of the run without labels, which is done unless it is finished."""
        folder = self.folder_of(run, options)
        noise = {"data.noise": part("rince.noise.pairs.Overdub", rate=run["wrong"])} if run.get("wrong") else {}
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "probe": False}
        changes = common | self.videos(run, options) | noise
        if run["loss"] == "xid":
            settings = settings_of(XID, {"method.items": changes["data.train"]} | changes)
        else:
            settings = settings_of(CONFIG, loss_changes(CONFIG, run["loss"]) | changes)
        trained(settings, folder)
        return folder

    def tuned(self, run: Run, options: argparse.Namespace, lr: float, **kind: bool) -> float:
        """Accuracy in percent after fine-tuning the encoder of a run; ``linear`` and ``from_scratch`` as there."""
        from rince.train.config import finetune_parser, parse_settings
        from rince.train.finetune import Source, fine_tune

        suffix = f"tuned-{lr:g}-{options.per_class}x{options.tuning_epochs}"
        folder, name = self.folder_of(run, options), "-".join([*(k for k, on in kind.items() if on), suffix])
        result = folder / name / "result.json"
        if not result.exists():
            parts = {"encoder": settings_of(CONFIG, {})["encoder"]}
            source = Source(folder, folder / "encoder.safetensors", parts)
            parser = finetune_parser(source.parts)
            settings = settings_of(TUNING, self.tuning(run, options, lr))
            settings |= {"out": str(folder), "name": name, "run": str(folder), **kind}
            list(fine_tune(parser, parse_settings(parser, settings), source))
        return float(json.loads(result.read_text(encoding="utf-8"))["accuracy"])

    def tuning(self, run: Run, options: argparse.Namespace, lr: float) -> dict[str, Any]:
        """What fine-tuning changes in its configuration; the moments of its schedule move with its epochs."""
        own = settings_of(TUNING, {})
        share = options.tuning_epochs / own["trainer"]["max_epochs"]
        method = own["method"]["init_args"]
        quiet = {"trainer.enable_progress_bar": False, "trainer.enable_model_summary": False}
        return {
            "seed": run["seed"],
            "method.head_epochs": round(share * method["head_epochs"]),
            "method.milestones": sorted({round(share * epoch) for epoch in method["milestones"]}),
            "optimizer.lr": lr,
            "data.per_class": options.per_class,
            "trainer.max_epochs": options.tuning_epochs,
            **self.videos({}, options),
            **quiet,
        }


def title(loss: str) -> str:
    """Label of a loss, or of the baseline with a memory bank."""
    return "xID" if loss == "xid" else loss_title(loss)


def cpu_seconds_since(before: os.times_result) -> float:
    """CPU seconds of this process and those that decoded for it."""
    return sum(os.times()[:4]) - sum(before[:4])


def with_cost(before: os.times_result, result: Result, headline: str) -> Result:
    return {**result, "cpu_seconds": cpu_seconds_since(before), "headline": headline}


class GeneratedVideoTable(GeneratedVideoExperiment):
    name = "generated-video"
    summary = (
        "Trains on clips and sounds of generated videos without labels, a share of the sounds being another video's, "
        "then fine-tunes on a few labeled videos of each class and tests on others; and the same from initial weights "
        "with the same number of epochs. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "first, without labels"
    note = "Accuracy on test videos in %."
    shared = ("lrs", "per_class", "tuning_epochs", "videos", "test_videos", "videos_seed")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--rates", [0.0, 0.4], "of wrong sounds")
        several(parser, "--lrs", [0.001, 0.003, 0.01], "learning rates of fine-tuning and of training from scratch")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        runs: list[Run] = []
        for seed in range(options.seeds):
            runs.append({"loss": "scratch", "seed": seed, "epochs": options.epochs})
            runs += [
                {"loss": loss, "wrong": rate, "seed": seed, "epochs": options.epochs}
                for rate in options.rates
                for loss in options.losses
            ]
        return runs

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        """Accuracies in percent after fine-tuning and of frozen features; from scratch there is only the former."""
        before, scratch = os.times(), run["loss"] == "scratch"
        if not scratch:
            self.pretrain(run, options)
        accuracies = {f"tuned {lr:g}": self.tuned(run, options, lr, from_scratch=scratch) for lr in options.lrs}
        if not scratch:
            accuracies["frozen"] = self.tuned(run, options, options.lrs[-1], linear=True)
        return with_cost(before, accuracies, ", ".join(f"{key} {value:.1f}" for key, value in accuracies.items()))

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        columns = {f"tuned {lr:g}": f"fine-tuned at {lr:g}" for lr in options.lrs} | {"frozen": "frozen features"}
        for r in results:
            for key, column in columns.items():
                if key in r:
                    yield label_of(r["settings"]), column, r[key]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """A bar for every row and way of testing, with one standard deviation over seeds."""
        groups = grouped(list(self.cells(results, options)))
        rows, columns = (list(dict.fromkeys(key[index] for key in groups)) for index in (0, 1))
        figure, axes = panels(1, width=1.4 * len(rows) + 1.5)
        for i, column in enumerate(columns):
            width = 0.8 / len(columns)
            bars = [
                (j, mean_and_deviation(groups[row, column])) for j, row in enumerate(rows) if (row, column) in groups
            ]
            axes[0, 0].bar(
                [j + (i - (len(columns) - 1) / 2) * width for j, _ in bars], [mean for _, (mean, _) in bars], width,
                yerr=[deviation for _, (_, deviation) in bars], color=COLORS[i], label=column,
                error_kw={"linewidth": 0.8, "capsize": 2},
            )  # fmt: skip
        axes[0, 0].set_xticks(range(len(rows)), [row.replace(", ", ",\n").replace(" (", "\n(") for row in rows])
        axes[0, 0].set_ylabel("accuracy, %", fontsize=9)
        legend(figure, axes[0, 0])
        return figure


def label_of(run: Run) -> str:
    """The row of a run."""
    if run["loss"] == "scratch":
        return "nothing (from scratch)"
    return title(run["loss"]) + (f", {100 * run['wrong']:g} % wrong sounds" if run["wrong"] else "")


class VideoGrowth(GeneratedVideoExperiment):
    name = "video-growth"
    summary = (
        "Trains on growing numbers of generated videos for growing numbers of epochs, a share of the sounds being "
        "another video's, and tests fine-tuned clips. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, % after epochs"
    epochs = None
    shared = ("lr", "per_class", "tuning_epochs", "test_videos", "videos_seed")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--sizes", [120, 240, 480], "how many videos, without labels")
        several(parser, "--lengths", [12, 18, 24], "epochs of training without labels")
        parser.add_argument("--wrong", type=float, default=0.2, metavar="R", help="share of wrong sounds (%(default)s)")
        parser.add_argument("--lr", type=float, default=0.003, help="of fine-tuning (%(default)s)")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [
            {"loss": loss, "videos": size, "length": length, "wrong": options.wrong, "seed": seed, "epochs": length}
            for seed in range(options.seeds)
            for size in options.sizes
            for length in options.lengths
            for loss in options.losses
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        before = os.times()
        self.pretrain(run, options)
        accuracy = self.tuned(run, options, options.lr)
        return with_cost(before, {"accuracy": accuracy}, f"accuracy {accuracy:.1f} %")

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in sorted(results, key=lambda r: r["settings"]["videos"]):
            run = r["settings"]
            yield f"{run['videos']} videos, {title(run['loss'])}", f"{run['length']}", r["accuracy"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{run['videos']} videos", title(run["loss"]), run["length"], r["accuracy"])
            for r in results
            for run in [r["settings"]]
        ]
        return lines(points, "epochs without labels", "accuracy, %", shared=True)
