"""Videos of all kinds, for the tests of decoding."""

import pytest

from support.video.film_kinds import Films, noise_picture


@pytest.fixture(scope="session")
def flashes(tmp_path_factory):
    return Films(tmp_path_factory.mktemp("flashes"))


@pytest.fixture(scope="session")
def numbered(tmp_path_factory):
    return Films(tmp_path_factory.mktemp("numbered"), picture=noise_picture)
