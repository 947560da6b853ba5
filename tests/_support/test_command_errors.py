"""Which errors become a sentence, beyond what tests/test_cli.py has of them."""

import pytest

from rince._support.command_errors import sentence_of


@pytest.mark.parametrize("name", ("RANK", "SLURM_PROCID"))
def test_a_number_of_a_process_that_is_none_is_named(monkeypatch, name):
    """Lightning reads it when it is imported."""
    from lightning.fabric.utilities.rank_zero import _get_rank

    for other in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "z")
    with pytest.raises(ValueError) as raised:
        _get_rank()
    assert sentence_of(raised.value) == (
        f"the variable {name} must be a whole number, as torchrun or SLURM sets it, got 'z': unset it, or start the "
        "run with one of these"
    )


def test_places_that_cannot_be_are_told_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as raised:
        (tmp_path / "file" / "x").mkdir()
    assert sentence_of(raised.value) == (
        f"{tmp_path}/file/x cannot be: a part of it is a file, not a folder; name another place"
    )
    with pytest.raises(OSError) as raised:
        (tmp_path / ("a" * 256)).mkdir()
    told = sentence_of(raised.value)
    assert told.startswith(f"the name {tmp_path}"[:80]) and "... is longer than the system allows (" in told
    assert len(told) < 200
