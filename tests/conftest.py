"""What all tests share: real data where it is at hand, and a quiet, single-threaded torch."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """``real_data("fsdd.zip")`` is a path to real data, or skips the test where there is none."""
    places = [Path(os.environ["RINCE_DATA"])] if "RINCE_DATA" in os.environ else []
    places.append(Path(__file__).parents[2] / "shared" / "data")

    def find(name: str) -> Path:
        for place in places:
            if (place / name).exists():
                return place / name
        pytest.skip(f"needs real data: {name} in a folder named by RINCE_DATA")

    return find
