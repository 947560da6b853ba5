"""``python -m experiments compare TASK``: losses compared on data sets that come with the experiments."""

import functools
import gzip
import hashlib
import os
import shlex
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.evidence.spoken_pairs import log_mel
from experiments.paper.images.cifar10 import STEM_CONFIG, evaluate
from experiments.training import settings_of, trained
from rince._support.command_options import parsed
from rince._support.fingerprints import of_lines, of_tensors
from rince.commands.compare import DEFAULTS, compare_losses, comparison_parser
from rince.compare.losses import parse_loss
from rince.compare.tasks import Run, Task, TwoTowers
from rince.compare.towers import Columns, Split, Training, word_numbers
from rince.data.spoken_digits import SpokenDigits
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs


class Digits(TwoTowers):
    """Halves of scikit-learn's digits."""

    def __init__(self) -> None:
        super().__init__("digits", about="halves of scikit-learn's 1797 digits, matched by two small MLPs")

    def columns(self) -> Columns:
        from rince.data.digit_halves import digit_pairs

        pairs = digit_pairs()
        return Columns(torch.from_numpy(pairs.a), torch.from_numpy(pairs.b))


class Multi30k(TwoTowers):
    """English captions and their German translations, as means of word vectors learned from scratch."""

    training = Training(epochs=10, batch=128, lr=5e-3, dim=256)
    validation, test = 500, 1000

    def __init__(self, folder: str | None = None, pairs: int = 6000) -> None:
        super().__init__(
            "multi30k",
            about="English captions and German translations (--source: folder with train.en.gz and train.de.gz)",
            temperatures=(0.05, 0.1, 0.2, 0.4),
        )
        self.folder = Path(folder or Path(os.environ.get("RINCE_DATA", "data")) / "multi30k")
        self.pairs = pairs

    def check(self) -> None:
        for language in ("en", "de"):
            if not (self.folder / f"train.{language}.gz").is_file():
                raise UsageError(f"there is no train.{language}.gz in {self.folder}: give its folder with --source")

    def fingerprint(self) -> str:
        return of_tensors(self.columns()[:2])

    def columns(self) -> Columns:
        return _sentences(self.folder, self.pairs)


