import os

import pytest

from rince.errors import UsageError
from rince.pairs.raw import raw_column
from rince.pairs.source import source


def raw(text, **options):
    return raw_column(source(str(text), raw=True), **options)


def test_texts_paths_and_numbers_are_told_apart(tmp_path):
    rows = ["id,text,photo,sound,x", "a,a dog,1.jpg,1.wav,0.5", "b,,2.jpg,2.wav,1.5", "c,3,3.jpg,3.wav,2"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    texts = raw(f"{tmp_path}/t.csv:text")
    assert (texts.kind, list(texts.items)) == ("texts", ["a dog", None, "3"])
    photos = raw(f"{tmp_path}/t.csv:photo")
    assert photos.kind == "pictures" and photos.items[1] == tmp_path / "2.jpg" and photos.root == tmp_path
    assert raw(f"{tmp_path}/t.csv:sound").kind == "sounds"
    assert raw(f"{tmp_path}/t.csv:x") is None


def test_a_line_is_a_text_and_an_empty_one_is_missing(tmp_path):
    (tmp_path / "t.txt").write_bytes("one\u2028line\r\n\nthird".encode())
    assert list(raw(tmp_path / "t.txt").items) == ["one\u2028line", None, "third"]


def test_a_folder_holds_one_kind(tmp_path):
    (tmp_path / "1.wav").write_bytes(b"")
    assert raw(tmp_path).kind == "sounds"
    (tmp_path / "2.png").write_bytes(b"")
    with pytest.raises(UsageError, match="holds pictures and sounds: keep one kind"):
        raw(tmp_path)


def test_files_elsewhere_need_a_word_of_the_user(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "1.png").write_bytes(b"")
    (tmp_path / "data" / "t.csv").write_text(f"photo\n{tmp_path}/1.png\n../1.png\n")
    with pytest.raises(UsageError, match=r"1\.png: .* --media-root"):
        raw(f"{tmp_path}/data/t.csv:photo")
    assert raw(f"{tmp_path}/data/t.csv:photo", root=tmp_path).root == tmp_path


def test_media_of_datasets_are_bytes_and_made_when_they_are_needed(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    items = [{"bytes": b"RIFF0000WAVEfmt ", "path": "a.wav"}, None, {"bytes": None, "path": None}]
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    parquet.write_table(arrow.table({"audio": arrow.array(items, kind)}), tmp_path / "t.parquet")
    found = raw(f"{tmp_path}/t.parquet:audio")
    assert found.kind == "sounds" and len(found) == 3
    assert [found.items[k] for k in range(3)] == [b"RIFF0000WAVEfmt ", None, None]


def test_the_fingerprint_follows_contents_and_times(tmp_path):
    (tmp_path / "t.csv").write_text("text,photo\na b,1.jpg\nc,2.jpg\n")
    texts, photos = (raw(f"{tmp_path}/t.csv:{name}").fingerprint() for name in ("text", "photo"))
    assert texts == raw(f"{tmp_path}/t.csv:text").fingerprint() != photos
    (tmp_path / "1.jpg").write_bytes(b"x")
    assert raw(f"{tmp_path}/t.csv:photo").fingerprint() != photos
    once = raw(f"{tmp_path}/t.csv:photo").fingerprint()
    os.utime(tmp_path / "1.jpg", (1, 1))
    assert raw(f"{tmp_path}/t.csv:photo").fingerprint() != once
    (tmp_path / "t.csv").write_text("text,photo\na,b 1.jpg\nc,2.jpg\n")
    assert raw(f"{tmp_path}/t.csv:text").fingerprint() != texts


def test_nothing_but_gaps_and_strange_things_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"none": arrow.array([None, None], arrow.string()), "day": arrow.array([1, 2], arrow.date32())})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="nothing but missing values"):
        raw(f"{tmp_path}/t.parquet:none")
    with pytest.raises(UsageError, match=r"texts.*, got date"):
        raw(f"{tmp_path}/t.parquet:day")
    with pytest.raises(UsageError, match="name one, as FILE:none"):
        raw(f"{tmp_path}/t.parquet")
