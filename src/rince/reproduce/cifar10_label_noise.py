"""CIFAR-10 with wrong labels, in the small: InfoNCE at three temperatures and RINCE, one and several positives."""

import functools
from pathlib import Path
from typing import Any

from rince.reproduce.cifar10 import Run, carry_out, options, parsed, train_and_evaluate
from rince.reproduce.training import part

LOSSES = [
    ("infonce", 0.5),
    ("rince-0.1", 0.5),
    ("rince-0.5", 0.5),
    ("rince-1.0", 0.5),
    ("infonce", 0.2),
    ("infonce", 0.1),
]
EPOCHS = 40


def main(arguments: list[str]) -> int:
    found = parsed(options("cifar10-label-noise", __doc__ or "", seeds=3), arguments)
    runs: list[Run] = []
    for seed in range(found.seeds):
        for positives in ("one", "several"):
            common = {"positives": positives, "seed": seed, "epochs": found.epochs or EPOCHS}
            runs += [{"loss": loss, "temperature": t, "rate": found.rate, **common} for loss, t in LOSSES]
            if found.rate:  # else it is among them
                runs.append({"loss": "infonce", "temperature": 0.5, "rate": 0.0, **common})
    work = functools.partial(one_run, root=found.root, out=found.out)
    title = f"CIFAR-10, {100 * found.rate:g} % of five classes mislabelled, 10,000 images, {found.seeds} seeds"
    print(carry_out(runs, work, name, label, found, title))
    return 0


def name(run: Run) -> str:
    return f"{run['positives']}-{run['loss']}-t{run['temperature']}-noise{run['rate']:g}-seed{run['seed']}"


def label(run: Run) -> str:
    noise = "" if run["rate"] else ", no noise"
    return f"{run['positives']}: {run['loss']} t {run['temperature']:g}{noise}"


def one_run(run: Run, root: str, out: str) -> dict[str, Any]:
    return train_and_evaluate(
        settings(run, root, str(Path(out) / "stem-10000.npz")), str(Path(out) / "runs"), name(run)
    )


def settings(run: Run, root: str, cache: str) -> dict[str, Any]:
    """What configs/cifar10/small-label-noise.yaml says, with the loss, noise and seed of the run."""
    source = part("rince.data.images.cifar10.CIFAR10", root=root)
    noise = part("rince.noise.labels.LabelFlips", rate=run["rate"])
    return {
        "seed": run["seed"],
        "method": part("rince.methods.supcon.SupCon", positives=run["positives"], hidden=0, width=128),
        "encoder": part("rince.encoders.patch_stem.MLP", widths=[512, 512], dropout=0.3, relu_last=True),
        "loss": loss_of(run),
        "views": part("rince.views.mirror.MirrorViews"),
        "optimiser": part("torch.optim.AdamW", lr=0.002),
        "data": part(
            "rince.data.images.stem_features.StemFeatures",
            source=source,
            cache=cache,
            train=10_000,
            batch_size=256,
            noise=noise,
        ),
        "probe": False,
        "checkpoint_every": 500,
        "trainer": {"max_epochs": run["epochs"], "log_every_n_steps": 50, "accelerator": "cpu"},
    }


def loss_of(run: Run) -> dict[str, Any]:
    """ "infonce" or "rince-0.5"."""
    kind, _, q = run["loss"].partition("-")
    if kind == "infonce":
        return part("rince.InfoNCE", temperature=run["temperature"])
    return part("rince.RINCE", q=float(q), lam=0.01, temperature=run["temperature"])
