"""``rince train --trust auto`` end to end, nothing frozen, against the same run without weights and with the truth.

spoken: images of digits and people saying them, a share of the pairs of two different digits; how often the nearest
item of the other side is of the same digit, mean of both directions. labels: CIFAR-10 behind a fixed stem with the
paper's flipped labels (the rate is its eta), SupCon with several positives; linear probes in both spaces.
random-labels: the same with labels of any other class. digit-labels: that on scikit-learn's digits. The oracle is
``--trust TABLE`` with the truth as table.
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.evidence.comparisons import same_class_first
from experiments.experiment import Experiment
from experiments.features import both_spaces
from experiments.paper.images.cifar10 import STEM_CONFIG
from experiments.paper.images.cifar10 import evaluate as evaluate_labels
from experiments.tables import Cell
from experiments.training import part, settings_of, trained
from rince.compare.grid import Result, Run
from rince.demo import auc
from rince.evaluate.probes import fit_linear


def infonce(temperature: float) -> dict[str, Any]:
    return {"loss": part("rince.InfoNCE", temperature=temperature), "method.q_schedule": "constant"}


def gce(temperature: float) -> dict[str, Any]:
    return {"loss": part("rince.GCE", q=1.0, temperature=temperature), "method.q_schedule": "constant"}


def growing(temperature: float) -> dict[str, Any]:
    return {"loss.temperature": temperature, "method.q_schedule": "linear", "method.q_start": 0.01}


EPOCHS = 36  # of spoken digits


class Spoken:
    """Two towers from scratch on images and sounds."""

    config, rates = "spoken_digits/rince", [0.4, 0.6]
    first_seed = 1  # the number of folds was chosen on seed 0

    def runs(self, rate: float) -> dict[str, tuple[str, dict[str, Any]]]:
        """Title: trust and changes. Temperatures of losses alone are the best of the table in docs/results.md."""
        alone = {0.4: (0.5, 0.2), 0.6: (1.0, 0.5)}.get(rate, (0.2, 0.2))
        return {
            f"InfoNCE, t {alone[0]:g}": ("", infonce(alone[0])),
            f"growing q, t {alone[1]:g}": ("", growing(alone[1])),
            "InfoNCE, t 0.2, trust auto": ("auto", infonce(0.2)),
            "InfoNCE, t 0.2, trust copies, three folds": ("copies", infonce(0.2) | {"trust.folds": 3}),
            "InfoNCE, t 0.2, trust copies, long": ("copies", infonce(0.2) | {"trust.epochs": 2 * EPOCHS}),
            "InfoNCE, t 0.2, oracle": ("oracle", infonce(0.2)),
            "GCE, t 0.5": ("", gce(0.5)),
            "GCE, t 0.2": ("", gce(0.2)),
            "GCE, t 0.2, trust auto": ("auto", gce(0.2)),
        }

    def changes(self, source: str, out: Path, rate: float, seed: int) -> dict[str, Any]:
        data = {"data.source": source, "data.wrong_pairs": rate, "data.wrong_pairs_seed": seed}
        return {**data, "trainer.max_epochs": EPOCHS, "checkpoint_every": 10_000, "probe": False}

    def truth(self, data: Any) -> tuple[Any, Any]:
        return data.pair_names(), 1.0 - data.noise_record()["partner_hit"]

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        return same_class_first(method, data)


class Labels:
    """SupCon with several positives on features of a fixed stem."""

    config, rates = STEM_CONFIG, [0.8]
    first_seed = 0

    def runs(self, rate: float) -> dict[str, tuple[str, dict[str, Any]]]:
        return {
            "InfoNCE, t 0.1": ("", infonce(0.1)),
            "InfoNCE, t 0.1, trust auto": ("auto", infonce(0.1)),
            "InfoNCE, t 0.1, oracle": ("oracle", infonce(0.1)),
            "RINCE q 1, t 0.5": ("", {"loss.q": 1.0, "loss.temperature": 0.5}),
            "RINCE q 1, t 0.5, trust auto": ("auto", {"loss.q": 1.0, "loss.temperature": 0.5}),
        }

    def noise(self, rate: float, seed: int) -> dict[str, Any]:
        return part("rince.noise.labels.PaperFlips", eta=rate, seed=seed)

    def changes(self, source: str, out: Path, rate: float, seed: int) -> dict[str, Any]:
        data = {"data.source.root": source, "data.cache": str(out / "stem-10000.npz")}
        data["data.noise"] = self.noise(rate, seed)
        return {**data, "method.positives": "several", "probe": False, "checkpoint_every": 10_000}

    def truth(self, data: Any) -> tuple[Any, Any]:
        return None, 1.0 - data.noise_record()["hit"]

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        scores = evaluate_labels(method, data)
        return {"test": scores["encoder_linear_test"], "projection": scores["projection_linear_test"]}


class RandomLabels(Labels):
    """The same with labels of any other class."""

    config, rates = Labels.config, [0.4]

    def noise(self, rate: float, seed: int) -> dict[str, Any]:
        return part("rince.noise.labels.UniformFlips", rate=rate, seed=seed)


class DigitLabels(RandomLabels):
    """SupCon on digits, images and all."""

    config, rates = "digits/simclr", [0.2, 0.4]

    def changes(self, source: str, out: Path, rate: float, seed: int) -> dict[str, Any]:
        method = part("rince.methods.simclr.SupCon", hidden=128, width=64, positives="several")
        return {"method": method, "data.noise": self.noise(rate, seed), "probe": False, "checkpoint_every": 10_000}

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        (images, labels), (unseen, truth) = data.split("train"), data.split("test")
        train_features, test_features = both_spaces(method, images), both_spaces(method, unseen)
        probes = {space: fit_linear(train_features[space], labels, 0.1) for space in ("encoder", "projection")}
        return {
            "test": 100 * probes["encoder"].accuracy(test_features["encoder"], truth),
            "projection": 100 * probes["projection"].accuracy(test_features["projection"], truth),
        }


TASKS = {"spoken": Spoken, "labels": Labels, "random-labels": RandomLabels, "digit-labels": DigitLabels}


def table_of_truth(task: Any, settings: dict[str, Any], out: Path, rate: float, seed: int) -> str:
    """A trust of 1 for right and 0 for wrong pairs, as a table beside the runs."""
    from rince.train.config import build, parse_settings, train_parser
    from rince.train.weights import save_weights

    path = out / f"truth-{rate:g}-{seed}.csv"
    parser = train_parser()
    data = build(parser, parse_settings(parser, settings)).data
    data.setup("fit")
    names, weights = task.truth(data)
    save_weights(path, np.asarray(weights, dtype=np.float32), names)
    return str(path)


class TrustTrained(Experiment):
    name = "trust-trained"
    summary = (__doc__ or "").replace("``", "") + "Writes results.csv and table.md."
    corner = "%"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("data", choices=list(TASKS))
        parser.add_argument("--source", default="", help="recordings, or the folder of CIFAR-10; digits need none")
        parser.add_argument("--rates", nargs="+", type=float, help="of wrong pairs or labels")
        parser.add_argument("--only", nargs="+", help="titles of runs; by default all")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        task = TASKS[options.data]()
        return [
            {"data": options.data, "title": title, "rate": rate, "seed": seed}
            for seed in range(task.first_seed, task.first_seed + options.seeds)
            for rate in options.rates or task.rates
            for title in task.runs(rate)
            if not options.only or title in options.only
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        task, out, rate, seed = TASKS[run["data"]](), Path(options.out), run["rate"], run["seed"]
        source, changes = task.runs(rate)[run["title"]]
        settings = settings_of(task.config, changes | task.changes(options.source, out, rate, seed) | {"seed": seed})
        if source == "oracle":
            settings["trust"] = {"source": table_of_truth(task, settings, out, rate, seed)}
        elif source:
            settings["trust"] = settings.get("trust", {}) | {"source": source}
        folder, start = self.folder_of(run, options), time.process_time()
        method, data = trained(settings, folder)
        seconds = time.process_time() - start
        estimate = json.loads((folder / "result.json").read_text("utf-8")).get("trust", {}).get("noise_rate")
        result: Result = {**task.measure(method, data), "cpu_seconds": seconds, "noise_rate": estimate}
        if source in ("auto", "copies"):
            weights = np.genfromtxt(folder / "trust.csv", delimiter=",", names=True, usecols=("weight",))["weight"]
            result["auc"] = auc(weights.astype(np.float32), task.truth(data)[1] < 0.5)
        return result | {"headline": f"{result['test']:.1f} %"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for result in results:
            run = result["settings"]
            for key in ("test", "projection"):
                if key in result:
                    yield run["title"], f"{run['rate']:g}" + (" projection" if key != "test" else ""), result[key]
