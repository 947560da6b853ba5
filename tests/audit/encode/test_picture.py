import numpy as np
import pytest

from rince.audit.encode.picture import Patches

Image = pytest.importorskip("PIL.Image")


def pictures(n=120, seed=0):
    random = np.random.default_rng(seed)
    base = random.integers(0, 256, (n, 6, 6, 3), np.uint8)
    return [Image.fromarray(small).resize((40, 24)) for small in base]


def test_rows_of_pictures_do_not_depend_on_the_batch_and_tell_them_apart():
    encoder = Patches()
    encoder.learn(pictures())
    rows = encoder.encode(pictures(20, seed=1))
    assert rows.shape == (20, 60) and np.isfinite(rows).all()
    assert np.allclose(rows[5:8], encoder.encode(pictures(20, seed=1)[5:8]), atol=1e-4)
    shifted = [picture.rotate(2) for picture in pictures(20, seed=1)]
    distance = np.linalg.norm(rows[:, None] - encoder.encode(shifted)[None], axis=2)
    assert (distance.argmin(1) == np.arange(20)).mean() > 0.8
