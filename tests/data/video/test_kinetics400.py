import shutil

import pytest

from rince.data.video.videos import Kinetics400


def test_kinetics_reports_classes_missing_in_val(root):
    data = Kinetics400(str(root))
    assert data.classes == 2 and len(data.videos("test").paths) == 4
    shutil.copytree(root / "val" / "cat", root / "val" / "emu")
    with pytest.raises(ValueError, match="emu is in one"):
        Kinetics400(str(root)).setup()
    with pytest.raises(FileNotFoundError, match="train"):
        Kinetics400(str(root / "val")).setup()
