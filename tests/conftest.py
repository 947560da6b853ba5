"""What all tests share: real data where it is at hand, and calm property tests."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Times on a shared machine say nothing, and a test that fails should fail again.
settings.register_profile("rince", deadline=None, derandomize=True)
settings.load_profile("rince")


# A shell starts jobs in the background with Ctrl-C ignored; tests of signals want to see it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _objects_are_freed_at_the_end() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def _garbage_is_searched_among_new_objects_only(_objects_are_freed_at_the_end: None) -> None:
    """A full collection walks every object of torch and the other packages otherwise, half a second each time."""
    gc.collect()
    gc.freeze()


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
