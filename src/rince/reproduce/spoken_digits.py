"""Images of digits and people saying them, some of the pairs wrong: InfoNCE against RINCE, temperatures tuned."""

import argparse
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text
from rince.errors import MissingFile
from rince.reproduce.grid import Run, finished_runs, run_grid
from rince.reproduce.options import checked
from rince.reproduce.tables import aligned, as_csv, mean_and_deviation, plus_minus, seeds_note
from rince.reproduce.training import part, trained

RATES = [0.0, 0.2, 0.4, 0.6]
TEMPERATURES = {"infonce": [0.1, 0.2, 0.5, 1.0], "rince": [0.2, 0.5, 1.0], "rince-warm-up": [0.2, 0.5, 1.0]}
NAMES = {"infonce": "InfoNCE", "rince": "RINCE q 0.5", "rince-warm-up": "RINCE q 0.01 to 0.4"}
COLUMNS = {  # in a result: in the table
    "a to b class": "sound found by image",
    "b to a class": "image found by sound",
    "b linear": "linear probe, sounds",
    "a linear": "linear probe, images",
    "wrong pairs AUC": "AUC of wrong pairs",
}
CHOSEN_BY = ("validation a to b class", "validation b to a class")
EPOCHS, BATCH = 36, 128
DECAY = 0.01  # of the linear probes on standardised features, the same for all
DESCRIPTION = (
    "Trains two towers on images and sounds of digits where a share of the pairs is of two different digits. Of "
    "every loss the best temperature on the validation part is reported, for every rate. "
    "Writes results.csv and table.md."
)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    runs = [
        {"loss": loss, "temperature": t, "wrong": rate, "seed": seed, "epochs": options.epochs}
        for seed in range(options.seeds)
        for rate in options.rates
        for loss in options.losses
        for t in TEMPERATURES[loss]
    ]
    work = functools.partial(one_run, source=options.source, out=options.out)
    folder = Path(options.out) / "results"
    if options.so_far:
        results = finished_runs(runs, folder, run_name)
    else:
        results = run_grid(runs, work, folder, run_name, options.workers)
    print(report(results, Path(options.out), options.losses, options.rates), end="")
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rince reproduce spoken-digits", description=DESCRIPTION, exit_on_error=False)
    parser.add_argument("--source", default=default_source(), help="folder or zip file of the recordings (%(default)s)")
    parser.add_argument(
        "--losses",
        nargs="+",
        choices=list(NAMES),
        default=list(NAMES),
        metavar="L",
        help=f"of {', '.join(NAMES)} (all)",
    )
    parser.add_argument(
        "--rates", nargs="+", type=float, default=RATES, metavar="R", help="of wrong pairs (0 0.2 0.4 0.6)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0, 1, ... (3)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"of training ({EPOCHS})")
    parser.add_argument(
        "--out", default="runs/reproduce/spoken-digits", help="folder for runs and results (%(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--so-far", action="store_true", help="do no runs, only report on those that are finished")
    options = checked(parser, arguments, "seeds", "epochs", "workers")
    if not options.so_far and not Path(options.source).exists():
        raise MissingFile(f"there are no spoken digits at {options.source}: give --source, a folder or zip file")
    return options


def default_source() -> str:
    """$RINCE_DATA/fsdd.zip if that variable is set."""
    return str(Path(os.environ.get("RINCE_DATA", "data")) / "fsdd.zip")


def run_name(run: Run) -> str:
    return f"{run['loss']} t {run['temperature']:g} wrong {run['wrong']:g} seed {run['seed']}"


def one_run(run: Run, source: str, out: str) -> dict[str, Any]:
    from rince.evaluate.pairs import evaluate_pairs, pair_features, retrieval

    method, data = trained(settings(run, source), str(Path(out) / "runs"), run_name(run).replace(" ", "-"))
    held_out = pair_features(method, data.pair_batches("validation"))
    scores = retrieval(*held_out.embeddings, held_out.labels)
    result = evaluate_pairs(method, data, decay=DECAY) | {f"validation {key}": value for key, value in scores.items()}
    return {**result, "headline": f"same class {result['a to b class']:.1f} and {result['b to a class']:.1f} %"}


def settings(run: Run, source: str) -> dict[str, Any]:
    """What configs/spoken_digits/rince.yaml says, with the loss, noise and seed of the run."""
    schedule = {"q_schedule": "linear", "q_start": 0.01} if run["loss"] == "rince-warm-up" else {}
    image = part(
        "rince.views.image.Recipe", size=8, crop=[0.6, 1.0], flip=0, jitter=[0.4, 0.4, 0, 0], grey_chance=0,
        blur_chance=0, mean=[0.305], std=[0.377],
    )  # fmt: skip
    sound = part("rince.views.sound.SoundRecipe", sample_rate=8000, window=128, hop=0.016, normalise="sound", shift=0.1)
    return {
        "seed": run["seed"],
        "method": part(
            "rince.methods.cross_modal.CrossModal", hidden=128, width=64, layers=2, head_norm=True, **schedule
        ),
        "encoder": part(
            "rince.encoders.towers.Towers",
            a=part("rince.encoders.convnet.ConvNet", channels=1, width=16),
            b=part("rince.encoders.audio.AudioConvNet", width=8),
        ),
        "loss": loss_of(run),
        "views": part("rince.views.pair.PairViews", a=image, b=sound),
        "optimiser": part("torch.optim.Adam", lr=0.002, fused=True),
        "data": part(
            "rince.data.pairs.spoken_digits.SpokenDigits",
            source=source,
            batch_size=BATCH,
            wrong_pairs=run["wrong"],
            wrong_pairs_seed=run["seed"],
        ),
        "probe": False,
        "checkpoint_every": 1000,
        "trainer": {"max_epochs": run["epochs"], "log_every_n_steps": 18, "accelerator": "cpu"},
    }


def loss_of(run: Run) -> dict[str, Any]:
    if run["loss"] == "infonce":
        return part("rince.InfoNCE", temperature=run["temperature"])
    q = 0.4 if run["loss"] == "rince-warm-up" else 0.5
    return part("rince.RINCE", q=q, lam="balanced", temperature=run["temperature"], scale="unit")


def best_temperature(results: Sequence[dict[str, Any]], loss: str, rate: float) -> float:
    """The temperature whose runs did best on the validation part, both ways taken together."""

    def score(temperature: float) -> float:
        mine = of(results, loss, rate, temperature)
        return sum(r[key] for r in mine for key in CHOSEN_BY) / len(mine) if mine else -1.0

    return max(TEMPERATURES[loss], key=score)


def of(results: Sequence[dict[str, Any]], loss: str, rate: float, temperature: float) -> list[dict[str, Any]]:
    wanted = {"loss": loss, "wrong": rate, "temperature": temperature}
    return [r for r in results if wanted.items() <= r["settings"].items()]


def report(results: list[dict[str, Any]], out: Path, losses: list[str], rates: list[float]) -> str:
    """Write all files of the experiment and return the tables."""
    chosen = {(loss, rate): best_temperature(results, loss, rate) for loss in losses for rate in rates}
    note = seeds_note([len(of(results, *cell, t)) for cell, t in chosen.items()])
    text = (
        f"{table_of_tests(results, losses, rates, chosen)}\n"
        f"Test part; mean and standard deviation over {note}.\n\n"
        "Same class found, both ways taken together, validation part / test part, at every temperature:\n\n"
        f"{table_of_temperatures(results, losses, rates, chosen)}\n"
        "* chosen on the validation part.\n"
    )
    keys, columns = ["loss", "temperature", "wrong", "seed"], [*COLUMNS, *CHOSEN_BY]
    lines = [[r["settings"][k] for k in keys] + [r.get(c, "") for c in columns] for r in results]
    write_text(out / "results.csv", as_csv([*keys, *columns], lines))
    write_text(out / "table.md", text)
    return text


Chosen = dict[tuple[str, float], float]


def table_of_tests(results: list[dict[str, Any]], losses: list[str], rates: list[float], chosen: Chosen) -> str:
    rows = []
    for key, name in COLUMNS.items():
        for loss in losses:
            found = [[r[key] for r in of(results, loss, rate, chosen[loss, rate]) if key in r] for rate in rates]
            rows.append([f"{name}: {NAMES[loss]}", *map(plus_minus, found)])
    return aligned(["% with wrong pairs of", *(f"{100 * rate:g} %" for rate in rates)], rows)


def table_of_temperatures(results: list[dict[str, Any]], losses: list[str], rates: list[float], chosen: Chosen) -> str:
    rows = []
    for loss, t in [(name, t) for name in losses for t in TEMPERATURES[name]]:
        cells = []
        for rate in rates:
            mine, ways = of(results, loss, rate, t), ("a to b class", "b to a class")
            both = [[r[prefix + way] for r in mine for way in ways] for prefix in ("validation ", "")]
            mark = " *" if len(TEMPERATURES[loss]) > 1 and chosen[loss, rate] == t else ""
            cells.append(" / ".join(f"{mean_and_deviation(v)[0]:.1f}" for v in both) + mark if mine else "-")
        rows.append([f"{NAMES[loss]}, t {t:g}", *cells])
    return aligned(["% with wrong pairs of", *(f"{100 * rate:g} %" for rate in rates)], rows)
