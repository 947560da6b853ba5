import zipfile

import numpy as np
import pytest
import torch

from experiments.evidence.spoken_pairs import log_mel, mel_bands, spoken_digit_pairs, spoken_digits
from support.tones import write_digits


@pytest.fixture
def recordings(tmp_path):
    return write_digits(tmp_path / "recordings")


def test_a_tone_is_loudest_in_the_band_around_its_frequency():
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(4800) / 8000)[None]
    features = log_mel(tone, 24, 16)
    assert features.shape == (1, 24, 16) and features.max() == 1 and features.min() >= -1
    loudest = int(features[0].mean(1).argmax())
    assert int(mel_bands(24, 256)[:, round(1000 / 4000 * 128)].argmax()) == loudest


def test_a_folder_and_a_zip_file_give_the_same(recordings, tmp_path):
    with zipfile.ZipFile(tmp_path / "fsdd.zip", "w") as archive:
        for path in recordings.iterdir():
            archive.write(path, f"recordings/{path.name}")
    folder, archive = spoken_digits(recordings), spoken_digits(tmp_path / "fsdd.zip")
    assert (folder.features == archive.features).all() and (folder.digit == np.repeat(np.arange(10), 2)).all()
    assert set(archive.speaker) == {"anna"}


def test_every_sound_gets_an_image_of_its_digit_by_seed(recordings):
    from sklearn.datasets import load_digits

    pairs, again, other = (spoken_digit_pairs(recordings, seed) for seed in (0, 0, 1))
    assert (load_digits().target[pairs.image] == pairs.digit).all()
    assert len(set(pairs.image)) == 20
    assert (pairs.image == again.image).all() and (pairs.image != other.image).any()


def test_the_real_recordings_are_3000_of_six_speakers(real_data):
    digits = spoken_digits(real_data("fsdd.zip"))
    assert len(digits.digit) == 3000 and (np.bincount(digits.digit) == 300).all() and len(set(digits.speaker)) == 6
    assert digits.features.shape == (3000, 24 * 16) and np.isfinite(digits.features).all()
