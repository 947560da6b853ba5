"""Data that do not fit the encoder are one sentence that says what is given and what is expected."""

import numpy as np
import pytest

from rince import cli

QUIET = [
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
PAIRS = """
method: {class_path: CrossModal, init_args: {hidden: 8, width: 4, layers: 2}}
encoder:
  class_path: Towers
  init_args:
    a: {class_path: MLP, init_args: {widths: [40, 8, 8]}}
    b: {class_path: MLP, init_args: {widths: [24, 8, 8]}}
views: {class_path: PairViews, init_args: {a: {class_path: Unchanged}, b: {class_path: Unchanged}}}
data: {class_path: PairedArrays, init_args: {path: pairs.npz, batch_size: 8}}
"""


@pytest.fixture
def complaint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def told(*arguments):
        assert cli.main(["train", *arguments, *QUIET]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    return told


def test_gray_images_and_an_encoder_of_colors(complaint):
    told = complaint("digits/simclr", "--encoder.channels", "3")
    assert "DigitImages gives bytes 1 x 8 x 8, through SimCLRViews numbers 1 x 8 x 8, and ConvNet rejects it (" in told
    assert "3 channels" in told and told.endswith("): set encoder, views or data\n")


def test_pairs_of_another_width_and_pairs_the_wrong_way_round(complaint, tmp_path):
    (tmp_path / "mine.yaml").write_text(PAIRS)
    sizes = {"swapped": (24, 40), "other": (40, 25)}
    for name, (a, b) in sizes.items():
        np.savez(tmp_path / f"{name}.npz", a=np.ones((40, a)), b=np.ones((40, b)))
    told = complaint("mine.yaml", "--data.path", "swapped.npz")
    assert "side a: PairedArrays gives rows of 24 numbers" in told and "): set encoder.a, views.a or data" in told
    told = complaint("mine.yaml", "--data.path", "other.npz")
    assert "side b: PairedArrays gives rows of 25 numbers" in told and "): set encoder.b, views.b or data" in told
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["mine"]  # the file's name, and it may be mended


def test_a_method_for_another_kind_of_data(complaint, tmp_path):
    np.savez(tmp_path / "pairs.npz", a=np.ones((40, 4)), b=np.ones((40, 4)))
    told = complaint("digits/simclr", "--data", "PairedArrays", "--data.path", "pairs.npz", "--data.batch_size", "8")
    assert "SimCLR learns from images, but PairedArrays gives batches of a, b, labels, ids, cropped" in told


def test_without_data_it_says_what_is_missing(complaint):
    assert "no data: give a configuration, such as digits/simclr" in complaint("--loss.q", "0.5")


def test_a_method_for_graphs_on_images(complaint):
    assert "GraphCL learns from graphs, but DigitImages gives batches of images" in complaint(
        "digits/simclr", "--method", "GraphCL"
    )


def test_error_of_a_callback_in_half_precision_is_not_taken_for_a_wrong_shape(tmp_path, monkeypatch, capsys):
    code = "from lightning.pytorch import Callback\n\n\nclass Faulty(Callback):\n"
    (tmp_path / "faulty.py").write_text(
        f"{code}    def on_before_backward(self, *args):\n        raise ValueError('mine')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--trainer.precision", "bf16-true", "--trainer.callbacks+", "faulty.Faulty"]
    with pytest.raises(ValueError, match="mine"):
        cli.main(["train", "digits/simclr", "--encoder.width", "4", *options, *QUIET])
