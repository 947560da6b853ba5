"""CIFAR-10 with views that go too far, in the small: InfoNCE at three temperatures against RINCE."""

import functools
from pathlib import Path
from typing import Any

from rince.reproduce.cifar10 import Run, carry_out, options, parsed, train_and_evaluate
from rince.reproduce.cifar10_label_noise import LOSSES, loss_of
from rince.reproduce.training import part

EPOCHS = 12


def main(arguments: list[str]) -> int:
    found = parsed(options("cifar10-augmentation-noise", __doc__ or "", seeds=3), arguments)
    runs: list[Run] = []
    for seed in range(found.seeds):
        common = {"seed": seed, "epochs": found.epochs or EPOCHS}
        runs += [{"loss": loss, "temperature": t, "rate": found.rate, **common} for loss, t in LOSSES]
        if found.rate:  # else it is among them
            runs.append({"loss": "infonce", "temperature": 0.5, "rate": 0.0, **common})
    work = functools.partial(one_run, root=found.root, out=found.out)
    title = f"CIFAR-10, {100 * found.rate:g} % of the views cropped again to a fifth, 4,000 images, {found.seeds} seeds"
    print(carry_out(runs, work, name, label, found, title))
    return 0


def name(run: Run) -> str:
    return f"{run['loss']}-t{run['temperature']}-noise{run['rate']:g}-seed{run['seed']}"


def label(run: Run) -> str:
    return f"{run['loss']} t {run['temperature']:g}" + ("" if run["rate"] else ", no noise")


def one_run(run: Run, root: str, out: str) -> dict[str, Any]:
    return train_and_evaluate(settings(run, root), str(Path(out) / "runs"), name(run))


def settings(run: Run, root: str) -> dict[str, Any]:
    """What configs/cifar10/small-augmentation-noise.yaml says, with the loss, noise and seed of the run."""
    return {
        "seed": run["seed"],
        "method": part("rince.methods.simclr.SimCLR", hidden=128, width=64),
        "encoder": part("rince.encoders.convnet.ConvNet", width=32),
        "loss": loss_of(run),
        "views": part(
            "rince.views.image.SimCLRViews", size=16, noise=part("rince.noise.crops.ExtraCrop", rate=run["rate"])
        ),
        "optimiser": part("torch.optim.Adam", lr=0.002, weight_decay=1e-6),
        "data": part("rince.data.images.cifar10.CIFAR10", root=root, batch_size=256, limit=4000, validation=5000),
        "probe": False,
        "checkpoint_every": 100,
        "trainer": {"max_epochs": run["epochs"], "log_every_n_steps": 15, "accelerator": "cpu"},
    }
