"""Real pairs for measuring the audit's scorers: feature matrices of both sides, cached as npz.

The data folder comes from ``RINCE_DATA``; sets whose files are absent are skipped by the callers.
"""

import ast
import gzip
import io
import os
import site
import tempfile
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DATA = Path(os.environ.get("RINCE_DATA", "data"))
CACHE = Path(tempfile.gettempdir()) / "rince_audit_scorers"

Features = NDArray[np.float32]


class Pairs(NamedTuple):
    """Two feature matrices whose rows belong together, and the item (picture, file) that each pair comes from."""

    a: Features
    b: Features
    unit: NDArray[np.int64]


def ngrams(texts: list[str], width: int = 256) -> Features:
    """(texts, width) TF-IDF of words and of character 3- to 5-grams, reduced by a truncated SVD."""
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=60_000, sublinear_tf=True, dtype=np.float32)
    parts = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), min_df=2, max_features=60_000, sublinear_tf=True, dtype=np.float32
    )
    counts = hstack([words.fit_transform(texts), parts.fit_transform(texts)]).tocsr()
    return TruncatedSVD(min(width, counts.shape[1] - 1), n_iter=2, random_state=0).fit_transform(counts)


def docstrings(count: int = 6000, folders: list[str] | None = None) -> Pairs:
    """Docstrings and bodies of functions in installed packages, or in other folders; the unit is the file."""
    docs, bodies, files = [], [], []
    paths = sorted(path for folder in folders or site.getsitepackages() for path in Path(folder).rglob("*.py"))
    paths = [path for path in paths if "test" not in str(path) and (not folders or "-packages" not in str(path))]
    for path in np.random.default_rng(0).permutation(np.array([str(path) for path in paths])):
        try:
            text = Path(path).read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        added = 0
        for node in ast.walk(tree):
            doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if doc and len(doc) > 60 and isinstance(node, ast.FunctionDef) and len(node.body) > 1 and added < 12:
                body = "\n".join(ast.unparse(statement) for statement in node.body[1:])
                if len(body) > 120:
                    docs.append(doc[:600])
                    bodies.append(body[:1500])
                    files.append(str(path))
                    added += 1
        if len(docs) >= count:
            break
    return Pairs(ngrams(docs[:count]), ngrams(bodies[:count]), np.unique(files[:count], return_inverse=True)[1])


def flickr8k(count: int = 6000) -> Pairs:
    """Flickr8k: EfficientNet features of pictures and MiniLM embeddings of one caption each."""
    with np.load(DATA / "flickr8k" / "features.npz", allow_pickle=True) as file:
        image, caption, of = file["image"], file["caption"], file["caption_of"]
    first = np.unique(of, return_index=True)[1][:count]
    return Pairs(image[of[first]].astype(np.float32), caption[first].astype(np.float32), np.arange(len(first)))


def digits_halves() -> Pairs:
    """Even and odd rows of scikit-learn's 8x8 digits."""
    from sklearn.datasets import load_digits

    images = load_digits().images.astype(np.float32)
    n = len(images)
    return Pairs(images[:, ::2].reshape(n, -1), images[:, 1::2].reshape(n, -1), np.arange(n))


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def multi30k(count: int = 6000) -> Pairs:
    """English and German captions of Multi30k as n-grams."""
    folder = DATA / "multi30k"
    english, german = (lines(folder / f"train.{language}.gz")[:count] for language in ("en", "de"))
    return Pairs(ngrams(english), ngrams(german), np.arange(len(english)))


def multi30k_weak(count: int = 1000) -> Pairs:
    """1,000 English and German captions, too few pairs for a strong map."""
    return multi30k(count)


def spoken_digits() -> Pairs:
    """Log spectra of the first and second half of every recording of spoken digits."""
    rows = []
    with zipfile.ZipFile(DATA / "fsdd.zip") as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".wav")):
            with wave.open(io.BytesIO(archive.read(name))) as sound:
                samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype=np.int16).astype(np.float32)
            halves = np.array_split(samples, 2)
            rows.append([_spectrum(half) for half in halves])
    first, second = (np.stack(side).astype(np.float32) for side in zip(*rows, strict=True))
    return Pairs(first, second, np.arange(len(first)))


def _spectrum(samples: Features, frames: int = 8, window: int = 256) -> Features:
    starts = np.linspace(0, max(len(samples) - window, 1), frames).astype(int)
    padded = np.pad(samples, (0, window))
    frame = np.stack([padded[start : start + window] for start in starts]) * np.hanning(window)
    power = np.abs(np.fft.rfft(frame))[:, :128].reshape(frames, 32, 4).sum(2)
    return np.log1p(power).ravel().astype(np.float32)


class Judged(NamedTuple):
    """ParaCrawl sentence pairs with human judgments and the scores of three published tools."""

    a: Features
    b: Features
    wrong: NDArray[np.bool_]
    tools: dict[str, NDArray[np.float64]]
    texts: tuple[list[str], list[str]]


def paracrawl(language: str) -> Judged:
    """Crawled pairs; wrong: misaligned (A) or wrong language (L). Scores of hunalign, zipporah and bicleaner."""
    rows = [line.split("\t") for line in lines(DATA / "paracrawl" / f"sorted.en-{language}.gz")]
    rows = [row for row in rows if len(row) >= 8 and row[7].strip()]
    english, other = [row[2] for row in rows], [row[3] for row in rows]
    wrong = np.array([row[7].strip() in ("A", "L") for row in rows])
    tools = {
        name: np.array([float(row[k]) for row in rows])
        for k, name in ((4, "hunalign"), (5, "zipporah"), (6, "bicleaner"))
    }
    return Judged(ngrams(english), ngrams(other), wrong, tools, (english, other))


SETS: dict[str, Callable[[], Pairs]] = {
    "docstrings": docstrings,
    "docstrings 4,000": lambda: docstrings(4000),
    "flickr8k": flickr8k,
    "digits halves": digits_halves,
    "multi30k n-grams": multi30k,
    "multi30k 1,000": multi30k_weak,
    "spoken halves": spoken_digits,
}


def load(name: str, make: Callable[[], Pairs] | None = None) -> Pairs:
    """One of ``SETS``, or what ``make`` returns, computed once."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"{name.replace(' ', '_')}.npz"
    if not path.exists():
        np.savez(path, **(make or SETS[name])()._asdict())
    with np.load(path) as file:
        return Pairs(*(file[field] for field in Pairs._fields))


def shuffled(pairs: Pairs, share: float, seed: int) -> tuple[Pairs, NDArray[np.bool_]]:
    """The pairs with a share of them mismatched at random, and which."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(pairs.a))[: round(share * len(pairs.a))]
    wrong = np.zeros(len(pairs.a), dtype=bool)
    wrong[chosen] = True
    b = pairs.b.copy()
    b[chosen] = b[np.roll(chosen, 1)]
    return Pairs(pairs.a, b, pairs.unit), wrong


def oracle_recall(scores: NDArray[np.floating], wrong: NDArray[np.bool_], alarms: float = 0.1) -> float:
    """Recall of the best threshold with at most this share of false alarms."""
    order = np.argsort(scores)
    false = np.cumsum(~wrong[order]) / np.arange(1, len(order) + 1)
    within = np.flatnonzero(false <= alarms)
    return float(wrong[order][: within[-1] + 1].sum() / wrong.sum()) if len(within) else 0.0
