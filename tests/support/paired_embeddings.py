"""Two columns of embeddings of one space, some of the pairs mismatched."""

import numpy as np

from rince.noise import wrong_pairs


def embeddings(n=3000, width=16, rate=0.3, seed=0, noise=0.5):
    """Two views in one space, some of them mispaired."""
    random = np.random.default_rng(seed)
    a = random.normal(size=(n, width)).astype(np.float32)
    b = (a + noise * random.normal(size=a.shape)).astype(np.float32)
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner], wrong


def scores_and_null(n=300):
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(0, 1, n // 3), random.normal(6, 1, n - n // 3)])
    return scores, random.normal(0, 1, 20_000)
