"""Mismatched pairs that are right by accident, where one side is a class, and the same without them."""

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.places import Counts, in_cells, p_of_places, p_without
from rince.audit.estimate.probability import at_p_values
from rince.audit.estimate.rate import null_cells, p_values, rate_of_cells


def not_by_accident(
    null: NDArray[np.float32], counts: Counts, things: int, hit_by_accident: float, seed: int = 0, rounds: int = 4
) -> NDArray[np.bool_]:
    """Which mismatched pairs to keep: as many of the highest are left out as are right by accident.

    With f the density of pairs, g that of mismatched pairs as drawn, R and M those of right and wrong ones, a share w
    wrong and a = w * hit_by_accident: f = (1 - w) R + w M and g = a R + (1 - a) M, and so
    M = ((1 - w) g - a f) / (1 - w - a).

    Args:
        null: The scores of mismatched pairs.
        counts: The places of the pairs among them.
        things: How many different things the pairs are.
        hit_by_accident: The share of right ones among the mismatched pairs that are made from a wrong pair.
        seed: Which ones are left out is random.
        rounds: How often the share is estimated anew.
    """
    keep = np.ones(len(null), dtype=bool)
    if not hit_by_accident:
        return keep
    order = np.argsort(null, kind="stable")
    own = p_values(null, null)
    p = p_of_places(counts.place, len(null))
    first = rate_of_cells(in_cells(p, counts.many), things, null_cells(null))
    density = first.value / np.maximum(first.chance, 1e-9)  # of pairs, over that of mismatched ones
    chance, share = np.random.default_rng(seed).random(len(own)), first.value
    for _ in range(rounds):
        accidents = share * hit_by_accident
        if 1 - share - accidents < 0.1:  # half of two classes: nobody could tell which half is right
            break
        wanted = np.clip((1 - share - accidents * density) / (1 - share - accidents), 0, None)
        keep = chance < at_p_values(own, wanted / wanted.max())
        p = p_without(counts.place, null[order], keep[order])
        share = rate_of_cells(in_cells(p, counts.many), things, null_cells(null[keep])).value
    return keep
