from statistics import NormalDist

import numpy as np
import pytest

from rince.audit.estimate.shapes import CUTS, DEVIATIONS, MEANS, SLANTS, cells, normal_scores, shapes


def test_every_shape_is_a_distribution():
    found = shapes()
    assert found.shape == (len(MEANS) * len(DEVIATIONS) * len(SLANTS), len(CUTS) + 1)
    assert found.min() >= 0 and np.allclose(found.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("mean, deviation", [(0, 0), (10, 5), (25, 12), (50, 17)])
def test_a_shape_without_slant_is_normal(mean, deviation):
    upright = int(np.flatnonzero(SLANTS == 0)[0])
    found = shapes().reshape(len(SLANTS), len(MEANS), len(DEVIATIONS), -1)[upright, mean, deviation]
    normal = NormalDist(MEANS[mean], DEVIATIONS[deviation])
    assert np.allclose(np.cumsum(found)[:-1], [normal.cdf(cut) for cut in CUTS], atol=1e-4)


@pytest.mark.parametrize("slant", [-5.0, 2.0, 20.0])
def test_a_slanted_shape_is_what_drawing_from_it_gives(slant):
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 200_000))
    delta = slant / np.sqrt(1 + slant**2)
    drawn = delta * np.abs(first) + np.sqrt(1 - delta**2) * second
    drawn = (drawn - drawn.mean()) / drawn.std()
    mean, deviation = 14, 9
    counts = np.bincount(np.searchsorted(CUTS, MEANS[mean] + DEVIATIONS[deviation] * drawn), minlength=len(CUTS) + 1)
    which = int(np.flatnonzero(slant == SLANTS)[0])
    found = shapes().reshape(len(SLANTS), len(MEANS), len(DEVIATIONS), -1)[which, mean, deviation]
    assert np.abs(counts / 200_000 - found).max() < 0.004


def test_normal_scores_put_small_p_values_high():
    p = np.array([0.0013499, 0.5, 0.8413447], np.float32)
    assert np.allclose(normal_scores(p), [3, 0, -1], atol=1e-3)
    assert cells(p).nonzero()[0].tolist() == sorted(np.searchsorted(CUTS, normal_scores(p)).tolist())
