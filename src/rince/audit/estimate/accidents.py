"""Mismatched pairs that are right by accident, where one side is a class, and the same without them."""

import numpy as np

from rince.audit.estimate.probability import at_p_values
from rince.audit.estimate.rate import noise_rate, null_cells, p_values
from rince.audit.mismatched import Scored


def without_accidents(scored: Scored, seed: int = 0, rounds: int = 4) -> Scored:
    """The same with as many of the highest mismatched pairs left out as are right by accident.

    With f the density of pairs, g that of mismatched pairs as drawn, R and M those of right and wrong ones, a share w
    wrong and a = w * hit_by_accident: f = (1 - w) R + w M and g = a R + (1 - a) M, and so
    M = ((1 - w) g - a f) / (1 - w - a).
    """
    if not scored.hit_by_accident:
        return scored
    own = p_values(scored.null, scored.null)
    p = p_values(scored.scores, scored.null)
    first = noise_rate(p, null_cells(scored.null), scored.clusters)
    density = first.value / np.maximum(first.chance, 1e-9)  # of pairs, over that of mismatched ones
    chance, share, thinned = np.random.default_rng(seed).random(len(own)), first.value, scored
    for _ in range(rounds):
        accidents = share * scored.hit_by_accident
        if 1 - share - accidents < 0.1:  # half of two classes: nobody could tell which half is right
            break
        keep = np.clip((1 - share - accidents * density) / (1 - share - accidents), 0, None)
        thinned = scored._replace(null=scored.null[chance < at_p_values(own, keep / keep.max())])
        p = p_values(scored.scores, thinned.null)
        share = noise_rate(p, null_cells(thinned.null), scored.clusters).value
    return thinned
