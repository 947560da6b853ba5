"""Runs that are stopped, damaged, or pulled from under, from the outside."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
import torch

from rince import cli
from rince.train.run_folder import RunFolder
from support import ranks
from support.crashes import CRASHES, DISTURBED, Crash, Disturbance, with_full_disk

TINY = [
    "--encoder.channels", "1", "--encoder.width", "2", "--encoder.norm", "none", "--probe", "false",
    "--method.hidden", "0", "--method.width", "4", "--checkpoint_every", "2",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0, 0, 0, 0]",
    "--trainer.max_epochs", "2", "--trainer.log_every_n_steps", "1",
    "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
DIGITS = ["--data", "DigitImages", "--data.limit", "128", "--data.batch_size", "32"]


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    def run(*options, data=DIGITS, name="a", crash=-1, at=-1, number=0, folder=None):
        monkeypatch.setattr(Crash, "at", crash)
        monkeypatch.setattr(Disturbance, "at", at)
        monkeypatch.setattr(Disturbance, "signal", number)
        monkeypatch.setattr(Disturbance, "folder", folder)
        callbacks = [CRASHES, DISTURBED]
        try:
            code = cli.main(["train", *TINY, *data, *callbacks, "--out", str(tmp_path), "--name", name, *options])
        except RuntimeError as error:
            assert str(error) == "crash"
            code = None
        return code, capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run, left alone."""
    out = tmp_path_factory.mktemp("whole")
    Crash.at = Disturbance.at = -1
    assert cli.main(["train", *TINY, *DIGITS, CRASHES, DISTURBED, "--out", str(out), "--name", "a"]) == 0
    return out / "a"


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "inter")]
)
def test_interrupted_run_saves_and_resumes_to_the_same_bits(train, tmp_path, whole, request, number, code, word):
    """A scheduler, or `train && evaluate`, must not take it for finished."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background have not
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    stopped, told = train("--checkpoint_every", "100", at=5, number=number)
    assert stopped == code and told.count("\n") == 1 and f"rince train: {word}" in told
    assert "saved at step 6" in told and "resumes" in told
    assert not (tmp_path / "a" / "result.json").exists()
    assert train()[0] == 0
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (whole / name).read_bytes()


def test_interrupt_before_the_first_step_says_that_nothing_was_saved(train, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rince.methods.method.Method.on_fit_start", interrupt, raising=False)
        code, told = train()
    assert code == 130 and "nothing was saved" in told and told.count("\n") == 1
    with pytest.warns(UserWarning, match=r"seed = 0, now it is 1"):
        assert train("--seed", "1")[0] == 0


def test_closed_output_is_not_an_interrupt(train, capsys):
    """As in `rince train ... | head -1`, with rich's progress bar."""
    code, told = train("--trainer.callbacks+=support.crashes.Unheard")
    assert code == 141 and not told


def flip(path, share=0.5):
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)


def damage(path, how):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(path.parent / "owned"),)

    if how == "flipped":
        flip(path)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif how == "foreign":
        torch.save({"weights": torch.ones(3)}, path)
    else:
        torch.save({"state_dict": {"x": Evil()}, "global_step": 3, "batches_seen": 3}, path)


