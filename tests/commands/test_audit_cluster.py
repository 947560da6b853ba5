import json

import numpy as np
import pytest

from rince.cli import main
from rince.noise import wrong_pairs
from rince.trust.table import read_trust
from support import ranks

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    a = random.normal(size=(2000, 8)).astype(np.float32)
    b = (a + 0.7 * random.normal(size=a.shape)).astype(np.float32)[wrong_pairs(2000, 0.3, 0)[0]]
    for number, rows in enumerate(np.split(np.arange(2000), [700, 1300])):
        columns = {"image": list(a[rows]), "text": list(b[rows]), "id": rows, "source": np.where(rows % 2, "x", "y")}
        parquet.write_table(arrow.table(columns), tmp_path / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COLUMNS = ["audit", "*.parquet:image", "*.parquet:text"]


def test_the_same_command_on_two_processes(folder, capsys):
    ranks.context()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        compare_with_one_process(folder, capsys)


def compare_with_one_process(folder, capsys):
    options = ["--ids", "id", "--groups", "source"]
    assert main([*COLUMNS, *options, "--out", "here", "--table", "parquet"]) == 0
    here = capsys.readouterr().out
    assert main([*COLUMNS, *options, "--out", "there", "--workers", "2"]) == 0
    there = capsys.readouterr().out
    assert here.split("written")[0] == there.split("written")[0] and "(3 files)" in there
    one, other = (json.loads((folder / name / "audit.json").read_text()) for name in ("here", "there"))
    assert one["noise_rate"] == other["noise_rate"] and one["flagged"] == other["flagged"] > 300
    assert one["fingerprint"] == other["fingerprint"] and one["fingerprint"]["rows"] == 2000
    assert [group["rate"] for group in one["groups"]] == [group["rate"] for group in other["groups"]]
    tables = [parquet.read_table(folder / name / "audit.parquet") for name in ("here", "there")]
    assert tables[0]["flagged"].equals(tables[1]["flagged"]) and tables[0]["id"].to_pylist() == list(range(2000))
    (folder / "review.csv").write_text("row,id,mark\n0,0,keep\n")
    assert main(["audit", "--review", "review.csv", "--out", "there"]) == 0, "it is read back like any other"
    assert "1 pairs reviewed" in capsys.readouterr().out
    assert np.allclose(read_trust("there", 2000), 1 - tables[0]["p_wrong"].to_numpy())


@pytest.mark.parametrize(
    "options, message",
    [
        (["--workers", "2", "--encode"], "--encode is for audits on one machine"),
        (["--workers", "2", "--scheduler", "tcp://x:1"], "not both"),
        (["--workers", "2", "--table", "csv"], "leave out --table csv"),
        (["--workers", "0"], "at least 1, got 0"),
        (["--workers", "1000000"], "--workers must be at most"),
    ],
)
def test_what_a_cluster_cannot_do_is_one_sentence(folder, capsys, options, message):
    assert main([*COLUMNS, *options]) == 2
    assert message in capsys.readouterr().err and not (folder / "audit").exists()
