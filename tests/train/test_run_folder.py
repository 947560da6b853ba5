import pytest

from rince.train.run_folder import RunFolder


def test_settings_can_change_before_the_first_checkpoint(tmp_path):
    folder = RunFolder(tmp_path / "a")
    folder.path.mkdir()
    folder.start("q: 1\n", {"hit": [True]})
    with pytest.warns(UserWarning, match="q = 1, now it is 2"):
        folder.check({"q": 2})
    folder.start("q: 2\n", {})
    assert folder.config.read_text() == "q: 2\n" and not folder.noise.exists()
    folder.checkpoint.touch()
    with pytest.raises(ValueError, match="was started with q = 2, now it is 3"):
        folder.check({"q": 3})
