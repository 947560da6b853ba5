import numpy as np
import pytest
import torch

from rince.data.spoken_digits import (
    SpokenDigits,
    read_recordings,
)
from support.tones import write_digits, write_tone


@pytest.fixture
def recordings(tmp_path):
    return write_digits(tmp_path / "recordings")


def test_bad_sources_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_recordings(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no recordings named"):
        read_recordings(tmp_path)
    (tmp_path / "3_anna_0.wav").write_bytes(b"not a wav")
    with pytest.raises(ValueError, match=r"3_anna_0\.wav is not a valid wav"):
        read_recordings(tmp_path)
    write_tone(tmp_path / "3_anna_0.wav", 440, rate=16000)
    with pytest.raises(ValueError, match="16-bit mono at 8000"):
        read_recordings(tmp_path)
    (tmp_path / "fsdd.zip").write_bytes(b"PK not a zip")
    with pytest.raises(ValueError, match="not a valid zip file"):
        read_recordings(tmp_path / "fsdd.zip")


def images_of(part):
    return {tuple(image.flatten().tolist()) for image in part.a}


@pytest.mark.parametrize("parting", ["takes", "speaker", "random"])
def test_parts_share_neither_images_nor_recordings(parting, tmp_path):
    source = write_digits(tmp_path / "recordings", takes=12, speakers=("anna", "bela", "cyd", "dora"))
    data = SpokenDigits(str(source), parting)
    parts = [data.split(name) for name in ("train", "validation", "test")]
    sizes = {"takes": [80, 200, 200], "speaker": [240, 120, 120], "random": [384, 48, 48]}[parting]
    assert [len(part.labels) for part in parts] == sizes
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not images_of(parts[i]) & images_of(parts[j])
        heard = [{sound.numpy().tobytes() for sound in parts[k].b} for k in (i, j)]
        assert not heard[0] & heard[1]
    for part in parts:
        assert part.a.dtype == torch.uint8 and part.a.shape[1:] == (1, 8, 8) and part.b.shape[1:] == (4800,)


def test_every_pair_shows_the_digit_that_is_said(recordings):
    from sklearn.datasets import load_digits

    digits = load_digits()
    known = {
        tuple(np.rint(i * 255 / 16).astype(int).flatten()): d for i, d in zip(digits.images, digits.target, strict=True)
    }
    part = SpokenDigits(str(write_digits(recordings / "more", takes=11))).split("train")
    assert [known[tuple(image.flatten().tolist())] for image in part.a] == part.labels.tolist()
    power = torch.fft.rfft(part.b[:, :2400], dim=1).abs()
    heard = (power.argmax(1) * 8000 / 2400 - 200) / 300
    assert torch.equal(heard.floor().long(), part.labels)


def test_wrong_pairs_are_of_another_digit_and_the_seed_decides(tmp_path):
    source = str(write_digits(tmp_path / "recordings", takes=30))
    data = SpokenDigits(source, wrong_pairs=0.4, wrong_pairs_seed=1)
    (right,), (noisy,) = data.pair_batches("train"), data.pair_batches("train", noisy=True)
    wrong = data.noise_record()["partner_hit"]
    assert wrong.sum() == 80 and torch.equal((noisy.b != right.b).any(1), torch.from_numpy(wrong))
    said = torch.from_numpy(data.noise_record()["partner"])
    assert (right.labels[said] != right.labels)[wrong].all()
    same = SpokenDigits(source, wrong_pairs=0.4, wrong_pairs_seed=1)
    other = SpokenDigits(source, wrong_pairs=0.4, split_seed=1, wrong_pairs_seed=1)
    assert torch.equal(next(same.pair_batches("train", noisy=True)).b, noisy.b)
    assert not torch.equal(next(other.pair_batches("train")).a, right.a)


def test_too_few_recordings_and_bad_settings_are_named(recordings):
    with pytest.raises(ValueError, match="in the train split by takes"):
        SpokenDigits(str(recordings)).setup()
    with pytest.raises(ValueError, match="got 'x'"):
        SpokenDigits(parting="x")


def test_a_recording_of_many_gigabytes_is_not_read(tmp_path):
    with open(tmp_path / "7_jackson_1.wav", "wb") as file:
        file.truncate(50_000_000_000)  # of nothing: it takes no space
    with pytest.raises(ValueError, match=r"7_jackson_1\.wav is larger than 100 MB"):
        read_recordings(tmp_path)


def test_real_recordings_match_the_published_split(real_data):
    data = SpokenDigits(str(real_data("fsdd.zip")), wrong_pairs=0.6)
    parts = {name: data.split(name) for name in ("train", "validation", "test")}
    assert {name: len(part.labels) for name, part in parts.items()} == {"train": 2400, "validation": 300, "test": 300}
    assert all((part.labels.bincount() == len(part.labels) // 10).all() for part in parts.values())
    assert len(images_of(parts["test"])) == 300 and not images_of(parts["test"]) & images_of(parts["train"])
    assert data.noise_record()["partner_hit"].sum() == 1440 and data.classes == 10
