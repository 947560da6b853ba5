"""`rince audit --workers`: raw items and media folders in shards give the results of one process."""

import csv
import json

import numpy as np
import pytest

from rince import cli
from rince.audit import audit_shards, file_shards
from rince.audit.encode.shards import encode_shards
from rince.audit.shards.runner import LocalRunner
from rince.noise.pairs import wrong_pairs

pytest.importorskip("pyarrow")

N = 400
PARTNER, WRONG = wrong_pairs(N, 0.3, 0)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of pictures whose colors the captions name, as 2 CSV files; some captions belong to other pictures."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    colors = random.integers(0, 6, size=(N, 4))
    pixels = (40 * colors[:, :, None, None] + random.integers(0, 20, size=(N, 4, 8, 8))).astype(np.uint8)
    (tmp_path / "photos").mkdir()
    for k, quarters in enumerate(pixels):
        picture = np.block([[quarters[0], quarters[1]], [quarters[2], quarters[3]]])
        image.fromarray(picture).save(tmp_path / "photos" / f"{k:03d}.png")
    texts = [" ".join(f"{place}{color}" for place, color in zip("abcd", row, strict=True)) for row in colors]
    for number, rows in enumerate(np.array_split(np.arange(N), 2)):
        lines = "".join(f"{k:03d},{texts[PARTNER[k]]}\n" for k in rows)
        (tmp_path / f"{number}.csv").write_text(f"name,caption\n{lines}")
    return ["photos", "*.csv:caption", "--encode", "--ids", "*.csv:name"]


def read(folder):
    record = json.loads((folder / "audit.json").read_text())
    page = json.loads((folder / "audit.html").read_text().split('id="data">')[1].split("</script>")[0])
    with open(folder / "suspects.csv", newline="") as file:
        return record, page["audit"]["rows"], list(csv.DictReader(file))


def test_shards_of_a_media_folder_give_the_results_of_one_process(photos, tmp_path):
    assert cli.main(["audit", *photos, "--out", "whole", "--checks", "none"]) == 0
    shards = file_shards(*photos[:2], ids="*.csv:name", rows=130, raw=True)
    assert [shard.rows for shard in shards] == [130, 70, 130, 70]
    found = encode_shards(shards, "cache", LocalRunner(), specs={"a": None, "b": None})
    audit_shards(found.shards, fit=True, checks=None, out="parts")
    (whole, rows, suspects), (record, shown, listed) = (read(tmp_path / name) for name in ("whole", "parts"))
    assert record["flagged"] > 0.5 * WRONG.sum()
    for name in ("noise_rate", "interval", "flagged", "fingerprint"):
        assert record[name] == whole[name]
    by_id = {row["id"]: row for row in suspects}
    assert len(listed) == len(by_id) == N
    for row in listed:
        whole_row = by_id[row["id"]]
        assert {**row, "score": 0, "p_wrong": 0} == {**whole_row, "score": 0, "p_wrong": 0}
        assert float(row["score"]) == pytest.approx(float(whole_row["score"]), rel=1e-4, abs=1e-4)  # rounding of sums
        assert float(row["p_wrong"]) == pytest.approx(float(whole_row["p_wrong"]), rel=1e-3)
    assert listed[0]["photos"] == f"{int(listed[0]['id']):03d}.png" and listed[0]["caption"]
    assert shown["id"] == rows["id"][: len(shown["id"])]
    assert shown["a"][0] == rows["a"][0] and shown["b"][:5] == rows["b"][:5]
    assert cli.main(["clean", *photos[:2], "--audit", "parts", "--link"]) == 0
    kept = (tmp_path / "clean" / "kept_a.txt").read_text().split()
    assert len(kept) == N - record["flagged"] == len(list((tmp_path / "clean" / "photos").iterdir()))
    assert sum((tmp_path / "clean" / f"{k}.csv").read_text().count("\n") - 1 for k in range(2)) == len(kept)


def test_raw_items_on_a_worker(photos, tmp_path, capsys):
    pytest.importorskip("distributed")
    assert cli.main(["audit", *photos, "--out", "parts", "--workers", "1", "--json"]) == 0
    assert "parts/suspects.csv" in capsys.readouterr().out
    record, shown, listed = read(tmp_path / "parts")
    assert record["shards"] == 2 and record["encoders"]["b"] == "texts encoded with hashed n-grams"
    assert shown["a"][0] is not None and listed[0]["caption"]
