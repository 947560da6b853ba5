"""Run folders whose configuration nobody could have trained."""

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.paper.video.videos import GeneratedVideo
from rince.commands.evaluate import _labeled_accuracies
from rince.data import PairedArrays
from rince.errors import UsageError


@pytest.mark.parametrize("kind", ("clips", "pairs"))
def test_data_that_the_method_cannot_take_are_one_sentence_before_they_are_read(tmp_path, kind):
    np.savez(tmp_path / "p.npz", a=np.zeros((9, 2)), b=np.zeros((9, 2)))
    data = GeneratedVideo(str(tmp_path / "v")) if kind == "clips" else PairedArrays(str(tmp_path / "p.npz"))
    with pytest.raises(UsageError, match=f"learns from images, but .* gives {kind}: the configuration of odd is none"):
        _labeled_accuracies(SimpleNamespace(), data, SimpleNamespace(run="odd"))
    assert not (tmp_path / "v").exists()
