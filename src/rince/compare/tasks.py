"""What losses are compared on. A task trains with one loss on one noise rate and seed, and says how good it became."""

import functools
import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince.compare.losses import parse_loss
from rince.compare.towers import Columns, Training, recall_at_1, split, train
from rince.errors import UsageError
from rince.small_towers import Split

Run = Mapping[str, Any]  # loss, temperature, rate, seed, epochs, and data, the fingerprint

LOSSES = ("infonce", "gce-0.5", "gce-1", "rince-0.1-r2.5", "rince-0.5")


@dataclass
class Task:
    """One data set to compare losses on.

    Attributes:
        name: On the command line.
        metric: What ``run`` measures, in percent, higher is better.
        noise: What a noise rate is a rate of.
        about: One line for the help text.
        temperatures: Those that are tried for every loss; the best on the validation part counts.
        losses: Those that are compared unless the user says otherwise.
        rates: Noise rates that are compared unless the user says otherwise.
        tune_seeds: How many seeds try all temperatures, where one run costs much; ``None`` for all of them.

    Example:
        >>> task = rince.compare.find_task(["digits"])
        >>> task.metric, task.rates
        ('R@1', (0.0, 0.2, 0.4))
    """

    name: str = ""
    metric: str = "R@1"
    noise: str = "mismatched pairs"
    about: str = ""
    temperatures: tuple[float, ...] = (0.1, 0.2, 0.4)
    losses: tuple[str, ...] = LOSSES
    rates: tuple[float, ...] = (0.0, 0.2, 0.4)
    tune_seeds: int | None = None

    @property
    def usual_epochs(self) -> int:
        """Of every training, unless the user says otherwise."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse, with a ``UsageError``, what would fail after the first run began."""

    def fingerprint(self) -> str:
        """A text that differs where the data do, so that results of other data are not taken for those of these."""
        return ""

    def run(self, run: Run, out: Path) -> dict[str, float]:
        """Train and measure: ``validation``, by which temperatures are chosen, and ``test``."""
        raise NotImplementedError


class TwoTowers(Task):
    """Two columns of features or texts, matched by two small towers."""

    training = Training()
    validation, test = 200, 397

    @property
    def usual_epochs(self) -> int:
        return self.training.epochs

    def columns(self) -> Columns:
        """The clean pairs."""
        raise NotImplementedError

    def parts(self, rate: float, seed: int) -> Split:
        """Training pairs with a share of mismatched ones, and clean ones to choose by and to test on."""
        return split(self.columns(), rate, seed, self.validation, self.test)

    def measure(self, f: torch.nn.Module, g: torch.nn.Module, pairs: Split) -> dict[str, float]:
        """How good the towers became."""
        return {"validation": recall_at_1(f, g, pairs.validation), "test": recall_at_1(f, g, pairs.test)}

    def run(self, run: Run, out: Path) -> dict[str, float]:
        from rince.losses import CrossView

        loss, seed = parse_loss(run["loss"]), run["seed"]
        pairs = self.parts(run["rate"], seed)
        kept = "-".join(["trust", f"{run['rate']:g}", f"{seed}", *filter(None, [run.get("data", "")[:8]])])
        weights = trusted(pairs, out / f"{kept}.npy", seed) if loss.trust else None
        training = self.training._replace(epochs=run.get("epochs", self.training.epochs))
        towers = train(pairs.a, pairs.b, loss.build(run["temperature"], CrossView()), seed, training, weights)
        return self.measure(*towers, pairs)


def trusted(pairs: Split, cache: Path, seed: int) -> torch.Tensor:
    """The trust that an audit of the training pairs puts into each of them; kept in a file, for it takes a while."""
    from rince._support.atomic_files import written_whole
    from rince.audit import audit

    if not cache.exists():
        found = audit(_features(pairs.a), _features(pairs.b), fit=True, seed=seed, progress=False)
        with written_whole(cache) as temporary, open(temporary, "wb") as file:
            np.save(file, np.asarray(found.trust, dtype=np.float32))
    return torch.from_numpy(np.load(cache, allow_pickle=False))


def _features(column: torch.Tensor) -> np.ndarray:
    """Features as they are; texts as counts of words, in as many dimensions as carry most of them."""
    if column.is_floating_point():
        return column.numpy()
    decomposition = require("sklearn.decomposition", "train")
    sparse = require("scipy.sparse", "train")
    rows, places = (column > 0).nonzero(as_tuple=True)
    words = column[rows, places]
    counts = sparse.csr_matrix(
        (np.ones(len(words)), (rows.numpy(), words.numpy())), shape=(len(column), int(words.max()) + 1)
    )
    frequency = np.asarray((counts > 0).sum(0)).ravel()
    weighted = counts.multiply(np.log(len(column) / np.maximum(frequency, 1))).tocsr()
    width = min(128, *(side - 1 for side in weighted.shape))
    return decomposition.TruncatedSVD(width, random_state=0).fit_transform(weighted).astype(np.float32)


class Digits(TwoTowers):
    """Halves of scikit-learn's digits."""

    def __init__(self) -> None:
        super().__init__("digits", about="halves of scikit-learn's 1797 digits, matched by two small MLPs")

    def columns(self) -> Columns:
        from rince.data.pairs.digit_halves import digit_pairs

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
    from rince.compare.words import word_numbers

    texts = []
    for language in ("en", "de"):
        with gzip.open(folder / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            texts.append([line.strip() for _, line in zip(range(pairs), file, strict=False)])
    return Columns(word_numbers(texts[0]), word_numbers(texts[1]))


def tasks() -> dict[str, type[Task]]:
    """Every task that comes with rince, by its name."""
    from rince.compare.spoken_towers import SpokenDigitTowers
    from rince.compare.trained_tasks import CIFAR10LabelNoise, SpokenDigits

    return {
        "digits": Digits,
        "multi30k": Multi30k,
        "spoken-digits-towers": SpokenDigitTowers,
        "spoken-digits": SpokenDigits,
        "cifar10-label-noise": CIFAR10LabelNoise,
    }


def find_task(words: list[str], source: str | None = None) -> Task:
    """The task of that name or, for two words, the comparison on the user's two columns.

    Args:
        words: A name such as ``digits``, or two files with columns, as for ``rince audit``.
        source: Path of the data of a named task.

    Returns:
        The task.

    Raises:
        UsageError: If there is no such task, or it takes no source.

    Example:
        >>> rince.compare.find_task(["digits"]).name
        'digits'
    """
    if len(words) == 2:
        from rince.compare.two_files import TwoFiles

        if source is not None:
            raise UsageError(f"{' and '.join(words)} are the data: leave out --source")
        return TwoFiles(*words)
    known = tasks()
    if len(words) > 2 or words[0] not in known:
        raise UsageError(f"there is no task '{' '.join(words)}': give {', '.join(known)}, or two columns A B")
    kind = known[words[0]]
    if source is not None and kind is Digits:
        raise UsageError("digits come with scikit-learn: leave out --source")
    return kind() if source is None else kind(source)
