"""Images of digits and people saying them, some of the pairs wrong: InfoNCE against RINCE, temperatures tuned."""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.experiment import Experiment, grid, several
from experiments.figures import lines
from experiments.tables import Cell
from experiments.training import loss_changes, loss_title, settings_of, split_loss, trained
from rince.compare.grid import Result, Run
from rince.compare.tables import aligned, mean_and_deviation
from rince.errors import UsageError

CONFIG = "spoken_digits/rince"
COLUMNS = {  # in a result: in the table
    "a to b class": "sound found by image",
    "b to a class": "image found by sound",
    "b linear": "linear probe, sounds",
    "a linear": "linear probe, images",
    "wrong pairs AUC": "AUC of wrong pairs",
}
CHOSEN_BY = ("validation a to b class", "validation b to a class")
DECAY = 0.01  # of the linear probes on standardized features, the same for all


class SpokenDigitsTable(Experiment):
    name = "spoken-digits"
    summary = (
        "Trains two towers on images and sounds of digits where a share of the pairs is of two different digits. Of "
        "every loss the best temperature on the validation part is reported, for every rate. Writes results.csv, "
        "table.md, figure.png and figure.svg."
    )
    epochs = 36
    corner = "% with wrong pairs of"
    note = "Test part."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        usual = str(Path(os.environ.get("RINCE_DATA", "data")) / "fsdd.zip")
        parser.add_argument("--source", default=usual, help="folder or zip file of the recordings (%(default)s)")
        several(parser, "--losses", ["infonce", "rince-0.5", "warm-up"], "losses")
        several(parser, "--temperatures", [0.1, 0.2, 0.5, 1.0], "that every loss is tried at")
        several(parser, "--rates", [0.0, 0.2, 0.4, 0.6], "of wrong pairs")

    def check(self, options: argparse.Namespace) -> None:
        for loss in options.losses:
            split_loss(loss)
        if not options.report_only and not Path(options.source).exists():
            raise UsageError(f"there are no spoken digits at {options.source}: give --source, a folder or zip file")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return grid(
            seed=range(options.seeds), wrong=options.rates, loss=options.losses, temperature=options.temperatures,
            epochs=[options.epochs],
        )  # fmt: skip

    def settings(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """The whole configuration of a run."""
        changes = {
            "seed": run["seed"],
            "data.source": options.source,
            "data.wrong_pairs": run["wrong"],
            "data.wrong_pairs_seed": run["seed"],
            "trainer.max_epochs": run["epochs"],
            "probe": False,
        }
        return settings_of(CONFIG, loss_changes(CONFIG, f"{run['loss']}@{run['temperature']}") | changes)

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from rince.evaluate.pairs import evaluate_pairs, pair_features, retrieval

        method, data = trained(self.settings(run, options), self.folder_of(run, options))
        held_out = pair_features(method, data.pair_batches("validation"))
        scores = retrieval(*held_out.embeddings, held_out.labels)
        result = evaluate_pairs(method, data, decay=DECAY)
        result |= {f"validation {key}": value for key, value in scores.items()}
        return {**result, "headline": f"same class {result['a to b class']:.1f} and {result['b to a class']:.1f} %"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for key, name in COLUMNS.items():
            for loss in options.losses:
                for rate in options.rates:
                    for r in of(results, loss, rate, best_temperature(results, loss, rate)):
                        if key in r:
                            yield f"{name}: {loss_title(loss)}", f"{100 * rate:g} %", r[key]

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return [
            "",
            "Same class found, both ways taken together, validation part / test part, at every temperature:",
            "",
            *table_of_temperatures(results, options).splitlines(),
            "",
            "* chosen on the validation part.",
        ]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (name, loss_title(loss), 100 * rate, r[key])
            for key, name in list(COLUMNS.items())[:2]
            for loss in options.losses
            for rate in options.rates
            for r in of(results, loss, rate, best_temperature(results, loss, rate))
        ]
        return lines(points, "wrong pairs, %", "same digit found, %")


def best_temperature(results: Sequence[Result], loss: str, rate: float) -> float:
    """The temperature whose runs did best on the validation part, both ways taken together."""
    temperatures = dict.fromkeys(r["settings"]["temperature"] for r in results if r["settings"]["loss"] == loss)

    def score(temperature: float) -> float:
        runs = of(results, loss, rate, temperature)
        return sum(r[key] for r in runs for key in CHOSEN_BY) / len(runs) if runs else -1.0

    return max(temperatures, key=score, default=0.0)


def of(results: Sequence[Result], loss: str, rate: float, temperature: float) -> list[Result]:
    """The results of all seeds of one setting."""
    setting = {"loss": loss, "wrong": rate, "temperature": temperature}
    return [r for r in results if setting.items() <= r["settings"].items()]


def table_of_temperatures(results: Sequence[Result], options: argparse.Namespace) -> str:
    rows = []
    for loss in options.losses:
        for t in options.temperatures:
            cells = []
            for rate in options.rates:
                runs, ways = of(results, loss, rate, t), ("a to b class", "b to a class")
                values = [[r[prefix + way] for r in runs for way in ways] for prefix in ("validation ", "")]
                mark = " *" if best_temperature(results, loss, rate) == t and len(options.temperatures) > 1 else ""
                cells.append(" / ".join(f"{mean_and_deviation(v)[0]:.1f}" for v in values) + mark if runs else "-")
            rows.append([f"{loss_title(loss)}, t {t:g}", *cells])
    return aligned(["% with wrong pairs of", *(f"{100 * rate:g} %" for rate in options.rates)], rows)
