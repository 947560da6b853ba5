import warnings

import numpy as np
import pytest

from rince.data.pairs import PairedArrays
from rince.errors import UsageError


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.full((4, 4), 1e300), "a in .* has non-finite values"),
        (np.zeros(4), "must hold numbers, one row per pair"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, a, message):
    np.savez(tmp_path / "a.npz", a=a, b=np.zeros((len(a), 3)))
    with warnings.catch_warnings(), pytest.raises(UsageError, match=message):
        warnings.simplefilter("error")
        PairedArrays(str(tmp_path / "a.npz")).setup()


def test_a_few_pairs_have_no_test_part_but_classes(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros((5, 2)), b=np.zeros((5, 2)), labels=np.arange(5))
    assert PairedArrays(str(tmp_path / "a.npz")).classes == 5
