"""`rince train --trust auto` end to end, nothing frozen, against the same run without trust and with the truth.

    python -m experiments trust-trained spoken --source fsdd.zip --out DIR [--rates 0.4 0.6] [--seeds 0 1 2]
    python -m experiments trust-trained labels --source DIR --out DIR [--rates 0.8] [--seeds 0 1 2]
    python -m experiments trust-trained random-labels --source DIR --out DIR [--rates 0.4] [--seeds 0 1 2]
    python -m experiments trust-trained digit-labels --out DIR [--rates 0.4] [--seeds 0 1 2]

spoken: images of digits and people saying them, a share of the pairs of two different digits; how often the nearest
item of the other side is of the same digit, both ways taken together.
labels: CIFAR-10 behind a fixed stem with the paper's flipped labels (the rate is its eta), SupCon with several
positives; linear probes in both spaces. random-labels: the same with labels of any other class. digit-labels: that on
scikit-learn's digits.

The oracle is `--trust TABLE` with the truth as table. A folder with the result of a run is not trained again.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.evidence.comparisons import same_class_first
from experiments.features import both_spaces
from experiments.paper.images.cifar10 import STEM_CONFIG
from experiments.paper.images.cifar10 import evaluate as evaluate_labels
from experiments.tables import plus_minus
from experiments.training import part, settings_of, trained
from rince._support.atomic_files import write_text
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
        found = evaluate_labels(method, data)
        return {"test": found["encoder_linear_test"], "projection": found["projection_linear_test"]}


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
        known, found = both_spaces(method, images), both_spaces(method, unseen)
        probes = {space: fit_linear(known[space], labels, 0.1) for space in ("encoder", "projection")}
        return {
            "test": 100 * probes["encoder"].accuracy(found["encoder"], truth),
            "projection": 100 * probes["projection"].accuracy(found["projection"], truth),
        }


TASKS = {"spoken": Spoken, "labels": Labels, "random-labels": RandomLabels, "digit-labels": DigitLabels}


def work(task: Any, title: str, rate: float, seed: int, source: str, out: Path) -> dict[str, Any]:
    """The result of one run, from its folder if it is there."""
    folder = out / f"{title}, rate {rate:g}, seed {seed}".replace(", ", "-").replace(" ", "_")
    kept = folder / "measured.json"
    if kept.exists():
        return json.loads(kept.read_text("utf-8"))
    trust, changes = task.runs(rate)[title]
    settings = settings_of(task.config, changes | task.changes(source, out, rate, seed) | {"seed": seed})
    if trust:
        source = trust if trust in ("auto", "copies") else table_of_truth(task, settings, out, rate, seed)
        settings["trust"] = settings.get("trust", {}) | {"source": source}
    start = time.process_time()
    method, data = trained(settings, folder)
    seconds = time.process_time() - start
    found = json.loads((folder / "result.json").read_text("utf-8")).get("trust", {})
    result = {**task.measure(method, data), "seconds": seconds, "noise_rate": found.get("noise_rate")}
    if trust in ("auto", "copies"):
        weights = np.genfromtxt(folder / "trust.csv", delimiter=",", names=True, usecols=("weight",))["weight"]
        result["auc"] = auc(weights, task.truth(data)[1] < 0.5)
    write_text(kept, json.dumps(result) + "\n")
    return result


def auc(weights: Any, wrong: Any) -> float:
    from rince.demo import auc

    return auc(weights.astype(np.float32), wrong)


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


def table(results: dict[tuple[str, float], list[dict[str, Any]]], rates: list[float]) -> str:
    keys = [k for k in ("test", "projection") if all(k in one for runs in results.values() for one in runs)]
    columns = [(rate, key) for rate in rates for key in keys]
    lines = ["| run | " + " | ".join(f"{rate:g}{'' if len(keys) < 2 else ' ' + key}" for rate, key in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for title in dict.fromkeys(title for title, _ in results):
        cells = [plus_minus([one[key] for one in results.get((title, rate), [])]) for rate, key in columns]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=list(TASKS))
    parser.add_argument("--source", default="", help="recordings, or the folder of CIFAR-10; digits need none")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--rates", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", help="titles of runs; by default all")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    task = TASKS[options.data]()
    rates = options.rates or task.rates
    results: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for seed in options.seeds:
        for rate in rates:
            for title in task.runs(rate):
                if options.only and title not in options.only:
                    continue
                result = work(task, title, rate, seed, options.source, options.out)
                results.setdefault((title, rate), []).append(result)
                print(f"seed {seed}, rate {rate:g}, {title}: {result}", flush=True)
    print(table(results, rates))
