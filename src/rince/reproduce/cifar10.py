"""What the CIFAR-10 experiments share: train by a configuration, evaluate in both spaces, tabulate."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rince._support.atomic_files import write_text
from rince.errors import UsageError
from rince.reproduce.grid import run_grid
from rince.reproduce.options import checked
from rince.reproduce.tables import aligned, as_csv, plus_minus
from rince.reproduce.training import trained

Run = Mapping[str, Any]
DECAY = 0.1  # of the linear probe on standardised features: near the best for the stem alone, the same for all
SPACES: tuple[Literal["encoder", "projection"], ...] = ("encoder", "projection")


def options(name: str, description: str, seeds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"rince reproduce {name}", description=description, exit_on_error=False)
    parser.add_argument("--root", default=default_root(), help="folder with CIFAR-10, packed or not (%(default)s)")
    parser.add_argument("--download", action="store_true", help="fetch CIFAR-10 (170 MB) to --root if it is not there")
    parser.add_argument("--seeds", type=int, default=seeds, help="how many: 0, 1, ... (%(default)s)")
    parser.add_argument("--epochs", type=int, default=None, help="of training; the configuration's by default")
    parser.add_argument("--rate", type=float, default=0.8, help="of the noise (%(default)s)")
    parser.add_argument("--out", default=f"runs/reproduce/{name}", help="folder for runs and results (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (%(default)s)")
    return parser


def default_root() -> str:
    return os.environ.get("RINCE_CIFAR10", "data")


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    found = checked(parser, arguments, "seeds", "workers")
    if not 0 <= found.rate <= 1:
        raise UsageError(f"--rate must lie in [0, 1], got {found.rate}")
    if found.download:
        from rince.data.images.cifar10 import CIFAR10

        CIFAR10(found.root, download=True).prepare_data()
    return found


def train_and_evaluate(settings: dict[str, Any], out: str, name: str) -> dict[str, Any]:
    """One run in ``out/NAME``, continued if it was interrupted, and its accuracies in percent."""
    return evaluate(*trained(settings, out, name))


def evaluate(method: Any, data: Any) -> dict[str, Any]:
    """Linear probe and nearest neighbours, with right labels, on the validation and test parts, in both spaces."""
    from rince.evaluate.features import features_of
    from rince.evaluate.knn import knn_accuracy
    from rince.evaluate.linear import fit_linear

    train, labels = data.split("train")
    held_out = {part: data.split(part) for part in ("validation", "test")}
    result: dict[str, Any] = {}
    for space in SPACES:
        known = features_of(method, train, space)
        probe = fit_linear(known, labels, DECAY)
        for part, (images, truth) in held_out.items():
            found = features_of(method, images, space)
            result[f"{space}_linear_{part}"] = 100 * probe.accuracy(found, truth)
            result[f"{space}_knn_{part}"] = 100 * knn_accuracy(known, labels, found, truth, k=50)
    result["headline"] = f"linear {result['encoder_linear_test']:.1f}, kNN {result['encoder_knn_test']:.1f}"
    return result


def carry_out(
    runs: Sequence[Run],
    work: Callable[[Run], dict[str, Any]],
    name: Callable[[Run], str],
    label: Callable[[Run], str],
    options: argparse.Namespace,
    title: str,
) -> str:
    """Do all runs, write results.csv and table.md, and return the table."""
    folder = Path(options.out)
    results = run_grid(runs, work, folder / "results", name, options.workers)
    columns = [f"{space}_{kind}_test" for space in SPACES for kind in ("linear", "knn")]
    rows = []
    for row in dict.fromkeys(label(r) for r in runs):
        mine = [r for r, run in zip(results, runs, strict=True) if label(run) == row]
        rows.append([row, *(plus_minus([r[c] for r in mine]) for c in columns)])
    header = ["", "encoder: linear", "kNN", "projection: linear", "kNN"]
    table = f"{title}\n\n{aligned(header, rows)}\n{chosen_temperatures(runs, results)}"
    write_text(folder / "table.md", table)
    keys = sorted({key for run in runs for key in run})
    columns += [f"{space}_linear_validation" for space in SPACES]
    lines = [[r["settings"].get(k, "") for k in keys] + [r[c] for c in columns] for r in results]
    write_text(folder / "results.csv", as_csv([*keys, *columns], lines))
    return table


def chosen_temperatures(runs: Sequence[Run], results: Sequence[dict[str, Any]]) -> str:
    """Which of InfoNCE's temperatures the linear probe of the validation part prefers, in each space."""
    lines = []
    for form in dict.fromkeys(run.get("positives", "") for run in runs):
        for space in SPACES:
            found: dict[float, list[float]] = {}
            for run, result in zip(runs, results, strict=True):
                if run["loss"] == "infonce" and run["rate"] and run.get("positives", "") == form:
                    found.setdefault(run["temperature"], []).append(result[f"{space}_linear_validation"])
            best = max(found, key=lambda t: fmean(found[t]), default=None)
            means = ", ".join(f"t {t:g} {fmean(values):.1f}" for t, values in sorted(found.items()))
            lines.append(f"- {form + ', ' if form else ''}{space}: InfoNCE on the validation part {means}: t {best:g}.")
    return "\n".join(lines) + "\n"