@pytest.mark.parametrize("how", ["flipped", "empty", "truncated", "foreign", "hostile"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(train, tmp_path, whole, how):
    assert train(crash=5)[0] is None
    folder = RunFolder(tmp_path / "a")
    assert folder.checkpoint.exists() and folder.previous.exists()
    damage(folder.checkpoint, how)
    with pytest.warns(UserWarning, match=r"last\.ckpt .*previous\.ckpt.* step 2"):
        assert train()[0] == 0
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (whole / name).read_bytes()
    assert not folder.previous.exists() and not (tmp_path / "a" / "owned").exists()


def test_without_a_good_checkpoint_it_is_one_sentence(train, tmp_path):
    train(crash=5)
    for path in (tmp_path / "a").glob("*.ckpt"):
        damage(path, "truncated")
    code, told = train()
    assert code == 2 and told.count("\n") == 1 and "last.ckpt is corrupt" in told and "delete" in told


def test_every_flipped_bit_of_a_weight_is_noticed(whole, tmp_path):
    from rince.errors import UsageError
    from rince.train.checkpoints import read_checkpoint

    for number in range(20):
        path = tmp_path / f"{number}.ckpt"
        path.write_bytes((whole / "last.ckpt").read_bytes())
        before = read_checkpoint(path)
        flip(path, (number + 0.5) / 20)
        try:
            after = read_checkpoint(path)
        except UsageError:
            continue
        for name, weight in before["state_dict"].items():  # it fell between two entries
            assert torch.equal(weight, after["state_dict"][name])


@pytest.mark.parametrize("command", ["train", "evaluate", "export", "finetune"])
def test_a_broken_configuration_in_the_folder_is_one_sentence(train, tmp_path, capsys, command):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("a: [1")
    (tmp_path / "a" / "last.ckpt").write_bytes(b"x")
    if command == "train":
        code, told = train()
    else:
        more = [str(tmp_path / "e.safetensors")] if command == "export" else []
        code, told = cli.main([command, str(tmp_path / "a"), *more]), capsys.readouterr().err
    assert code == 2 and told.count("\n") == 1 and "config.yaml" in told


def test_other_data_do_not_resume_a_run(train, tmp_path):
    def images(count, seed=0):
        random = np.random.default_rng(seed)
        np.savez(tmp_path / "x.npz", images=random.integers(0, 256, (count, 8, 8), dtype=np.uint8))

    data = ["--data", "Arrays", "--data.path", str(tmp_path / "x.npz"), "--data.batch_size", "32"]
    images(150)
    assert train(data=data, crash=3)[0] is None
    for other in (500, 150):
        images(other, seed=1)
        code, told = train(data=data)
        assert code == 2 and "was started with other data" in told and told.count("\n") == 1
    images(150)
    assert train(data=data)[0] == 0


def test_checkpoint_of_another_run_is_not_resumed(train, tmp_path):
    assert train("--optimizer.lr", "0.5", name="other", crash=6)[0] is None
    assert train(crash=6)[0] is None
    shutil.copy(tmp_path / "other" / "last.ckpt", tmp_path / "a" / "last.ckpt")
    with pytest.warns(UserWarning, match=r"other settings.*previous\.ckpt"):
        assert train()[0] == 0


def test_a_folder_that_is_deleted_midway_is_not_a_finished_run(train, tmp_path):
    code, told = train(at=5, folder=tmp_path / "a")
    assert code == 2 and "was deleted during the run" in told
    assert not (tmp_path / "a" / "result.json").exists()


@pytest.mark.parametrize("name", ["../../x", "/tmp/x-of-rince", "a/../../b", ""])
def test_a_name_does_not_lead_out_of_the_folder_of_all_runs(train, tmp_path, name):
    (tmp_path / "deep" / "out").mkdir(parents=True)
    code, told = train("--out", str(tmp_path / "deep" / "out"), name=name)
    assert (code, told.count("\n")) == ((2, 1) if name else (0, 0))
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["out"]


def test_name_with_colons_is_a_folder(train, tmp_path):
    assert train(name="a::b")[0] == 0
    assert {p.name for p in (tmp_path / "a::b").iterdir()} >= {"last.ckpt", "encoder.safetensors", "result.json"}
    assert [p.name for p in tmp_path.iterdir()] == ["a::b"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--trainer.accelerator gpu", "trainer: No supported gpu backend found"),
        ("--trainer.devices 0", "trainer.devices must be in [1, "),
        ("--trainer.devices 1000", "got 1000"),
        ("--trainer.max_epochs -5", "trainer"),
        ("--optimizer.lr -1", "Adam rejects its arguments: Invalid learning rate"),
        ("--method.hidden -3", "at least 1 wide, got -3: set hidden"),
        ("--method GraphCL", "method: there is no option 'hidden'"),
        ("--loss torch.nn.TripletMarginLoss", "loss with the embeddings of both views, which TripletMarginLoss does"),
        ("--seed -1", "seed must be in [0, "),
        ("--data.batch_size 0", "batch_size"),
        ("--encoder.width -4", "ConvNet rejects its arguments"),
        ("--trainer.strategy nonsense", "trainer"),
        ("--trainer.accelerator tpu", "trainer: Requirement 'torch_xla"),
        ("--trainer.limit_train_batches 0.001", "trainer: You requested to check 0.001 of the `train_dataloader`"),
        ("--optimizer torch.optim.SparseAdam", "the optimizer rejects a step: SparseAdam does not support"),
        ("--encoder.depth 0", "depth of a ConvNet must be in [1, 1000], got 0"),
        ("--trainer.val_check_interval 1000", "trainer: `val_check_interval` (1000) must be less than or equal to the"),
        (
            "--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor no",
            "trainer.callbacks (EarlyStopping): Early",
        ),
        ("--trainer.callbacks+=LearningRateFinder", "trainer.callbacks (LearningRateFinder): When using the learning"),
        ("--trainer.precision 16-true", ""),
    ],
)
def test_bad_values_are_one_sentence(train, tmp_path, options, sentence):
    code, told = train(*options.split())
    assert (code == 2 and sentence in told and told.count("\n") == 1) or (not sentence and code == 0), told


def test_an_encoder_on_a_full_disk_is_one_sentence(whole, tmp_path, capsys):
    assert cli.main(["export", str(whole), "/dev/full/e.safetensors"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full") or os.name != "posix", reason="needs a limit on file sizes")
def test_a_write_that_fails_leaves_the_last_good_state(train, tmp_path, whole):
    assert train(crash=3)[0] is None  # step 2 is saved
    good = (tmp_path / "a" / "last.ckpt").read_bytes()
    arguments = ["train", *TINY, *DIGITS, CRASHES, DISTURBED, "--out", str(tmp_path), "--name", "a"]
    code, _, told = ranks.Alone(with_full_disk, len(good) // 2, arguments).end()
    assert code == 2 and told.count("\n") == 1 and "could not be written" in told
    assert (tmp_path / "a" / "last.ckpt").read_bytes() == good
    assert train()[0] == 0 and not list((tmp_path / "a").glob(".last*"))
    assert (tmp_path / "a" / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()


def test_read_only_folder_is_reported_before_the_work(whole, tmp_path, capsys, monkeypatch):
    import tempfile

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr("rince.commands.evaluate.evaluate_run", lambda found: pytest.fail("it has begun"))
    assert cli.main(["evaluate", str(whole)]) == 2
    assert "cannot be written to (Permission denied)" in capsys.readouterr().err


def test_log_level_of_lightning_is_restored(train):
    import logging

    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    assert train()[0] == 0 and logger.level == logging.DEBUG
    logger.setLevel(before)


def test_transforms_using_global_generators_resume_bit_for_bit(tmp_path, monkeypatch):
    """As albumentations does."""
    views = ["--views", "OwnViews", "--views.transform", "support.crashes_views.jitter", "--views.each", "true"]
    places = [TINY.index(option) for option in TINY if option.startswith("--views.")]
    plain = [word for i, word in enumerate(TINY) if i not in places and i - 1 not in places]

    def run(name, crash):
        monkeypatch.setattr(Crash, "at", crash)
        try:
            return cli.main(["train", *plain, *DIGITS, *views, CRASHES, "--out", str(tmp_path), "--name", name])
        except RuntimeError:
            return None

    assert run("whole", -1) == 0 and run("crashed", 5) is None and run("crashed", -1) == 0
    results = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("whole", "crashed")]
    assert results[0] == results[1]
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["loss"] is not None
