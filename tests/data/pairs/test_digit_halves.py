import numpy as np
import pytest

from rince.data.digit_halves import cut_in_two, digit_pairs


@pytest.mark.parametrize("cut", ["rows", "columns", "top_bottom", "left_right"])
def test_the_two_views_hold_every_pixel_once(cut):
    images = np.arange(3 * 8 * 8, dtype=np.float32).reshape(3, 8, 8)
    a, b = cut_in_two(images, cut)
    assert a.shape == b.shape == (3, 32)
    for image, left, right in zip(images, a, b, strict=True):
        assert sorted([*left, *right]) == sorted(image.ravel())


def test_digits_are_1797_pairs_of_pixels_in_the_unit_range():
    a, b, digit = digit_pairs()
    assert a.shape == b.shape == (1797, 32) and digit.shape == (1797,)
    assert a.min() == 0 and a.max() == 1 and set(digit) == set(range(10))


def test_an_unknown_cut_is_refused():
    with pytest.raises(ValueError, match="cut must be one of"):
        digit_pairs("diagonal")
