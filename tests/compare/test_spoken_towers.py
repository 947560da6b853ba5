import numpy as np
import pytest
import torch

from rince.compare import spoken_towers
from rince.compare.spoken_towers import SpokenDigitTowers, same_class
from rince.compare.towers import Training
from rince.data.pairs.in_memory import Part


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
    monkeypatch.setattr("rince.data.pairs.spoken_digits.SpokenDigits.read", lambda self: parts)
    spoken_towers.features.cache_clear()
    monkeypatch.setattr(SpokenDigitTowers, "training", Training(epochs=8, batch=50, width=32, dim=16))
    yield SpokenDigitTowers(str(tmp_path))
    spoken_towers.features.cache_clear()


def test_mismatched_pairs_are_of_two_digits_and_held_out_ones_are_clean(task):
    pairs = task.parts(0.4, 0)
    a, b, digits = spoken_towers.features(task.source)["train"]
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
