"""Texts: hashed n-grams without a model, or a model of sentence-transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.encode.encoder import Encoder, file_stamp
from rince.errors import UsageError

WIDTH = 128
HASHES = 2**16
LONGEST = 20_000  # characters of a text that count


class NGrams(Encoder):
    """Words, pairs of words and parts of words, hashed, weighted by rarity and reduced by a truncated SVD.

    No model and no download. It knows nothing of meaning, so towers are fitted on top (``comparable`` is False); with
    some thousand pairs they learn which words go together, across languages too.
    """

    name = "hashed n-grams"
    learns = True
    batch = 2048

    def __init__(self, width: int = WIDTH, seed: int = 0):
        self.width, self.seed = width, seed

    def identity(self) -> str:
        return f"ngrams 1 {self.width} {self.seed}"

    def learn(self, sample: Sequence[str]) -> None:
        decomposition = require("sklearn.decomposition", "audit")
        text = require("sklearn.feature_extraction.text", "audit")
        common = {"n_features": HASHES, "alternate_sign": False, "norm": None, "dtype": np.float32}
        self._words = text.HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **common)
        self._parts = text.HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **common)
        counts = [self._counted(vectoriser, sample) for vectoriser in (self._words, self._parts)]
        # Words and parts are weighted apart: the many parts would drown the words.
        self._weights = [text.TfidfTransformer(sublinear_tf=True).fit(count) for count in counts]
        # What occurs once tells nothing of other texts, and the decomposition costs as much as there are columns.
        self._seen = [np.flatnonzero(count.getnnz(0) > 1) for count in counts]
        rows = self._weighted(counts)
        width = min(self.width, len(sample) - 1, rows.shape[1] - 1)
        if width < 1 or not rows.nnz:
            raise UsageError(f"{len(sample)} texts with {rows.nnz} n-grams are too few for {self.name}")
        self._reduced = decomposition.TruncatedSVD(width, n_iter=3, random_state=self.seed).fit(rows)

    def _counted(self, vectoriser: Any, texts: Sequence[str]) -> Any:
        return vectoriser.transform([text[:LONGEST] for text in texts])

    def _weighted(self, counts: list[Any]) -> Any:
        sparse = require("scipy.sparse", "audit")
        parts = zip(self._weights, counts, self._seen, strict=True)
        return sparse.hstack([weight.transform(count).tocsc()[:, seen] for weight, count, seen in parts]).tocsr()

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        counts = [self._counted(vectoriser, items) for vectoriser in (self._words, self._parts)]
        return self._reduced.transform(self._weighted(counts)).astype(np.float32)


class SentenceModel(Encoder):
    """A model of sentence-transformers, by name or path; it takes texts and, if it is of that kind, pictures.

    Args:
        model: A name that sentence-transformers knows (it is downloaded if it is not there yet) or a folder.
    """

    comparable = True
    batch = 1024

    def __init__(self, model: str):
        self.model, self.name = model, f"the model {model}"
        self._loaded: Any = None

    def identity(self) -> str:
        path = Path(self.model)
        return f"sentence-transformers {self.model} {file_stamp(path) if path.exists() else ''}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        if self._loaded is None:
            self._loaded = self._load()
        return np.asarray(self._loaded.encode(list(items), batch_size=64, show_progress_bar=False), dtype=np.float32)

    def _load(self) -> Any:
        transformers = require("sentence_transformers", "text")
        try:
            return transformers.SentenceTransformer(self.model)
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())
            raise UsageError(
                f"there is no encoder {self.model!r}: give the name or folder of a sentence-transformers model, a "
                f".safetensors or .onnx file, module:function, or one of ngrams, patches, spectrogram ({why:.120})"
            ) from error
