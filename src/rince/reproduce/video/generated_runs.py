"""What the experiments on generated videos share: training without labels, then fine-tuning with few of them."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from rince.errors import UsageError
from rince.reproduce.experiment import Experiment, several
from rince.reproduce.grid import Result, Run
from rince.reproduce.training import loss_changes, part, settings_of, split_loss, trained

CONFIG, TUNING = "generated_video/train", "generated_video/finetune"
VIDEOS_SEED = 1  # settings were chosen on the videos of seed 0


class GeneratedVideoExperiment(Experiment):
    """Learns from clips and sounds without labels, then from a few labelled clips."""

    epochs: int | None = 24
    tuning_epochs = 128

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(parser, "--losses", ["infonce", "warm-up"], "losses: infonce, warm-up (RINCE, q from 0.01 to 0.4)")
        counts = {
            "--tuning-epochs": (self.tuning_epochs, "epochs with labels"),
            "--per-class": (2, "labelled videos of each class"),
            "--videos": (480, "videos to learn from without labels"),
            "--test-videos": (160, "videos to test on"),
            "--videos-seed": (VIDEOS_SEED, "of what the videos show; settings were chosen on 0"),
        }
        for option, (default, what) in counts.items():
            parser.add_argument(option, type=int, default=default, metavar="N", help=f"{what} (%(default)s)")
        parser.add_argument("--root", default="data/generated_video", help="folder that keeps the videos (%(default)s)")

    def check(self, options: argparse.Namespace) -> None:
        for loss in options.losses:
            split_loss(loss)
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
        noise = {"data.noise": part("rince.noise.sounds.Overdub", rate=run["wrong"])} if run.get("wrong") else {}
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "probe": False}
        changes = loss_changes(CONFIG, run["loss"]) | common | self.videos(run, options) | noise
        trained(settings_of(CONFIG, changes), folder)
        return folder

    def tuned(self, run: Run, options: argparse.Namespace, lr: float, **kind: bool) -> float:
        """Accuracy in percent after fine-tuning the encoder of a run; ``linear`` and ``from_scratch`` as there."""
        from rince.train.finetune import Source, fine_tune, finetune_parser
        from rince.train.parser import parse_settings

        how = f"tuned-{lr:g}-{options.per_class}x{options.tuning_epochs}"
        folder, name = self.folder_of(run, options), "-".join([*(k for k, on in kind.items() if on), how])
        result = folder / name / "result.json"
        if not result.exists():
            parts = {"encoder": settings_of(CONFIG, {})["encoder"]}
            source = Source(folder, folder / "encoder.safetensors", parts)
            parser = finetune_parser(source)
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
            "optimiser.lr": lr,
            "data.per_class": options.per_class,
            "trainer.max_epochs": options.tuning_epochs,
            **self.videos({}, options),
            **quiet,
        }


def cpu_seconds_since(before: os.times_result) -> float:
    """CPU seconds of this process and those that decoded for it."""
    return sum(os.times()[:4]) - sum(before[:4])


def with_cost(before: os.times_result, found: Result, headline: str) -> Result:
    return {**found, "cpu_seconds": cpu_seconds_since(before), "headline": headline}
