import json

import numpy as np
import pytest

from rince import cli
from rince.audit import audit_shards, file_shards
from rince.audit.encode.shards import encode_shards
from rince.audit.shards.runner import LocalRunner
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs

N = 420
PARTNER, WRONG = wrong_pairs(N, 0.3, 0)
TEXTS = [f"word{k} word{k + 1} word{k % 19} word{k % 23} word{k % 29}" for k in range(N)]
OTHERS = [TEXTS[k].replace("word", "wort") for k in PARTNER]


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Two columns of texts in three JSONL files."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    for number, rows in enumerate(np.array_split(np.arange(N), 3)):
        lines = (json.dumps({"a": TEXTS[k], "b": OTHERS[k], "id": f"pair {k}"}) + "\n" for k in rows)
        (tmp_path / f"{number}.jsonl").write_text("".join(lines))
    return ["*.jsonl:a", "*.jsonl:b"]


def encoded(shards, **options):
    parts = file_shards(*shards, ids="id", raw=True)
    return encode_shards(parts, "cache", LocalRunner(), specs={"a": None, "b": None}, **options)


def test_shards_give_the_audit_of_one_process_with_texts_on_the_page(shards, tmp_path):
    assert cli.main(["audit", *shards, "--encode", "--out", "whole", "--ids", "id", "--checks", "none"]) == 0
    found = encoded(shards)
    assert found.how == ("texts encoded with hashed n-grams",) * 2 and not found.comparable
    audit_shards(found.shards, fit=True, checks=None, out="parts")
    whole, parts = (json.loads((tmp_path / name / "audit.json").read_text()) for name in ("whole", "parts"))
    for name in ("noise_rate", "interval", "flagged", "fingerprint"):
        assert whole[name] == parts[name]
    data = (tmp_path / "parts" / "audit.html").read_text().split('id="data">')[1].split("</script>")[0]
    page = json.loads(data)["audit"]
    assert page["shows"] == {"a": True, "b": True}
    assert page["rows"]["a"] == [TEXTS[k] for k in page["rows"]["row"]]
    assert page["rows"]["b"] == [OTHERS[k] for k in page["rows"]["row"]]
    assert cli.main(["clean", *shards, "--audit", "parts"]) == 0, "the fingerprint is that of the texts"


def test_encoded_shards_are_read_from_the_cache(shards, tmp_path, monkeypatch):
    before = encoded(shards)
    monkeypatch.setattr("rince.audit.encode.shards.encode_rows", lambda *_: pytest.fail("encoded again"))
    assert [shard.a for shard in encoded(shards).shards] == [shard.a for shard in before.shards]
    changed = (tmp_path / "1.jsonl").read_text().replace("word7", "another")
    (tmp_path / "1.jsonl").write_text(changed)
    with pytest.raises(pytest.fail.Exception, match="encoded again"):
        encoded(shards)


def test_missing_items_name_the_shard_or_are_skipped(shards, tmp_path):
    lines = (tmp_path / "1.jsonl").read_text().splitlines()
    lines[5] = json.dumps({"a": None, "b": "x", "id": "none"})
    (tmp_path / "1.jsonl").write_text("\n".join(lines))
    with pytest.raises(UsageError, match=r"1\.jsonl.*missing"):
        encoded(shards)
    result = audit_shards(encoded(shards, skip_invalid=True).shards, fit=True, skip_invalid=True, out="parts")
    assert result.dropped == 1
    assert cli.main(["clean", *shards, "--audit", "parts"]) == 0


def test_encoder_of_numbers_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(60, 4))
    np.save(tmp_path / "b.npy", np.eye(60, 5))
    parts = file_shards(tmp_path / "a.npy", tmp_path / "b.npy", raw=True)
    with pytest.raises(UsageError, match="holds numbers"):
        encode_shards(parts, str(tmp_path), LocalRunner(), specs={"a": "ngrams", "b": None})
