"""An audit of scores that were drawn."""

import numpy as np

from rince.audit import Scored, judge


def made_up_audit(n=2000, rate=0.3, seed=0):
    """Scores as of a good embedding, with the wrong pairs first."""
    random = np.random.default_rng(seed)
    wrong = np.arange(n) < round(rate * n)
    scores = np.where(wrong, random.normal(0, 0.1, n), random.normal(0.6, 0.1, n)).astype(np.float32)
    return judge(Scored(scores, random.normal(0, 0.1, 100_000).astype(np.float32)), seed=seed), wrong