@functools.cache
def _sentences(folder: Path, pairs: int) -> Columns:
    texts = []
    for language in ("en", "de"):
        with gzip.open(folder / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            texts.append([line.strip() for _, line in zip(range(pairs), file, strict=False)])
    return Columns(word_numbers(texts[0]), word_numbers(texts[1]))


MELS, FRAMES = 24, 16


def recordings(source: str | None) -> str:
    return str(source or Path(os.environ.get("RINCE_DATA", "data")) / "fsdd.zip")


class Recordings(Task):
    """Mixin: the data are recordings of digits, in a folder or zip file."""

    source: str

    def check(self) -> None:
        if not Path(self.source).exists():
            raise UsageError(f"there are no spoken digits at {self.source}: give --source, a folder or zip file")

    def fingerprint(self) -> str:
        """Of the content of a file, or of the names and sizes of all files of a folder."""
        path = Path(self.source)
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            return of_lines(f"{file.relative_to(path)} {file.stat().st_size}" for file in files)
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


class SpokenDigitTowers(Recordings, TwoTowers):
    """Parts are the data set's own: takes 0 to 4 are for tests, and no image is in two parts.

    Many pairs of a batch are of the same digit, so that an anchor's negatives hold others that fit as well.
    """

    training = Training(epochs=20)

    def __init__(self, source: str | None = None) -> None:
        super().__init__(
            "spoken-digits-towers",
            metric="same digit",
            about="spectrograms and images of digits, matched by two small MLPs (--source: folder or zip file)",
            temperatures=(0.1, 0.2, 0.5),
            rates=(0.0, 0.4),
        )
        self.source = recordings(source)

    def parts(self, rate: float, seed: int) -> Split:
        splits = features(self.source)
        a, b, digits = splits["train"]
        partner, wrong = wrong_pairs(len(a), rate, seed, digits.numpy())
        held_out = [splits[name][:2] for name in ("validation", "test")]
        return Split(a, b[partner], wrong, held_out[0], held_out[1])

    def measure(self, f: nn.Module, g: nn.Module, pairs: Split) -> dict[str, float]:
        digits = {name: part[2] for name, part in features(self.source).items()}
        return {
            "validation": same_class(f, g, pairs.validation, digits["validation"]),
            "test": same_class(f, g, pairs.test, digits["test"]),
        }


@functools.cache
def features(source: str) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Images, spectrograms and digits of every part."""
    return {
        name: (part.a.flatten(1) / 255, log_mel(part.b, MELS, FRAMES).flatten(1), part.labels)
        for name, part in SpokenDigits(source).read().items()
    }


@torch.no_grad()
def same_class(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor], labels: Tensor) -> float:
    """How often, in percent, the nearest of all is of the same class; the mean of both directions."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    ways = [(labels[scores.argmax(dim)] == labels).double().mean() for dim in (0, 1)]
    return 100 * float(sum(ways)) / 2


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
        loss = parse_loss(run["loss"])
        name = f"{run['loss']}-t{run['temperature']:g}-rate{run['rate']:g}-seed{run['seed']}"
        constant = {
            "seed": run["seed"],
            "trainer.max_epochs": run.get("epochs", self.epochs),
            "checkpoint_every": 1000,
            "probe": False,
        }
        growth = {"method.q_schedule": "constant"}
        if loss.q_range is not None:
            growth = {"method.q_schedule": "linear", "method.q_start": loss.q_range[0]}
        trust = {"trust.source": "auto"} if loss.trust else {}
        changes = {"loss": loss.part(run["temperature"]), **constant, **growth, **trust, **self.changes(run, out)}
        return self.measure(*trained(settings_of(self.config, changes), out / "trained" / name))


class SpokenDigitsTrained(Recordings, Trained):
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
        self.source = recordings(source)

    def changes(self, run: Run, out: Path) -> dict[str, Any]:
        return {"data.source": self.source, "data.wrong_pairs": run["rate"], "data.wrong_pairs_seed": run["seed"]}

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        return same_class_first(method, data)


def same_class_first(method: Any, data: Any) -> dict[str, float]:
    """How often the nearest partner is of the same class, mean of both directions, for each held-out part."""
    from rince.evaluate.pairs import pair_features, retrieval

    result = {}
    for part in ("validation", "test"):
        outputs = pair_features(method, data.pair_batches(part))
        scores = retrieval(*outputs.embeddings, outputs.labels)
        result[part] = (scores["a to b class"] + scores["b to a class"]) / 2
    return result


class CIFAR10LabelNoise(Trained):
    """Pairs of images that share a label, some of the labels wrong."""

    config = STEM_CONFIG
    epochs = 40

    def __init__(self, source: str | None = None) -> None:
        super().__init__(
            "cifar10-label-noise",
            metric="linear probe",
            noise="flipped labels of five classes",
            about="label pairs on 10,000 CIFAR-10 images behind a fixed stem (--source: folder with CIFAR-10)",
            temperatures=(0.1, 0.2, 0.5),
            losses=("infonce", "gce-0.5", "gce-1", "rince-0.5-r5", "rince-1-r5"),
            rates=(0.0, 0.2, 0.4),
            tune_seeds=1,
        )
        self.source = str(source or os.environ.get("RINCE_CIFAR10", "data"))

    def check(self) -> None:
        from rince.data.images import CIFAR10

        CIFAR10(self.source).split("test")

    def fingerprint(self) -> str:
        from rince.data.images import CIFAR10

        images = CIFAR10(self.source)
        return of_tensors((*images.split("train"), *images.split("test")))

    def changes(self, run: Run, out: Path) -> dict[str, Any]:
        rate = {"rate": run["rate"], "seed": run["seed"]}
        flips = {"class_path": "rince.noise.labels.LabelFlips", "init_args": rate}
        cache = out / f"stem-10000-{run.get('data', '')[:8]}.npz"
        return {"data.source.root": self.source, "data.cache": str(cache), "data.noise": flips}

    def measure(self, method: Any, data: Any) -> dict[str, float]:
        scores = evaluate(method, data, neighbors=False)
        return {part: scores[f"encoder_linear_{part}"] for part in ("validation", "test")}


TASKS: dict[str, type[Task]] = {
    "digits": Digits,
    "multi30k": Multi30k,
    "spoken-digits-towers": SpokenDigitTowers,
    "spoken-digits": SpokenDigitsTrained,
    "cifar10-label-noise": CIFAR10LabelNoise,
}


def find_task(name: str, source: str | None = None) -> Task:
    """The task of that name, with its data at ``source`` where it needs any."""
    if name not in TASKS:
        raise UsageError(f"unknown task '{name}': choose one of {', '.join(TASKS)}")
    kind = TASKS[name]
    if source is not None and kind is Digits:
        raise UsageError("digits come with scikit-learn: leave out --source")
    return kind() if source is None else kind(source)  # type: ignore[call-arg]


def main(arguments: list[str]) -> int:
    parser = comparison_parser(
        "python -m experiments compare",
        "Compare losses on a data set of the experiments.",
        defaults=dict.fromkeys(DEFAULTS, "set by the task"),
    )
    parser.add_argument("task", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--source", help="folder or file with the data of the task")
    options = parsed(parser, arguments)
    task = find_task(options.task, options.source)
    return compare_losses(task, options, shlex.join(["python", "-m", "experiments", "compare", *arguments]))
