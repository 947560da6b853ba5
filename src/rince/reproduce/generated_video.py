"""Clips and sounds without labels, then few labels: is fine-tuning better than training from scratch?"""

import argparse
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text
from rince.reproduce.grid import Run, finished_runs, run_grid
from rince.reproduce.options import checked
from rince.reproduce.tables import aligned, as_csv, plus_minus, seeds_note
from rince.reproduce.training import part

NAMES = {"infonce": "InfoNCE", "rince": "RINCE q 0.01 to 0.4", "scratch": "from scratch"}
EPOCHS, TUNING_EPOCHS, PER_CLASS = 24, 128, 2
LEARNING_RATES = (0.001, 0.003, 0.01)  # of fine-tuning and of training from scratch: each gets all of them
COLUMNS = {f"tuned {lr:g}": f"fine-tuned at {lr:g}" for lr in LEARNING_RATES} | {"frozen": "frozen features"}
VIDEOS_SEED = 1  # settings were chosen on the videos of seed 0
DESCRIPTION = (
    "Trains on clips and sounds of generated videos without labels, a share of the sounds being a stranger's, then "
    "fine-tunes on a few labelled videos of each class and tests on others; and the same from initial weights with the "
    "same number of epochs. Both at three learning rates. Writes results.csv and table.md."
)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    common = {
        "per_class": options.per_class,
        "tuning_epochs": options.tuning_epochs,
        "videos_seed": options.videos_seed,
    }
    runs: list[Run] = []
    for seed in range(options.seeds):
        runs.append({"loss": "scratch", "seed": seed, **common})
        runs += [
            {"loss": loss, "wrong": rate, "seed": seed, "epochs": options.epochs, **common}
            for rate in options.rates
            for loss in options.losses
        ]
    folder = Path(options.out) / "results"
    if options.so_far:
        results = finished_runs(runs, folder, run_name)
    else:
        work = functools.partial(one_run, root=options.root, out=options.out)
        results = run_grid(runs, work, folder, run_name, options.workers)
    print(report(results, Path(options.out)), end="")
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    name = "generated-video"
    parser = argparse.ArgumentParser(prog=f"rince reproduce {name}", description=DESCRIPTION, exit_on_error=False)
    losses = [loss for loss in NAMES if loss != "scratch"]
    parser.add_argument(
        "--losses", nargs="+", choices=losses, default=losses, metavar="L", help=f"of {', '.join(losses)} (all)"
    )
    parser.add_argument(
        "--rates", nargs="+", type=float, default=[0.0, 0.4], metavar="R", help="of wrong sounds (0 0.4)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0, 1, ... (3)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"without labels ({EPOCHS})")
    parser.add_argument("--tuning-epochs", type=int, default=TUNING_EPOCHS, help=f"with labels ({TUNING_EPOCHS})")
    parser.add_argument("--per-class", type=int, default=PER_CLASS, help=f"labelled videos of each class ({PER_CLASS})")
    parser.add_argument(
        "--videos-seed",
        type=int,
        default=VIDEOS_SEED,
        metavar="S",
        help=f"of what the videos show ({VIDEOS_SEED}; settings were chosen on 0)",
    )
    parser.add_argument("--root", default="data/generated_video", help="folder that keeps the videos (%(default)s)")
    parser.add_argument("--out", default=f"runs/reproduce/{name}", help="folder for runs and results (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--so-far", action="store_true", help="do no runs, only report on those that are finished")
    return checked(parser, arguments, "seeds", "epochs", "tuning_epochs", "per_class", "workers")


def run_name(run: Run) -> str:
    noise = f" wrong {run['wrong']:g}" if "wrong" in run else ""
    return f"{run['loss']}{noise} seed {run['seed']}"


def one_run(run: Run, root: str, out: str) -> dict[str, Any]:
    """Accuracies in percent after fine-tuning and of frozen features; from scratch there is only the former."""
    before = os.times()
    folder = Path(out) / "runs" / run_name(run).replace(" ", "-")
    scratch = run["loss"] == "scratch"
    if not scratch:
        pretrain(run, root, folder)
    found = {
        f"tuned {lr:g}": accuracy(run, root, folder, f"tuned-{lr:g}", lr, from_scratch=scratch) for lr in LEARNING_RATES
    }
    if not scratch:
        found["frozen"] = accuracy(run, root, folder, "frozen", LEARNING_RATES[-1], linear=True)
    spent = sum(os.times()[:4]) - sum(before[:4])  # of this process and those that decoded for it
    headline = ", ".join(f"{COLUMNS[key]} {value:.1f}" for key, value in found.items())
    return {**found, "cpu_seconds": spent, "headline": headline}


def pretrain(run: Run, root: str, folder: Path) -> None:
    from rince.train.parser import parse_settings, train_parser
    from rince.train.run import run as train

    if not (folder / "result.json").exists():
        parser = train_parser()
        settings = training(run, root) | {"out": str(folder.parent), "name": folder.name}
        train(parser, parse_settings(parser, settings))


def accuracy(run: Run, root: str, folder: Path, name: str, lr: float, **options: bool) -> float:
    """Of fine-tuning the run in ``folder``, done there unless it is finished."""
    import json

    from rince.train.finetune import Source, fine_tune, finetune_parser
    from rince.train.parser import parse_settings

    result = folder / name / "result.json"
    if not result.exists():
        source = Source(folder, folder / "encoder.safetensors", {"encoder": training(run, root)["encoder"]})
        parser = finetune_parser(source)
        settings = tuning(run, root, lr) | {"out": str(folder), "name": name, "run": str(folder), **options}
        list(fine_tune(parser, parse_settings(parser, settings), source))
    return float(json.loads(result.read_text(encoding="utf-8"))["accuracy"])


def training(run: Run, root: str) -> dict[str, Any]:
    """What configs/generated_video/train.yaml says, with the loss, noise and seed of the run."""
    schedule = {"q_schedule": "linear", "q_start": 0.01} if run["loss"] == "rince" else {}
    noise = {"noise": part("rince.noise.sounds.Overdub", rate=run["wrong"])} if run.get("wrong") else {}
    rince = part("rince.RINCE", q=0.4, lam="balanced", temperature=0.5)
    return {
        "seed": run["seed"],
        "method": part(
            "rince.methods.cross_modal.CrossModal", hidden=64, width=32, layers=2, head_norm=True, **schedule
        ),
        "encoder": part(
            "rince.encoders.towers.Towers",
            a=part("rince.encoders.r2plus1d.R2Plus1D", width=8, blocks=[1, 1, 1]),
            b=part("rince.encoders.audio.AudioConvNet", width=8),
        ),
        "loss": rince if run["loss"] == "rince" else part("rince.InfoNCE", temperature=0.5),
        "views": part(
            "rince.views.pair.PairViews",
            a=clip_recipe(),
            b=part("rince.views.sound.SoundRecipe", sample_rate=12000, window=256, hop=0.02, normalise="sound"),
        ),
        "optimiser": part("torch.optim.Adam", lr=0.003),
        "data": videos(run, root, 16, sample_rate=12000, **noise),
        "probe": False,
        "trainer": trainer(run.get("epochs", EPOCHS)) | {"log_every_n_steps": 10},
    }


def tuning(run: Run, root: str, lr: float) -> dict[str, Any]:
    """What configs/generated_video/finetune.yaml says, with the labels and seed of the run, and this learning rate."""
    epochs = run["tuning_epochs"]
    moments = [round(epochs * moment / TUNING_EPOCHS) for moment in (32, 68, 92, 116)]
    return {
        "seed": run["seed"],
        "method": part(
            "rince.methods.finetune.FineTune", tower="a", dropout=0.5, head_epochs=moments[0],
            milestones=sorted(set(moments[1:])), decay=0.3,
        ),
        "loss": part("torch.nn.CrossEntropyLoss"),
        "views": clip_recipe(),
        "optimiser": part("torch.optim.Adam", lr=lr),
        "data": videos(run, root, 8, per_class=run["per_class"], sound=False, test_clips=10),
        "trainer": trainer(epochs) | {"log_every_n_steps": 2},
    }  # fmt: skip


def clip_recipe() -> dict[str, Any]:
    return part("rince.views.clip.ClipRecipe", size=32, crop=[0.8, 1.0], jitter=[0, 0, 0, 0])


def videos(run: Run, root: str, batch_size: int, **options: Any) -> dict[str, Any]:
    shape = {"train": 480, "test": 160, "size": 32, "crop": [0.8, 1.0], "batch_size": batch_size}
    kind = "rince.data.synthetic.generated_video.GeneratedVideo"
    return part(kind, root=root, videos_seed=run["videos_seed"], **shape, **options)


def trainer(epochs: int) -> dict[str, Any]:
    return {
        "max_epochs": epochs,
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }


def report(results: Sequence[dict[str, Any]], folder: Path) -> str:
    """Write results.csv and table.md, and return the table."""
    rows, counts = [], []
    for label in dict.fromkeys(label_of(result["settings"]) for result in results):
        mine = [result for result in results if label_of(result["settings"]) == label]
        rows.append([label, *(plus_minus([r[key] for r in mine if key in r]) for key in COLUMNS)])
        counts.append(len(mine))
    table = aligned(["first, without labels", *COLUMNS.values()], rows)
    first = results[0]["settings"]
    spent = sum(result["cpu_seconds"] for result in results)
    table += (
        f"\nAccuracy on test videos in %, mean and standard deviation over {seeds_note(counts)}; "
        f"{first['per_class']} labelled videos of each class; {spent / 60:.0f} CPU minutes in all.\n"
    )
    write_text(folder / "table.md", table)
    keys = ["loss", "wrong", "seed", "epochs", "per_class", "tuning_epochs", "videos_seed"]
    lines = [
        [r["settings"].get(key, "") for key in keys] + [r.get(key, "") for key in (*COLUMNS, "cpu_seconds")]
        for r in results
    ]
    write_text(folder / "results.csv", as_csv([*keys, *COLUMNS, "cpu_seconds"], lines))
    return table


def label_of(run: Run) -> str:
    if run["loss"] == "scratch":
        return "nothing (from scratch)"
    return NAMES[run["loss"]] + (f", {100 * run['wrong']:g} % wrong sounds" if run["wrong"] else "")
