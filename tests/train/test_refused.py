"""What cannot be trained is refused in one sentence, before anything is written."""

import warnings

import numpy as np
import pytest

from rince import cli

QUIET = [
    "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
ONE_EPOCH = ["--data.limit", "64", "--data.batch_size", "32", "--trainer.max_epochs", "1", *QUIET]


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """The sentence on a command; nothing else is said, and nothing written unless that is told."""
    monkeypatch.chdir(tmp_path)

    def told(*words, writes=False):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            assert cli.main(list(words)) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        assert writes or not [path for path in (tmp_path / "runs").rglob("*") if not path.name.startswith(".")]
        return error

    return told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--views Unchanged", "SimCLR needs two views of every image, and Unchanged makes one view, the item as it is"),
        ("--views Recipe", "SimCLR needs two views of every image, and Recipe makes one view of it: set views, such"),
        ("--method MoCo --views Recipe", "MoCo needs two views of every image, and Recipe makes one view of it"),
        ("--method SupCon --views Recipe", "SupCon needs two views of every image"),
        ("--views GraphViews", "GraphViews makes those of graphs: set views, such as SimCLRViews"),
        ("--views ClipRecipe", "ClipRecipe makes one view of a clip: set views"),
        ("--views SoundRecipe", "SoundRecipe makes one view of a sound: set views"),
        (
            "--views PairViews --views.a Unchanged --views.b Unchanged",
            "PairViews makes one view of each side of a pair",
        ),
        ("--method FineTune", "rince finetune RUN"),
        ("--method LinearEvaluation", "rince finetune RUN"),
        ("--loss.temperature 2e-4", "RINCE with q=0.1 and temperature=0.0002 has gradients of the size"),
        ("--loss.temperature 1e-300", "temperature"),
        ("--trainer.max_epochs 0", "trainer.max_epochs must be at least 1, got 0"),
        ("--trainer.max_steps 0", "trainer.max_steps must be at least 1, got 0"),
        ("--trainer.limit_train_batches 0", "trainer.limit_train_batches must be at least 1, got 0"),
        ("--out $HOME/x", "out must not contain variables, got $HOME/x"),
        ("--name ${USER}", "name must not contain variables, got ${USER}"),
        ("--name run-${USER}", "name must not contain variables, got run-${USER}"),
    ],
)
def test_before_anything_is_written(refused, options, sentence):
    assert sentence in refused("train", "digits/simclr", *ONE_EPOCH, *options.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "--encoder R2Plus1D --encoder.channels 1 --encoder.width 2",
            "and R2Plus1D rejects it (",
        ),
        ("--encoder MLP --encoder.widths [60,8]", "and MLP rejects it ("),
    ],
)
def test_shapes_that_do_not_fit_are_told_as_they_are(refused, options, sentence):
    assert sentence in refused("train", "digits/simclr", *ONE_EPOCH, *options.split(), writes=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("loss: {class_path: RINCE, q: 0.5}", "loss: arguments of a class belong under init_args"),
        (
            "data: {class_path: DigitImages, init_args: {noise: {class_path: LabelFlips, rate: 0.1}}}",
            "data.noise: arguments of a class belong under init_args",
        ),
        ("", "mine.yaml is empty: write options into it"),
        ("# nothing yet\n", "mine.yaml is empty"),
        ("seed: 1\nname: x\nseed: 2\n", "mine.yaml sets seed twice, in lines 1 and 3"),
        ("data: DigitImages\nout: $HOME/x\n", "out must not contain variables, got $HOME/x"),
    ],
)
def test_files_by_hand(refused, tmp_path, text, sentence):
    (tmp_path / "mine.yaml").write_text(text)
    assert sentence in refused("train", "mine.yaml", *QUIET)
    assert not (tmp_path / "$HOME").exists()


def test_arrays_that_were_left_behind(tmp_path, monkeypatch, refused, capsys):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (64, 8, 8, 1), dtype=np.uint8), np.arange(64) % 2
    np.savez(tmp_path / "u8.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    options = ["--data", "Arrays", "--data.path", "u8.npz", "--data.batch_size", "32", "--out", str(tmp_path)]
    assert cli.main(["train", "digits/simclr", "--trainer.max_epochs", "1", *options, *QUIET, "--name", "k6"]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    told = refused("evaluate", "../k6")
    assert "u8.npz" in told and "data.path in ../k6/config.yaml" in told
    assert cli.main(["export", "../k6", "e.safetensors"]) == 0  # for which no data are read


def test_logger_without_its_package_is_one_sentence(refused, monkeypatch):
    for module in ("lightning.fabric.loggers.tensorboard", "lightning.pytorch.loggers.tensorboard"):
        for name in ("_TENSORBOARD_AVAILABLE", "_TENSORBOARDX_AVAILABLE"):
            monkeypatch.setattr(f"{module}.{name}", False, raising=False)
    logger = ["--trainer.logger", "TensorBoardLogger", "--trainer.logger.save_dir", "logs"]
    assert "TensorBoardLogger: " in refused("train", "digits/simclr", *ONE_EPOCH, *logger)
