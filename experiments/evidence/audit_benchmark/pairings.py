"""Real pairings: two columns that belong together, how they are scored, and how pairs go wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rince.data.digit_halves import digit_pairs
from rince.noise.labels import CIFAR10_PAIRS, LabelFlips

Matrix = NDArray[np.float32]
Columns = tuple[Matrix, Matrix]
FIT_RATES = (0.0, 0.1, 0.3, 0.6)
COSINE_RATES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6)


@dataclass(frozen=True)
class Pairing:
    """Two columns that belong together.

    Attributes:
        name: Names of the paired sides.
        read: Returns the two columns, one row per pair, all pairs right.
        fit: Whether a scorer is fitted; otherwise the columns are embeddings of one space.
        family: Pairings of one family are left out together when something is chosen by leaving data sets out.
        groups: Pairs go wrong within equal values (``hard``) only; also what makes a shuffled pair still right.
        rates: The shares of wrong pairs to try.
        hard: Wrong pairs are exchanged within ``groups``: they look half right.
        known_wrong: Pairs that are wrong as they come; then nothing is shuffled.
        as_stored: Keep the stored order of the rows instead of a random one.
        score: For embeddings of one space: ``"relative"`` or ``"cosine"``.
    """

    name: str
    read: Callable[[], Columns]
    fit: bool
    family: str
    groups: Callable[[], NDArray[Any]] | None = None
    rates: tuple[float, ...] = field(default=FIT_RATES)
    hard: bool = False
    known_wrong: Callable[[], NDArray[np.bool_]] | None = None
    as_stored: bool = False
    score: str = "relative"


@dataclass(frozen=True)
class Places:
    """Paths of data sets that do not ship with a dependency; None skips their pairings."""

    cifar10: Path | None = None
    data: Path | None = None
    cache: Path | None = None


@cache
def table(name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """A table that ships with scikit-learn: features, and the class or the target."""
    from sklearn import datasets

    bundle = getattr(datasets, f"load_{name}")()
    return bundle.data.astype(np.float32), np.asarray(bundle.target)


def halves(x: Matrix) -> Columns:
    middle = x.shape[1] // 2
    return x[:, :middle], x[:, middle:]


def interleaved(x: Matrix) -> Columns:
    return x[:, 0::2], x[:, 1::2]


def heavy_tailed(x: Matrix) -> Columns:
    return halves(np.exp((x - x.mean(0)) / x.std(0)))


def with_times(x: Matrix) -> Columns:
    """Halves plus a column of Unix times, orders of magnitude larger than the rest."""
    times = 1.7e9 + 3e7 * np.random.default_rng(0).random(len(x))
    a, b = halves(x)
    return np.column_stack([a, times]).astype(np.float32), b


def one_hot(labels: NDArray[Any]) -> Matrix:
    return np.eye(int(labels.max()) + 1, dtype=np.float32)[labels]


def tables() -> Iterator[Pairing]:
    wine, cancer = (lambda: table("wine")), (lambda: table("breast_cancer"))
    yield Pairing("wine, halves", lambda: halves(wine()[0]), True, "wine")
    yield Pairing("wine, interleaved", lambda: interleaved(wine()[0]), True, "wine")
    yield Pairing("wine, three times", lambda: halves(np.tile(wine()[0], (3, 1))), True, "wine", rates=(0.0, 0.3))
    yield Pairing("breast cancer, halves", lambda: halves(cancer()[0]), True, "breast cancer")
    yield Pairing("breast cancer, heavy tails", lambda: heavy_tailed(cancer()[0]), True, "breast cancer")
    yield Pairing("breast cancer, Unix times", lambda: with_times(cancer()[0]), True, "breast cancer", rates=(0.0, 0.2))
    yield Pairing("iris, sepal and petal", lambda: halves(table("iris")[0]), True, "iris")
    yield Pairing("diabetes, halves", lambda: halves(table("diabetes")[0]), True, "diabetes")
    for name in ("wine", "breast_cancer", "iris", "digits"):
        yield Pairing(
            f"{name.replace('_', ' ')} and class",
            lambda name=name: (table(name)[0], one_hot(table(name)[1])),  # type: ignore[misc]
            True,
            f"class of {name.replace('_', ' ')}",
            groups=lambda name=name: table(name)[1],  # type: ignore[misc]
            rates=(0.0, 0.1, 0.2, 0.4),
        )


def generated() -> Iterator[Pairing]:
    """Synthetic relations not covered by the tables above, 60 to 2,000 pairs."""

    def related(n: int, noise: Callable[[Any], Any]) -> Columns:
        random = np.random.default_rng(n)
        x = random.normal(size=(n, 8))
        return as_columns(x, x @ random.normal(size=(8, 8)) + noise(random))

    def nonlinear(n: int) -> Columns:
        random = np.random.default_rng(0)
        x = random.normal(size=(n, 4))
        a = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2, x[:, 2] * x[:, 3], x[:, 0]])
        b = np.column_stack([np.cos(2 * x[:, 0]), np.abs(x[:, 1]), x[:, 2:].max(1), x[:, 1] * x[:, 2]])
        return as_columns(*(side + 0.1 * random.normal(size=(n, 4)) for side in (a, b)))

    def cauchy() -> Columns:
        random = np.random.default_rng(1)
        x = random.standard_cauchy(size=(400, 6))
        b = x @ random.normal(size=(6, 5)) + 0.3 * random.standard_cauchy(size=(400, 5))
        return as_columns(x + 0.3 * random.standard_cauchy(size=x.shape), b)

    def copies() -> Columns:
        random = np.random.default_rng(2)
        x, row = random.normal(size=(100, 8)), random.integers(100, size=600)
        return as_columns(x[row], (x @ random.normal(size=(8, 6)) + 0.5 * random.normal(size=(100, 6)))[row])

    def categories(n: int) -> Columns:
        random = np.random.default_rng(n)
        c, d, z = random.integers(12, size=n), random.integers(7, size=n), random.normal(size=(n, 3))
        b = z @ random.normal(size=(3, 4)) + 0.4 * random.normal(size=(n, 4))
        return as_columns(np.hstack([np.eye(12)[c], z[:, :2], np.eye(7)[d]]), np.hstack([np.eye(5)[(c + d) % 5], b]))

    def counts(n: int) -> Columns:
        random = np.random.default_rng(6)
        rates = random.gamma(1.0, 2.0, size=(n, 10))
        return as_columns(random.poisson(rates), random.poisson(3 * rates @ random.dirichlet(np.ones(10), size=8).T))

    def clusters() -> Columns:
        random = np.random.default_rng(7)
        cluster = random.integers(15, size=500)
        return as_columns(*(3 * random.normal(size=(15, 10))[cluster] + random.normal(size=(500, 10)) for _ in "ab"))

    def hard_third(n: int) -> Columns:
        return related(n, lambda r: 2 * np.where(r.random((n, 1)) < 0.3, 2.5, 0.3) * r.normal(size=(n, 8)))

    makers: dict[str, Callable[[], Columns]] = {
        "nonlinear 500": lambda: nonlinear(500),
        "nonlinear 2,000": lambda: nonlinear(2000),
        "Cauchy": cauchy,
        "copies": copies,
        "categories and numbers 500": lambda: categories(500),
        "categories and numbers 120": lambda: categories(120),
        "counts 60": lambda: counts(60),
        "counts 300": lambda: counts(300),
        "clusters": clusters,
        "a third is hard 800": lambda: hard_third(800),
        "a third is hard 150": lambda: hard_third(150),
    }
    for name, make in makers.items():
        yield Pairing(f"generated, {name}", make, True, f"generated {name.rstrip('0123456789, ')}")


def as_columns(a: NDArray[Any], b: NDArray[Any]) -> Columns:
    return a.astype(np.float32), b.astype(np.float32)


def digits() -> Iterator[Pairing]:
    yield Pairing("digits, rows", lambda: digit_pairs("rows")[:2], True, "digits")
    yield Pairing("digits, top and bottom", lambda: digit_pairs("top_bottom")[:2], True, "digits")
    yield Pairing("digits, 60 of them", lambda: _sample(digit_pairs("rows")[:2], 60), True, "digits")
    yield Pairing(
        "digits, 300 of them", lambda: _sample(digit_pairs("rows")[:2], 300), True, "digits", rates=(0.0, 0.2)
    )
    yield Pairing(
        "digits, same class", lambda: digit_pairs("rows")[:2], True, "digits",
        groups=lambda: digit_pairs()[2], rates=(0.2,), hard=True,
    )  # fmt: skip
    for flips in (0.1, 0.4):
        yield _confused("digits", lambda: table("digits"), {3: 8, 1: 7, 9: 5, 4: 9, 2: 3}, flips)
    yield Pairing("digits and noise", lambda: _with_noise(digit_pairs("rows")[0]), True, "noise", rates=(0.0,))
    yield Pairing("digits, one pixel row", lambda: _one_row(), True, "digits", rates=(0.0, 0.3))


def _confused(name: str, read: Callable[[], Any], pairs: dict[int, int], flips: float) -> Pairing:
    """Features and classes, some of which are taken for a similar one with a probability."""

    def said() -> tuple[Matrix, NDArray[np.int64], NDArray[np.bool_]]:
        features, labels = read()
        noisy = LabelFlips(flips, pairs=pairs)(torch.from_numpy(labels))
        return features, noisy.labels.numpy(), noisy.hit.numpy()

    return Pairing(
        f"{name} and class, confused {flips:.0%}",
        lambda: (said()[0], one_hot(said()[1])),
        True,
        f"class of {name}",
        rates=(flips,),
        known_wrong=lambda: said()[2],
    )


def _sample(columns: Columns, n: int) -> Columns:
    rows = np.random.default_rng(0).permutation(len(columns[0]))[:n]
    return columns[0][rows], columns[1][rows]


def _with_noise(a: Matrix) -> Columns:
    return a, np.random.default_rng(0).normal(size=a.shape).astype(np.float32)


def _one_row() -> Columns:
    """Pixel rows at the upper and lower edge of a digit, which share little information."""
    pixels = table("digits")[0].reshape(-1, 8, 8)
    return pixels[:, 1], pixels[:, 6]


def images(folder: Path) -> Iterator[Pairing]:
    yield Pairing("cifar-10, halves", lambda: cifar10_halves(folder, 6000), True, "cifar-10")
    yield Pairing("cifar-10, 20,000", lambda: cifar10_halves(folder, 20_000), True, "cifar-10", rates=(0.2,))
    yield Pairing("cifar-10, mean colors", lambda: cifar10_halves(folder, 4000, 16), True, "cifar-10", rates=(0.0, 0.3))
    yield Pairing(
        "cifar-10, same class", lambda: cifar10_halves(folder, 6000), True, "cifar-10",
        groups=lambda: _cifar10(folder)[1][:6000], rates=(0.2,), hard=True,
    )  # fmt: skip
    for flips in (0.1, 0.4):
        yield _confused("cifar-10", lambda: _pooled_and_class(folder, 6000), CIFAR10_PAIRS, flips)
    yield Pairing(
        "cifar-10, raw cosine", lambda: cifar10_halves(folder, 4000), False, "cifar-10 raw", rates=COSINE_RATES
    )


@cache
def _cifar10(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from rince.data.images import CIFAR10

    images, labels = CIFAR10(str(folder)).read()["train"][:2]
    return images.numpy(), labels.numpy()


def cifar10_halves(folder: Path, n: int, pool: int = 2, start: int = 0) -> Columns:
    """Top and bottom halves of images, pooled."""
    pixels = _cifar10(folder)[0][start : start + n].astype(np.float32) / 255
    side = 32 // pool
    pooled = pixels.reshape(n, 3, side, pool, side, pool).mean((3, 5))
    return pooled[:, :, : side // 2].reshape(n, -1), pooled[:, :, side // 2 :].reshape(n, -1)


def _pooled_and_class(folder: Path, n: int) -> tuple[Matrix, NDArray[np.int64]]:
    return np.hstack(cifar10_halves(folder, n, 4)), _cifar10(folder)[1][:n]


def sounds(source: Path) -> Iterator[Pairing]:
    from experiments.evidence.spoken_pairs import spoken_digit_pairs, spoken_digits

    yield Pairing(
        "spoken digits and images", lambda: spoken_digit_pairs(source)[:2], True, "spoken digits",
        groups=lambda: spoken_digit_pairs(source).digit,
    )  # fmt: skip
    yield Pairing(
        "spoken digits and class", lambda: _sound_class(spoken_digits(source)), True, "class of spoken digits",
        groups=lambda: spoken_digits(source).digit, rates=(0.0, 0.2),
    )  # fmt: skip
    yield Pairing(
        "spoken digits, two times", lambda: _early_late(spoken_digits(source).features), True, "spoken digits",
        rates=(0.0, 0.2),
    )  # fmt: skip


def _sound_class(sounds: Any) -> Columns:
    return sounds.features, one_hot(sounds.digit)


def _early_late(x: Matrix) -> Columns:
    """The first and the last third of the spectrogram (mels x frames)."""
    frames = x.reshape(len(x), -1, 16)
    return frames[:, :, :5].reshape(len(x), -1), frames[:, :, 11:].reshape(len(x), -1)


def graphs(root: Path) -> Iterator[Pairing]:
    for name in ("MUTAG", "PROTEINS", "NCI1"):
        rates = FIT_RATES if name != "NCI1" else (0.0, 0.2)
        yield Pairing(
            f"{name}, labels and degrees", lambda name=name: graph_features(root, name), True, name, rates=rates
        )  # type: ignore[misc]


def graph_features(root: Path, name: str) -> Columns:
    """Histograms of node labels and of degrees for every graph."""
    from rince.data.graphs import tudataset

    dataset = tudataset(name, root)
    labels, degrees = [], []
    for i in range(len(dataset)):
        nodes = slice(int(dataset.node_ptr[i]), int(dataset.node_ptr[i + 1]))
        edges = dataset.edge_index[:, int(dataset.edge_ptr[i]) : int(dataset.edge_ptr[i + 1])]
        labels.append(dataset.x[nodes].sum(0).numpy())
        degree = np.bincount(edges[0].numpy(), minlength=nodes.stop - nodes.start)
        degrees.append(np.bincount(np.minimum(degree, 9), minlength=10))
    return np.stack(labels).astype(np.float32), np.stack(degrees).astype(np.float32)


def pairings(places: Places) -> list[Pairing]:
    """All pairings with available data."""
    from experiments.evidence.audit_benchmark.texts import captions, docstrings, natural_noise, similar_sentences

    result = [*tables(), *generated(), *digits(), *docstrings()]
    result += [] if places.cifar10 is None else images(places.cifar10)
    if places.data is not None:
        result += [*sounds(places.data / "fsdd.zip"), *graphs(places.data / "tudataset")]
        result += captions(places.data / "multi30k", places.cache)
        result += similar_sentences(places.data / "stsb", places.cache)
        result += natural_noise()
    return result
