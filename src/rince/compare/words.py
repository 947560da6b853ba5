"""Texts as rows of word numbers."""

import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor


def word_numbers(texts: Sequence[str], least: int = 2, longest: int = 64) -> Tensor:
    """(texts, words): numbers from 2 up for words that occur ``least`` times, 1 for rarer ones, 0 after the end.

    Every text keeps at least one word, so that it has an embedding.
    """
    words = [re.findall(r"\w+", text.lower())[:longest] or ["?"] for text in texts]
    counts = Counter(word for text in words for word in text)
    number = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= least), start=2)}
    rows = torch.zeros(len(words), max(map(len, words)), dtype=torch.long)
    for row, text in zip(rows, words, strict=True):
        row[: len(text)] = torch.tensor([number.get(word, 1) for word in text])
    return rows
