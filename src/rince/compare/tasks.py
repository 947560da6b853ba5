"""Tasks on which losses are compared: training with one loss, noise rate and seed, and evaluation."""

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince.compare.losses import parse_loss
from rince.compare.towers import Columns, Split, Training, recall_at_1, split, train, word_numbers
from rince.errors import UsageError
from rince.pairs.columns import check_different, matrix
from rince.pairs.matrix import as_matrix
from rince.pairs.raw import raw_column
from rince.pairs.source import Source, source

Run = Mapping[str, Any]  # loss, temperature, rate, seed, epochs, and data, the fingerprint

LOSSES = ("infonce", "gce-0.5", "gce-1", "rince-0.1-r2.5", "rince-0.5")


@dataclass
class Task:
    """One data set to compare losses on.

    Attributes:
        name: Name on the command line.
        metric: Name of the metric that ``run`` returns, in percent; higher is better.
        noise: Kind of noise, such as ``"mismatched pairs"``.
        about: One line for the help text.
        temperatures: Temperatures to try for every loss. The best on the validation part is used.
        losses: Default losses.
        rates: Default noise rates.
        tune_seeds: Number of seeds that try all temperatures; ``None`` for all.

    Example:
        >>> task = rince.compare.Task("pairs")
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
        """Default number of epochs."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise a ``UsageError`` for data unsuitable for a comparison, before the first run."""

    def fingerprint(self) -> str:
        """Hash of the data. Finished runs on other data are rejected."""
        return ""

    def run(self, run: Run, out: Path) -> dict[str, float]:
        """Train and evaluate: ``validation``, used to choose the temperature, and ``test``."""
        raise NotImplementedError


class TwoTowers(Task):
    """Two columns of features or texts, matched by two small networks."""

    training = Training()
    validation, test = 200, 397

    @property
    def usual_epochs(self) -> int:
        return self.training.epochs

    def columns(self) -> Columns:
        """Pairs without added noise."""
        raise NotImplementedError

    def parts(self, rate: float, seed: int) -> Split:
        """Training pairs with a share of mismatched ones, and clean pairs for validation and test."""
        a, b, groups = self.columns()
        return split(a, b, rate, seed, self.validation, self.test, groups)

    def measure(self, f: torch.nn.Module, g: torch.nn.Module, pairs: Split) -> dict[str, float]:
        """R@1 of the trained networks on the validation and the test pairs."""
        return {"validation": recall_at_1(f, g, pairs.validation), "test": recall_at_1(f, g, pairs.test)}

    def run(self, run: Run, out: Path) -> dict[str, float]:
        from rince.losses import CrossView

        loss, seed = parse_loss(run["loss"]), run["seed"]
        pairs = self.parts(run["rate"], seed)
        name = "-".join(["trust", f"{run['rate']:g}", f"{seed}", *filter(None, [run.get("data", "")[:8]])])
        weights = audit_weights(pairs, out / f"{name}.npy", seed) if loss.trust else None
        training = self.training._replace(epochs=run.get("epochs", self.training.epochs))
        towers = train(
            pairs.a, pairs.b, loss.build(run["temperature"], CrossView()), seed, training, weights, loss.schedule
        )
        return self.measure(*towers, pairs)


def audit_weights(pairs: Split, cache: Path, seed: int) -> torch.Tensor:
    """(pairs,) weights from an audit of the training pairs, cached in a file."""
    from rince._support.atomic_files import written_whole
    from rince.audit import audit_pairs

    if not cache.exists():
        audit = audit_pairs(_features(pairs.a), _features(pairs.b), fit=True, seed=seed, progress=False)
        with written_whole(cache) as temporary, open(temporary, "wb") as file:
            np.save(file, audit.weights)
    return torch.from_numpy(np.load(cache, allow_pickle=False))


def _features(column: torch.Tensor) -> np.ndarray:
    """Features as they are; texts as TF-IDF word counts, reduced to at most 128 dimensions."""
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


MIN_PAIRS = 1000


class TwoFiles(TwoTowers):
    """Two columns of files. Features are standardized."""

    def __init__(self, a: str, b: str) -> None:
        about = "two columns of embeddings, features or texts"
        super().__init__("columns", about=about, noise="added mismatched pairs")
        self.a, self.b = a, b

    def check(self) -> None:
        check_different(source(self.a, raw=True), source(self.b, raw=True))
        self.columns()

    def fingerprint(self) -> str:
        return of_tensors(self.columns()[:2])

    def columns(self) -> Columns:
        return _of_files(self.a, self.b)


@functools.cache
def _of_files(a: str, b: str) -> Columns:
    first, second = (_column(source(text, raw=True)) for text in (a, b))
    if len(first) != len(second):
        raise UsageError(f"{a} and {b} must have one row per pair, got {len(first)} and {len(second)} rows")
    if len(first) < MIN_PAIRS:
        raise UsageError(f"a comparison needs at least {MIN_PAIRS:,} pairs, got {len(first)}")
    for text, x in ((a, first), (b, second)):
        if (x == x[0]).all():
            raise UsageError(f"all rows of {text} are equal, so pairs cannot be told apart")
    return Columns(first, second)


def _column(source: Source) -> Tensor:
    column = raw_column(source)
    if column is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _standardized(matrix(source, Path(scratch)), str(source))
    if column.kind != "texts":
        raise UsageError(f"{source} holds {column.kind}: encode them first, and pass the embeddings")
    if missing := sum(text is None for text in column.items):
        raise UsageError(f"{source} has no text in {missing:,} rows: remove these pairs")
    return word_numbers([str(text) for text in column.items])


def _standardized(values: NDArray[Any], name: str) -> Tensor:
    with np.errstate(over="ignore"):
        x = np.array(as_matrix(values, name), dtype=np.float32)
    if not np.isfinite(x).all():
        rows = int((~np.isfinite(x)).any(1).sum())
        raise UsageError(f"{name} has NaN, infinite or too large values in {rows:,} rows: remove these pairs")
    with np.errstate(over="ignore", invalid="ignore"):
        standard = (x - x.mean(0)) / np.maximum(x.std(0), 1e-6 * np.abs(x).max(0, initial=0) + 1e-30)
    return torch.from_numpy(np.nan_to_num(standard))
