"""Audits on a real cluster: processes on this machine, one of which is killed on the way."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from rince.audit import Partition, audit_pairs, audit_shards, file_shards
from rince.audit.fit.towers import FitConfig
from rince.audit.shards.runner import DaskRunner, connected
from rince.errors import UsageError
from rince.noise import wrong_pairs
from support import ranks

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

N, WIDTH, PARTS = 3000, 12, 6


class Made(Partition):
    """Pairs that are made where they are scored; the worker of one of them is killed the first time."""

    def __init__(self, number: int, killed: Path | None = None):
        self.number, self.killed = number, killed

    @property
    def rows(self):
        return N // PARTS

    def arrays(self):
        random = np.random.default_rng(self.number)
        a = random.normal(size=(self.rows, WIDTH)).astype(np.float16)
        b = (a + random.normal(size=a.shape)).astype(np.float16)
        return a, b[wrong_pairs(self.rows, 0.25, self.number)[0]]

    def blocks(self):
        yield self.arrays()

    def ids(self):
        return [f"{self.number}/{row}" for row in range(self.rows)]

    def duplicates(self):
        if self.killed is not None and not self.killed.exists():
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return None


@pytest.fixture(scope="module")
def client():
    """Two workers that are forked, which takes less than importing torch; they find the class above by the path."""
    ranks.context()
    options = {"distributed.scheduler.allowed-failures": 1, "distributed.worker.multiprocessing-method": "forkserver"}
    with pytest.MonkeyPatch.context() as patch, dask.config.set(options):
        patch.syspath_prepend(Path(__file__).parent)
        with connected(workers=2) as client:
            yield client


def whole():
    parts = [Made(k).arrays() for k in range(PARTS)]
    return [np.concatenate(side) for side in zip(*parts, strict=True)]


def test_a_cluster_that_loses_a_worker_gives_what_one_machine_gives(client, tmp_path):
    a, b = whole()
    here = audit_pairs(a, b, ids=[f"{k}/{row}" for k in range(PARTS) for row in range(N // PARTS)])
    before = set(client.scheduler_info()["workers"])
    parts = [Made(k, tmp_path / "killed" if k == 4 else None) for k in range(PARTS)]
    found = audit_shards(parts, client=client, out=tmp_path / "out")
    assert (tmp_path / "killed").exists() and set(client.scheduler_info()["workers"]) != before, "one was killed"
    assert abs(found.noise_rate - here.noise_rate) <= 0.002 and found.verdict == here.verdict
    assert found.interval == pytest.approx(here.interval)
    table = parquet.read_table(tmp_path / "out" / "audit.parquet")
    assert table["id"][0].as_py() == "0/0" and len(table) == N
    assert np.allclose(table["score"].to_numpy(), here.scores)
    assert np.allclose(table["p_wrong"].to_numpy(), here.p_wrong)
    assert set(np.flatnonzero(table["flagged"].to_numpy())) == set(here.flag(0.1))


def set_null_size(size):
    from rince.audit import relative

    relative.RELATIVE_NULL_SIZE = size


def test_nothing_as_long_as_the_data_comes_to_the_client(client, monkeypatch):
    """With a small null and a short page, no value that is gathered comes near the scores of all pairs."""
    from dask.sizeof import sizeof

    seen = []
    gathered = DaskRunner.gather

    def gather(self, handles, label=""):
        found = gathered(self, handles, label)
        seen.extend(sizeof(value) for value in found)
        return found

    monkeypatch.setattr(DaskRunner, "gather", gather)
    monkeypatch.setattr("rince.audit.shards.run.MAX_ROWS", 50)
    client.run(set_null_size, 400)
    try:
        audit_shards([Made(k) for k in range(PARTS)], client=client)
    finally:
        client.run(set_null_size, 200_000)
    assert max(seen) < N * 4 / 2, "half of the scores of all pairs"


def fewer_mismatched_pairs():
    from rince.audit.fit import cross_fit

    cross_fit.NULL_SIZE = 9000


def test_towers_are_fitted_and_judge_on_the_cluster(client, monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 9000)
    client.run(fewer_mismatched_pairs)
    a, b = (side[:1000] for side in whole())
    recipe = FitConfig(folds=3, members=1, width=32, dim=8, steps=25)
    here = audit_pairs(a, b, fit=True, scorer="towers", config=recipe)
    found = audit_shards([Made(0), Made(1)], client=client, fit=True, scorer="towers", config=recipe)
    assert found.fitted and found.noise_rate == pytest.approx(here.noise_rate, abs=0.002)
    assert found.interval == pytest.approx(here.interval, abs=0.005)


def test_an_error_of_a_worker_is_the_sentence_that_it_is_here(client, tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    rows[150] = np.nan
    for name, part in (("1", rows[:100]), ("2", rows[100:])):
        columns = {"a": part.tolist(), "b": (part[:, ::-1] + 1).tolist()}
        parquet.write_table(arrow.table(columns), tmp_path / f"{name}.parquet")
    parts = file_shards(f"{tmp_path}/*.parquet:a", f"{tmp_path}/*.parquet:b")
    with pytest.raises(UsageError, match="a has NaN or infinite values in row 150"):
        audit_shards(parts, client=client)


def test_running_scheduler_is_joined(client, monkeypatch):
    address = client.scheduler.address
    with connected(address) as other:
        assert other.scheduler.address == address and other is not client
    monkeypatch.setattr("rince.__version__", "9.9")
    with pytest.raises(UsageError, match=r"runs rince .*, client runs 9.9"), connected(address):
        pass


def test_a_client_must_be_one():
    with pytest.raises(UsageError, match=r"client .* got str"):
        audit_shards([Made(0)], client="tcp://127.0.0.1:8786")


def test_a_cluster_that_always_loses_a_part_says_so(client, monkeypatch):
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)  # each one costs the start of a worker
    runner = DaskRunner(client)
    start = time.monotonic()
    with pytest.raises(UsageError, match="lost the same task several times"):
        runner.gather([runner.submit(os._exit, 1)])
    assert time.monotonic() - start < 60
