"""Kill training at random moments, resume it, and compare the final weights with those of a run that was left alone.

    python benchmarks/kill_resume.py [--times 10] [--methods simclr moco graph] [--epochs 15]
    python benchmarks/kill_resume.py --times 1 --methods trust --kills 5 --earliest 0.05 --latest 0.25

Every time, `rince train` is started in a process of its own, killed with SIGKILL after a random time (while reading,
training or writing), started again and killed again until it has been killed three times, and then left to finish. Its
encoder, its last checkpoint and its metrics must equal those of the undisturbed run, bit for bit. The processes are
forked from one that has imported everything, so that the time goes into training.
"""

import argparse
import contextlib
import os
import random
import resource
import sys
import tempfile
import time
import zipfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from process_status import cpu_seconds

import rince.data.graphs
import rince.data.images
import rince.encoders.files
import rince.encoders.gin
import rince.evaluate.online
import rince.losses
import rince.methods.graphcl
import rince.methods.moco
import rince.methods.simclr
import rince.views.graph
import rince.views.image  # noqa: F401
from rince.commands.train import main as main_of_train

OPTIONS = {
    "simclr": ["--method", "rince.methods.simclr.SimCLR", "--method.hidden", "64"],
    "trust": [
        "--method",
        "rince.methods.simclr.SimCLR",
        "--method.hidden",
        "64",
        "--data.wrong_pairs",
        "0.4",
        "--trust",
        "auto",
    ],
    "moco": ["--method", "rince.methods.moco.MoCo", "--method.queue", "300", "--method.momentum", "0.9"],
    "graph": ["--method", "rince.methods.graphcl.GraphCL"],
}
IMAGES = [
    "--encoder.channels", "1", "--encoder.width", "16", "--method.width", "32",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0.4, 0.4, 0, 0]",
    "--data", "DigitImages", "--data.batch_size", "64",
]  # fmt: skip
GRAPHS = [
    "--encoder", "GIN", "--encoder.in_features", "3", "--views", "GraphViews",
    "--data", "TUGraphs", "--data.dataset", "RANDOM", "--data.batch_size", "32", "--data.wrong_pairs", "0.2",
]  # fmt: skip
COMMON = [
    "--method.q_schedule", "linear", "--method.warmup_epochs", "1", "--loss.q", "0.4",
    "--checkpoint_every", "5", "--trainer.log_every_n_steps", "5", "--trainer.accelerator", "cpu",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=["simclr", "moco"], choices=list(OPTIONS))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--earliest", type=float, default=0.4, help="share of a whole run's CPU time before a kill")
    parser.add_argument("--latest", type=float, default=0.97, help="share of it after which no kill comes any more")
    parser.add_argument("--kills", type=int, default=3, help="kills of each run before it may finish")
    found = parser.parse_args()
    random.seed(time.time())
    bad, spent = 0, 0.0
    with tempfile.TemporaryDirectory() as out:
        for method in found.methods:
            options = [*OPTIONS[method], *COMMON, "--trainer.max_epochs", str(found.epochs), "--out", out]
            options += [*GRAPHS, "--data.root", str(random_graphs(Path(out)))] if method == "graph" else IMAGES
            train(options, f"{method}-whole").join()
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
            spent += seconds
            for i in range(found.times):
                name = f"{method}-{i}"
                moments = [disturb(options, name, seconds, found.earliest, found.latest) for _ in range(found.kills)]
                train(options, name).join()
                verdict = compare(Path(out) / f"{method}-whole", Path(out) / name)
                bad += verdict != "equal"
                spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                print(f"{method} {i + 1}/{found.times}: killed {', '.join(moments)}: {verdict}", flush=True)
    print("all equal, bit for bit" if not bad else f"{bad} runs differ")
    return 1 if bad else 0


def random_graphs(folder: Path, count: int = 600) -> Path:
    """A data set in TUDataset's format: rings with chords, of nodes of three kinds."""
    chance = random.Random(0)
    edges, owner, kinds, first = [], [], [], 1
    for graph in range(1, count + 1):
        nodes = chance.randint(5, 20)
        places = [(i, (i + 1) % nodes) for i in range(nodes)] + [(0, chance.randrange(2, nodes - 1))]
        edges += [f"{first + a}, {first + b}\n{first + b}, {first + a}\n" for a, b in places]
        owner += [f"{graph}\n"] * nodes
        kinds += [f"{chance.randrange(3)}\n" for _ in range(nodes)]
        first += nodes
    labels = [f"{graph % 2}\n" for graph in range(count)]
    path = folder / "RANDOM.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for part, lines in (
            ("A", edges), ("graph_indicator", owner), ("graph_labels", labels), ("node_labels", kinds)
        ):  # fmt: skip
            archive.writestr(f"RANDOM/RANDOM_{part}.txt", "".join(lines))
    return path


def train(options: list[str], name: str) -> Any:
    process = get_context("fork").Process(target=_train, args=([*options, "--name", name],))
    process.start()
    return process


def _train(arguments: list[str]) -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        torch.set_num_threads(1)
        sys.exit(main_of_train(arguments))


def disturb(options: list[str], name: str, seconds: float, earliest: float, latest: float) -> str:
    """Start, wait until it has used a random part of the CPU time of a whole run, kill; says how far it was then."""
    process = train(options, name)
    moment = random.uniform(earliest, latest) * seconds
    with contextlib.suppress(OSError):  # it may have ended since it was seen alive
        while process.is_alive() and cpu_seconds(process.pid) < moment:
            time.sleep(0.002)
    if not process.is_alive():
        return "after the end"
    process.kill()
    process.join()
    folder = Path(options[options.index("--out") + 1]) / name
    folds = [(f"fold {number}, ", folder / f"trust/fold-{number}") for number in (3, 2, 1)]
    for phase, place in (("", folder), *folds):
        if (metrics := place / "metrics.csv").exists():
            last = metrics.read_text().splitlines()[-1].split(",")[0]
            return f"{phase}before step 5" if last == "step" else f"{phase}after step {int(last) + 1}"
    return "before step 5"


def compare(whole: Path, other: Path) -> str:
    if not (other / "result.json").exists():
        return "did not finish"
    a, b = (torch.load(path / "last.ckpt", weights_only=True)["state_dict"] for path in (whole, other))
    wrong = {name: float((a[name] - b[name]).abs().max()) for name in a if not torch.equal(a[name], b[name])}
    if wrong:
        worst = max(wrong, key=lambda name: wrong[name])
        return f"{len(wrong)} of {len(a)} tensors differ, {worst} by {wrong[worst]:.1e}"
    if (whole / "encoder.safetensors").read_bytes() != (other / "encoder.safetensors").read_bytes():
        return "the encoder files differ"
    return (
        "equal" if (whole / "metrics.csv").read_text() == (other / "metrics.csv").read_text() else "the metrics differ"
    )


if __name__ == "__main__":
    sys.exit(main())
