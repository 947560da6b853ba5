"""What the tests of video data share."""

import shutil

import pytest

from support.video.films import film
from support.video.hums import COUNT, fade, hum


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    for i in range(COUNT):
        path = folder / f"{i:02}.{'mp4' if i % 2 else 'avi'}"
        codecs = {"audio": "aac"} if i % 2 else {"video": "mpeg4", "audio": "pcm_s16le"}
        film(path, seconds=2.5, size=(48, 36), picture=fade(i), sound=hum(i), rate=24000, **codecs)
    return folder


@pytest.fixture
def root(films, tmp_path):
    """``train/CLASS/`` with twelve videos in two classes and ``val/CLASS/`` with four of them."""
    for i, path in enumerate(sorted(films.iterdir())):
        for part in ("train", "val")[: 2 if i < 4 else 1]:
            target = tmp_path / "data" / part / ("cat", "dog")[i % 2] / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return tmp_path / "data"
