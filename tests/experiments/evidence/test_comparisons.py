import gzip

import numpy as np
import pytest
import torch

from experiments.evidence import comparisons
from experiments.evidence.comparisons import (
    CIFAR10LabelNoise,
    Multi30k,
    SpokenDigitsTrained,
    SpokenDigitTowers,
    main,
    same_class,
)
from rince.compare.towers import Training
from rince.data.pairs import Part
from rince.errors import UsageError
from rince.train.config import parse_settings, train_parser

RUN = {"loss": "rince-0.5", "temperature": 0.2, "rate": 0.4, "seed": 3}
TASKS = [SpokenDigitsTrained("recordings.zip"), CIFAR10LabelNoise("images")]


@pytest.fixture
def settings_of(monkeypatch, tmp_path):
    """The settings that a task trains with, as the parser of ``rince train`` takes them."""

    def find(task, run):
        seen = []
        monkeypatch.setattr(
            "experiments.evidence.comparisons.trained", lambda settings, folder: seen.append(settings) or (0, 0)
        )
        monkeypatch.setattr(type(task), "measure", lambda self, method, data: {"validation": 1.0, "test": 2.0})
        assert task.run(run, tmp_path)["test"] == 2
        return parse_settings(train_parser(), seen[0])

    return find


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_run_overrides_loss_noise_and_seed(task, settings_of):
    found = settings_of(task, RUN)
    assert found.loss.class_path.endswith("RINCE")
    assert (found.loss.init_args.q, found.loss.init_args.temperature, found.seed) == (0.5, 0.2, 3)
    assert found.trainer.max_epochs == task.epochs and found.trust.source is None
    noise = found.data.init_args
    assert (noise.wrong_pairs if task.name == "spoken-digits" else noise.noise.init_args.rate) == 0.4


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_trust_is_found_on_the_way_and_epochs_can_be_given(task, settings_of):
    found = settings_of(task, {**RUN, "loss": "gce-1+trust", "epochs": 2})
    assert found.trust.source == "auto" and found.trainer.max_epochs == 2
    assert found.loss.class_path.endswith("GCE")


def part(n, seed):
    """Images and sounds of ten classes that can be told apart."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.Generator().manual_seed(99)
    looks, tones = torch.randint(0, 255, (10, 1, 8, 8), generator=classes), torch.rand(10, generator=classes)
    labels = torch.arange(n) % 10
    images = (looks[labels] + torch.randint(0, 20, (n, 1, 8, 8), generator=random)).clamp(max=255).to(torch.uint8)
    time = torch.arange(4800) / 8000
    sounds = torch.sin(2 * np.pi * (300 + 3000 * tones[labels])[:, None] * time)
    return Part(images, sounds + 0.01 * torch.randn(n, 4800, generator=random), labels)


@pytest.fixture
def task(monkeypatch, tmp_path):
    parts = {"train": part(200, 0), "validation": part(40, 1), "test": part(60, 2)}
    monkeypatch.setattr("rince.data.spoken_digits.SpokenDigits.read", lambda self: parts)
    comparisons.features.cache_clear()
    monkeypatch.setattr(SpokenDigitTowers, "training", Training(epochs=8, batch=50, width=32, dim=16))
    yield SpokenDigitTowers(str(tmp_path))
    comparisons.features.cache_clear()


def test_mismatched_training_pairs_and_clean_held_out_pairs(task):
    pairs = task.parts(0.4, 0)
    a, b, digits = comparisons.features(task.source)["train"]
    assert pairs.wrong.sum() == 80 and torch.equal(pairs.a, a)
    moved = torch.from_numpy(pairs.wrong)
    assert torch.equal(pairs.b[~moved], b[~moved])
    said = torch.cdist(pairs.b[moved], b).argmin(1)
    assert (digits[said] != digits[moved]).all()
    assert len(pairs.validation[0]) == 40 and len(pairs.test[1]) == 60


def test_towers_learn_which_sounds_and_images_are_of_one_digit(task, tmp_path):
    found = task.run({"loss": "infonce", "temperature": 0.5, "rate": 0.0, "seed": 0}, tmp_path)
    assert found["test"] > 60 and found["validation"] > 60  # by chance 10


def test_the_nearest_counts_if_it_is_of_the_same_class():
    a = torch.tensor([[1.0, 0], [0, 1], [1, 0.1]])
    b = torch.tensor([[0.0, 1], [0, 1], [1, 0]])
    identity = torch.nn.Identity()
    # a0 -> b2, a1 -> b0 (first of equals), a2 -> b2; b0 -> a1, b1 -> a1, b2 -> a0
    assert same_class(identity, identity, (a, b), torch.tensor([0, 1, 0])) == pytest.approx(100 * (2 / 3 + 2 / 3) / 2)


def test_captions_are_read_split_and_learned_from(tmp_path, monkeypatch):
    words = np.random.default_rng(0).integers(0, 30, (300, 4))
    for language, start in (("en", "a"), ("de", "b")):
        with gzip.open(tmp_path / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(" ".join(f"{start}{word}" for word in row) + "\n" for row in words)
    monkeypatch.setattr(Multi30k, "training", Training(epochs=20, batch=50, lr=2e-2, dim=16))
    monkeypatch.setattr(Multi30k, "validation", 30)
    monkeypatch.setattr(Multi30k, "test", 50)
    run = {"loss": "infonce", "temperature": 0.1, "rate": 0.0, "seed": 0}
    assert Multi30k(str(tmp_path), pairs=300).run(run, tmp_path)["test"] > 20  # by chance 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digit"], "unknown task 'digit'"),
        (["digits", "--source", "x"], "leave out --source"),
        (["multi30k", "--source", "nowhere"], r"train\.en\.gz in nowhere"),
        (["spoken-digits", "--source", "nowhere"], "at nowhere"),
    ],
)
def test_wrong_task_or_source_is_named(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        main(arguments)
