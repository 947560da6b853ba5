import numpy as np
import pytest

from rince.audit.encode.picture import Exported, Patches
from rince.encoders.convnet import ConvNet
from rince.encoders.files import save_encoder
from rince.errors import UsageError

Image = pytest.importorskip("PIL.Image")


def pictures(n=120, seed=0):
    random = np.random.default_rng(seed)
    base = random.integers(0, 256, (n, 6, 6, 3), np.uint8)
    return [Image.fromarray(small).resize((40, 24)) for small in base]


def test_rows_of_pictures_do_not_depend_on_the_batch_and_tell_them_apart():
    encoder = Patches()
    encoder.learn(pictures())
    rows = encoder.encode(pictures(20, seed=1))
    assert rows.shape == (20, 60) and np.isfinite(rows).all()
    assert np.allclose(rows[5:8], encoder.encode(pictures(20, seed=1)[5:8]), atol=1e-4)
    shifted = [picture.rotate(2) for picture in pictures(20, seed=1)]
    distance = np.linalg.norm(rows[:, None] - encoder.encode(shifted)[None], axis=2)
    assert (distance.argmin(1) == np.arange(20)).mean() > 0.8


def exported(path, **normalise):
    recipe = {"class_path": "rince.encoders.ConvNet", "init_args": {"width": 4}}
    save_encoder(path, ConvNet(width=4), recipe, {"normalise": normalise.pop("facts", normalise)})
    return path


@pytest.mark.parametrize(
    "facts",
    [{"size": 10**6}, {"size": -3}, {"size": "x"}, {"size": [8, "x"]}, {"mean": "x"}, {"std": [1, 2]}, {"facts": [1]}],
)
def test_what_a_file_says_of_its_pictures_is_checked(tmp_path, facts):
    with pytest.raises(UsageError, match=r"e\.safetensors"):
        Exported(exported(tmp_path / "e.safetensors", **facts))


def test_an_exported_encoder_gives_rows(tmp_path):
    encoder = Exported(exported(tmp_path / "e.safetensors", size=[16, 16], mean=[0.5, 0.4, 0.3], std=[0.2] * 3))
    assert encoder.encode(pictures(6)).shape == (6, 16)
