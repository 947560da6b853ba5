"""Texts that repeat the words of their partners, and an encoder of them, as the source of a user's module."""

import numpy as np

ENCODER = """
import zlib
import numpy as np
def bag(texts):
    rows = np.zeros((len(texts), 64), np.float32)
    for row, text in zip(rows, texts):
        for word in text.split():
            row[zlib.crc32(word.encode()) % 64] += 1
    return rows
"""


def pairs(n: int, random: np.random.Generator) -> tuple[list[str], list[str]]:
    words = [f"word{k}" for k in range(300)]
    first = [" ".join(random.choice(words, 12)) for _ in range(n)]
    return first, [" ".join(random.permutation(text.split())[:10]) for text in first]
