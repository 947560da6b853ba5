"""Time and memory of a training step's loss over the batch size, ours beside plain PyTorch and other libraries.

    python benchmarks/sizes.py

Needs what `make test-peers` installs; what is missing is left out. Forward and backward on embeddings of width 128, CPU
time on one thread: the median of rounds in which all take turns. Memory is the extra peak of one step in a fork of this
process. Results are appended to a file of JSON lines, which a second run takes up; `--draw` draws
docs/figures/sizes.svg from it.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from loss import embeddings, extra_megabytes, plain_cross_entropy, plain_simclr, step
from peers import PEERS

import rince

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "sizes.svg"
CROSS, TWO = "two modalities", "two views"
LARGEST = {  # what takes more than 4 GB or a minute beyond
    "plain PyTorch": 8192,
    "open_clip ClipLoss": 4096,
    "sentence-transformers MultipleNegativesRankingLoss": 4096,
    "plain SimCLR": 4096,
    "lightly NTXentLoss": 4096,
    "pytorch-metric-learning SupConLoss": 2048,
}


def losses() -> dict[str, tuple[str, object]]:
    """By name: who is compared with whom, and the loss."""
    found: dict[str, tuple[str, object]] = {
        "plain PyTorch": (CROSS, plain_cross_entropy),
        "rince.InfoNCE, CrossView": (CROSS, rince.InfoNCE(contrast=rince.CrossView())),
        "rince.GCE, CrossView": (CROSS, rince.GCE(contrast=rince.CrossView())),
        "plain SimCLR": (TWO, plain_simclr),
        "rince.InfoNCE, TwoView": (TWO, rince.InfoNCE()),
        "rince.GCE, TwoView": (TWO, rince.GCE()),
    }
    for peer in PEERS.values():
        try:
            made = peer()
        except BaseException as error:  # also pytest's, where a peer does not import
            print(f"{peer.__name__}: left out ({type(error).__name__})")
            continue
        for name, (theirs, _) in made.items():
            if name in LARGEST:
                found[name] = (CROSS if name.startswith(("open_clip", "sentence")) else TWO, theirs)
    return found


def measure(sizes: list[int], results: Path) -> None:
    done = set()
    if results.exists():
        done = {(row["loss"], row["n"]) for row in map(json.loads, results.read_text("utf-8").splitlines())}
    everything = losses()
    for n in sizes:
        names = [name for name in everything if n <= LARGEST.get(name, n) and (name, n) not in done]
        memory = {name: extra_megabytes(everything[name][1], n) for name in names}
        rounds, repeat = (20, max(1, 512 // n)) if n <= 512 else (5 if n <= 2048 else 1, 1)
        z1, z2 = embeddings(n)
        times: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(rounds + (n <= 2048)):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                start = time.process_time()
                for _ in range(repeat):
                    step(everything[name][1], z1, z2)
                times[name].append(1000 * (time.process_time() - start) / repeat)
        with results.open("a", encoding="utf-8") as file:
            for name in names:
                ms = statistics.median(times[name][n <= 2048 :])
                row = {"loss": name, "kind": everything[name][0], "n": n, "ms": ms, "mb": memory[name]}
                file.write(json.dumps(row) + "\n")
                print(f"{n:>6}  {name:<52}{ms:>12.3f} ms{memory[name]:>10.1f} MB", flush=True)


def draw(results: Path) -> None:
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for column, kind in enumerate((CROSS, TWO)):
        names = list(dict.fromkeys(row["loss"] for row in rows if row["kind"] == kind))
        for name in names:
            own = sorted((row["n"], row["ms"], row["mb"]) for row in rows if row["loss"] == name)
            style = {"linewidth": 2.2} if name.startswith("rince") else {"linestyle": "--", "linewidth": 1.2}
            axes[0, column].plot([n for n, *_ in own], [ms for _, ms, _ in own], label=name, **style)
            large = [(n, mb) for n, _, mb in own if n >= 2048]
            axes[1, column].plot([n for n, _ in large], [mb for _, mb in large], **style)
        axes[0, column].set_title(kind, fontsize=10)
        axes[0, column].legend(frameon=False, fontsize=7)
        axes[1, column].set_xlabel("pairs in the batch")
    axes[0, 0].set_ylabel("CPU ms, forward and backward")
    axes[1, 0].set_ylabel("extra memory, MB")
    for ax in axes.flat:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**k for k in range(5, 15)])
    parser.add_argument("--results", type=Path, default=Path("sizes.jsonl"))
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.draw:
        draw(options.results)
    else:
        measure(options.sizes, options.results)


if __name__ == "__main__":
    main()
