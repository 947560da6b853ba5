"""Fair trial of the losses on CIFAR-10 with noisy views: each loss at its best temperature, on fresh paired seeds.

Three stages, resumed by the same command. Seed 0 tries every temperature for every loss and noise; the linear probe on
the validation part chooses. Seeds 1, 2, 3 then train at the chosen temperature, and only they are reported. Of these,
the three best losses of each noise, by the validation part, train four times as long.
"""

import argparse
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from experiments.experiment import Experiment, grid, several
from experiments.paper.images.cifar10 import default_root, evaluate
from experiments.tables import Cell
from experiments.training import part, settings_of, trained
from rince.compare.grid import Result, Run
from rince.compare.losses import parse_loss
from rince.compare.tables import paired

CONFIG = "cifar10/small-augmentation-noise"
NOISES = {"none": "clean views", "crops": "extra crops, rate 0.8", "pairs": "wrong pairs, rate 0.4"}
CHOSEN_BY, REPORTED = "encoder_linear_validation", "encoder_linear_test"
FINALISTS, LONGER = 3, 4


class Trial(Experiment):
    name = "cifar10-trial"
    summary = (
        "InfoNCE, GCE and RINCE on 4,000 images of CIFAR-10 whose views are cropped too far or of another image. "
        "Temperatures are chosen on one seed and reported on others; the best three losses also train four times as "
        "long. Writes results.csv and table.md."
    )
    corner = "linear probe, test accuracy in %"
    epochs = 8
    shared = ("width",)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--root", default=default_root(), help="folder with CIFAR-10 (%(default)s)")
        several(parser, "--noises", ["crops", "pairs"], ", ".join(NOISES), choices=tuple(NOISES))
        losses = ["infonce", "gce-1", "rince-0.5-lam0.01", "rince-1-lam0.01"]
        several(parser, "--losses", losses, "losses, as for rince compare")
        several(parser, "--temperatures", [0.05, 0.1, 0.2, 0.5, 1.0], "tried for every loss")
        parser.add_argument("--width", type=int, default=16, help="channels of the network's first stage (%(default)s)")

    def check(self, options: argparse.Namespace) -> None:
        for loss in options.losses:
            parse_loss(loss)

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """The first stage, noise by noise, so that results of one kind are complete early."""
        return grid(
            noise=options.noises, loss=options.losses, temperature=options.temperatures, seed=[0], length=[1],
            epochs=[options.epochs],
        )  # fmt: skip

    def next_runs(self, results: Sequence[Result], options: argparse.Namespace) -> list[Run]:
        fresh = [
            {
                "noise": noise, "loss": loss, "temperature": best_temperature(results, noise, loss), "seed": seed,
                "length": 1, "epochs": options.epochs,
            }
            for noise in options.noises
            for seed in range(1, options.seeds + 1)
            for loss in options.losses
        ]  # fmt: skip
        if len(reported(results, 1)) < len(fresh):
            return fresh
        return [
            {**run, "length": LONGER, "epochs": LONGER * options.epochs}
            for run in fresh
            if run["loss"] in finalists(results, run["noise"])
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        loss = parse_loss(run["loss"])
        noise: dict[str, Any] = {"views.noise": None}
        if run["noise"] == "crops":
            noise = {"views.noise": part("rince.noise.crops.ExtraCrop", rate=0.8)}
        if run["noise"] == "pairs":
            noise |= {"data.wrong_pairs": 0.4, "data.wrong_pairs_seed": run["seed"]}
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "data.root": options.root, "probe": False}
        common["encoder.width"] = options.width
        changes = {"loss": loss.part(run["temperature"]), "method.q_schedule": "constant", **noise, **common}
        return evaluate(*trained(settings_of(CONFIG, changes), self.folder_of(run, options)), neighbors=False)

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for length in (1, LONGER):
            for r in reported(results, length):
                run = r["settings"]
                column = f"{NOISES[run['noise']]}, {run['epochs']} epochs"
                yield parse_loss(run["loss"]).label, column, r[REPORTED]

    def note_on(self, results: Sequence[Result], cells: Sequence[Cell]) -> str:
        if not cells:
            return "Temperatures are still being chosen: seed 0 is not reported.\n"
        return super().note_on(results, cells)

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        told = []
        for noise in options.noises:
            for length in (1, LONGER):
                by_loss = {
                    loss: {r["settings"]["seed"]: r[REPORTED] for r in scores}
                    for loss in options.losses
                    if (scores := [r for r in reported(results, length) if _is(r, noise=noise, loss=loss)])
                }
                for loss in list(by_loss)[1:]:
                    names = f"{parse_loss(loss).label} - {parse_loss(next(iter(by_loss))).label}"
                    test = paired(by_loss[loss], next(iter(by_loss.values())))
                    told.append(f"- {NOISES[noise]}, {length * options.epochs} epochs: {names} = {test}.")
        for noise in options.noises:
            for loss in options.losses:
                scores = {r["settings"]["temperature"]: r[CHOSEN_BY] for r in results if _is(r, noise=noise, loss=loss)
                        and r["settings"]["seed"] == 0}  # fmt: skip
                listed = ", ".join(f"t {t:g} {value:.1f}" for t, value in scores.items())
                told.append(f"- Seed 0, validation, {NOISES[noise]}, {parse_loss(loss).label}: {listed}.")
        return told


def _is(result: Result, **settings: Any) -> bool:
    return settings.items() <= result["settings"].items()


def reported(results: Sequence[Result], length: int) -> list[Result]:
    return [r for r in results if r["settings"]["seed"] > 0 and r["settings"]["length"] == length]


def best_temperature(results: Sequence[Result], noise: str, loss: str) -> float:
    """The temperature with the best validation accuracy on seed 0."""
    candidates = [r for r in results if _is(r, noise=noise, loss=loss, seed=0)]
    return max(candidates, key=lambda r: r[CHOSEN_BY])["settings"]["temperature"]


def finalists(results: Sequence[Result], noise: str) -> list[str]:
    """The losses with the best mean validation accuracy on the fresh seeds."""
    values: dict[str, list[float]] = {}
    for r in reported(results, 1):
        if r["settings"]["noise"] == noise:
            values.setdefault(r["settings"]["loss"], []).append(r[CHOSEN_BY])
    return sorted(values, key=lambda loss: fmean(values[loss]), reverse=True)[:FINALISTS]
