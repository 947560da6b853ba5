"""Tasks whose encoders are trained by ``rince train``, from the configurations that ship."""

import os
from pathlib import Path
from typing import Any

from rince._support.fingerprints import of_path, of_tensors
from rince.compare.losses import parse_loss
from rince.compare.tasks import Run, Task
from rince.errors import UsageError


class Trained(Task):
    """One run of ``rince train`` per loss, temperature, rate and seed, in a folder of its own.

    With trust it is ``rince train --trust auto``, which takes twice the steps.
    """

    config = ""
    epochs = 0

    @property
    def usual_epochs(self) -> int:
        return self.epochs

    def changes(self, run: Run, out: Path) -> dict[str, Any]:
        """What differs from the configuration: data, noise and seed."""
        raise NotImplementedError

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        """``validation`` and ``test``, in percent."""
        raise NotImplementedError

    def run(self, run: Run, out: Path) -> dict[str, float]:
        from rince.reproduce.training import settings_of, trained

        loss = parse_loss(run["loss"])
        name = f"{run['loss']}-t{run['temperature']:g}-rate{run['rate']:g}-seed{run['seed']}"
        constant = {
            "method.q_schedule": "constant",
            "seed": run["seed"],
            "trainer.max_epochs": run.get("epochs", self.epochs),
            "checkpoint_every": 1000,
            "probe": False,
        }
        trust = {"trust.source": "auto"} if loss.trust else {}
        changes = {"loss": loss.part(run["temperature"]), **constant, **trust, **self.changes(run, out)}
        return self.measure(*trained(settings_of(self.config, changes), out / "trained" / name))


class SpokenDigits(Trained):
    """Images of digits and people saying them."""

    config = "spoken_digits/infonce"
    epochs = 36

    def __init__(self, source: str | None = None) -> None:
        super().__init__(
            "spoken-digits",
            metric="same digit",
            about="images and recordings of digits, encoders from scratch (--source: folder or zip of the recordings)",
            temperatures=(0.1, 0.2, 0.5),
            losses=("infonce", "gce-0.5", "gce-1", "rince-0.1", "rince-0.5"),
            rates=(0.0, 0.4),
            tune_seeds=1,
        )
        self.source = str(source or Path(os.environ.get("RINCE_DATA", "data")) / "fsdd.zip")

    def check(self) -> None:
        if not Path(self.source).exists():
            raise UsageError(f"there are no spoken digits at {self.source}: give --source, a folder or zip file")

    def fingerprint(self) -> str:
        return of_path(Path(self.source))

    def changes(self, run: Run, out: Path) -> dict[str, Any]:
        data = {"data.source": self.source, "data.wrong_pairs": run["rate"], "data.wrong_pairs_seed": run["seed"]}
        return data

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        return same_class_first(method, data)


def same_class_first(method: Any, data: Any) -> dict[str, float]:
    """How often the nearest partner is of the same class, mean of both directions, for each held-out part."""
    from rince.evaluate.pairs import pair_features, retrieval

    result = {}
    for part in ("validation", "test"):
        found = pair_features(method, data.pair_batches(part))
        scores = retrieval(*found.embeddings, found.labels)
        result[part] = (scores["a to b class"] + scores["b to a class"]) / 2
    return result


class CIFAR10LabelNoise(Trained):
    """Pairs of images that share a label, some of the labels wrong."""

    config = "cifar10/small-label-noise"
    epochs = 40

    def __init__(self, source: str | None = None) -> None:
        super().__init__(
            "cifar10-label-noise",
            metric="linear probe",
            noise="flipped labels in five classes (the paper's eta is twice that)",
            about="label pairs on 10,000 CIFAR-10 images behind a fixed stem (--source: folder with CIFAR-10)",
            temperatures=(0.1, 0.2, 0.5),
            losses=("infonce", "gce-0.5", "gce-1", "rince-0.5-r5", "rince-1-r5"),
            rates=(0.0, 0.2, 0.4),
            tune_seeds=1,
        )
        self.source = str(source or os.environ.get("RINCE_CIFAR10", "data"))

    def check(self) -> None:
        from rince.data.images.cifar10 import CIFAR10

        CIFAR10(self.source).split("test")

    def fingerprint(self) -> str:
        from rince.data.images.cifar10 import CIFAR10

        images = CIFAR10(self.source)
        return of_tensors((*images.split("train"), *images.split("test")))

    def changes(self, run: Run, out: Path) -> dict[str, Any]:
        rate = {"rate": run["rate"], "seed": run["seed"]}
        flips = {"class_path": "rince.noise.labels.LabelFlips", "init_args": rate}
        cache = out / f"stem-10000-{run.get('data', '')[:8]}.npz"
        return {"data.source.root": self.source, "data.cache": str(cache), "data.noise": flips}

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        from rince.evaluate.features import features_of
        from rince.evaluate.linear import fit_linear

        images, labels = data.split("train")
        probe = fit_linear(features_of(method, images), labels, 0.1)
        result = {}
        for part in ("validation", "test"):
            held_out, truth = data.split(part)
            result[part] = 100 * probe.accuracy(features_of(method, held_out), truth)
        return result
