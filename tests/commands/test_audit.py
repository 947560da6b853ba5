import json

import numpy as np
import pytest

from rince import cli
from rince.noise import wrong_pairs
from support import alike_texts


@pytest.fixture
def columns(tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(400, 16)).astype(np.float32)
    b = a + 0.3 * random.normal(size=a.shape).astype(np.float32)
    partner, wrong = wrong_pairs(400, 0.3, 0)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b[partner])
    return tmp_path, wrong


def run(*arguments):
    return cli.main(["audit", *map(str, arguments)])


def test_it_writes_its_files_prints_a_summary_and_leaves_no_rest(columns, capsys):
    folder, _ = columns
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--fdr", "0.05", "--seed", "3") == 0
    printed = capsys.readouterr().out
    assert "of the pairs are wrong" in printed and "audit.html" in printed
    assert {p.name for p in (folder / "out").iterdir()} == {"audit.csv", "audit.json", "audit.html"}
    record = json.loads((folder / "out" / "audit.json").read_text())
    assert abs(record["noise_rate"] - 0.3) < 0.06 and record["fdr"] == 0.05


def test_existing_output_stays_without_force(columns, capsys):
    folder, _ = columns
    (folder / "out").mkdir()
    (folder / "out" / "audit.html").write_text("mine")
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--force" in error
    assert (folder / "out" / "audit.html").read_text() == "mine"
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--force") == 0
    assert (folder / "out" / "audit.html").read_text() != "mine"


def test_ids_texts_and_images_reach_table_and_page(columns):
    pillow = pytest.importorskip("PIL.Image")
    folder, _ = columns
    lines = ["name,text", *(f"pair{i},a </script><script>alert({i})</script> dog" for i in range(400))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "images").mkdir()
    for i in range(400):
        pillow.new("RGB", (4, 4), (i % 256, 0, 0)).save(folder / "images" / f"pair{i}.png")
    shown = ["--texts-a", f"{folder}/t.csv:text", "--images-b", folder / "images", "--ids", f"{folder}/t.csv:name"]
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", *shown) == 0
    page = (folder / "out" / "audit.html").read_text()
    assert "<script>alert" not in page and "\\u003cscript\\u003ealert" in page and "data:image/jpeg" in page
    assert (folder / "out" / "audit.csv").read_text().splitlines()[1].startswith("pair0,")


def pictures(folder, names):
    pillow = pytest.importorskip("PIL.Image")
    (folder / "images").mkdir()
    for name in names:
        pillow.new("RGB", (4, 4), "red").save(folder / "images" / name)


def shown_data(folder, out="out"):
    text = (folder / out / "audit.html").read_text()
    return json.loads(text.split('id="data">')[1].split("</script>")[0])["audit"]


def test_only_pairs_that_have_a_picture_of_their_name_show_one(columns, capsys):
    folder, _ = columns
    pictures(folder, [f"pair{i}.png" for i in range(0, 400, 2)])
    (folder / "ids.csv").write_text("name\n" + "".join(f"pair{i}\n" for i in range(400)))
    given = ["--ids", folder / "ids.csv", "--images-a", folder / "images"]
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", *given) == 0
    assert "200 of 400 pairs have no file in" in capsys.readouterr().out
    data = shown_data(folder)
    rows = zip(data["rows"]["a"], data["rows"]["id"], strict=True)
    assert all((item is not None) == (int(name[4:]) % 2 == 0) for item, name in rows)
    assert any("the first is pair1" in remark for remark in data["remarks"])


def test_pictures_in_the_order_of_their_names_are_said_to_be_and_must_be_as_many_as_pairs(columns, capsys):
    folder, _ = columns
    pictures(folder, [f"item{i}.png" for i in range(400)])
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--media-b", folder / "images"]
    assert run(*given) == 0
    assert "were taken in the order of their names" in capsys.readouterr().out
    (folder / "images" / "item7.png").unlink()
    assert run(*given, "--force") == 2
    error = capsys.readouterr().err
    assert "expected 400, got 399" in error and "order of their names" in error and error.count("\n") == 1


def test_a_csv_without_a_header_is_refused_or_read_whole(columns, capsys):
    folder, _ = columns
    for name in "ab":
        np.savetxt(folder / f"{name}.csv", np.load(folder / f"{name}.npy"), delimiter=",")
    given = [folder / "a.csv", folder / "b.csv", "--out", folder / "out"]
    assert run(*given) == 2
    assert "--no-header" in capsys.readouterr().err
    assert run(*given, "--no-header") == 0
    assert "400 pairs" in capsys.readouterr().out


def test_bad_rows_are_left_out_on_demand(columns, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder, _ = columns
    a, b = np.load(folder / "a.npy"), np.load(folder / "b.npy")
    rows = [None if i == 5 else list(row) for i, row in enumerate(b)]
    table = {"a": list(a), "b": rows, "id": arrow.array([None if i == 2 else i for i in range(400)], arrow.int64())}
    parquet.write_table(arrow.table(table), folder / "t.parquet")
    file = folder / "t.parquet"
    given = [f"{file}:a", f"{file}:b", "--ids", f"{file}:id", "--out", folder / "out"]
    assert run(*given) == 2
    error = capsys.readouterr().err
    assert "row 5" in error and "--drop-bad" in error
    assert run(*given, "--drop-bad") == 0
    printed = capsys.readouterr().out
    assert "399 pairs" in printed and "row 5" in printed
    lines = (folder / "out" / "audit.csv").read_text().splitlines()
    assert lines[6] == "5,,,0" and lines[3].startswith(",") and lines[400].startswith("399,")


@pytest.mark.parametrize(
    "change, message",
    [
        (["missing.npy", "b.npy"], "there is no file"),
        (["a.npy", "short.npy"], "got 400 and 60 rows"),
        (["a.npy", "wide.npy"], "use fit=True (--fit)"),
        (["a.npy", "nan.npy"], "row 5"),
        (["broken.npy", "b.npy"], "broken.npy cannot be read"),
        (["a.npy", "b.npy", "--fdr", "2"], "--fdr must lie between 0 and 1"),
        (["a.npy", "b.npy", "--ids", "short_ids.npy"], "ids must have one item per pair: expected 400, got 7"),
        (["a.npy", "b.npy", "--texts-a", "nothing.csv"], "there is no file"),
        (["a.npy", "a.npy"], "A and B are both a.npy"),
        (["a.npy", "b.jsonl"], "b.jsonl cannot be read: files must end in .npy"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(columns, capsys, monkeypatch, change, message):
    folder, _ = columns
    monkeypatch.chdir(folder)
    np.save("short.npy", np.ones((60, 16)))
    np.save("wide.npy", np.ones((400, 17)))
    broken = np.load("b.npy")
    broken[5, 3] = np.nan
    np.save("nan.npy", broken)
    np.save("short_ids.npy", np.arange(7))
    (folder / "broken.npy").write_bytes(b"garbage")
    (folder / "b.jsonl").write_text("{}")
    assert run(*change, "--out", "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name two columns, as rince audit A B"),
        (["a.npy"], "name two columns, as rince audit A B"),
        (["a.npy", "b.npy", "--fdr", "much"], "argument --fdr: invalid float value: 'much'"),
        (["a.npy", "b.npy", "--fitt"], "there is no option '--fitt'"),
        (["a.npy", "b.npy", "--table", "xls"], "argument --table: invalid choice: 'xls'"),
        (["a.npy", "b.npy", "--encoder", "ngrams", "--encode"], "a.npy holds numbers, which need no encoder"),
    ],
)
def test_usage_errors_are_one_sentence(columns, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(columns[0])
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and "usage:" not in error


@pytest.fixture
def raw_pairs(tmp_path, monkeypatch):
    """A CSV of texts that repeat the words of their partners; those of one source are all mispaired."""
    random = np.random.default_rng(0)
    first, second = alike_texts.pairs(500, random)
    source = np.where(np.arange(500) % 5 == 4, "crawler", np.where(np.arange(500) % 2, "web", "forum"))
    broken = np.flatnonzero(source == "crawler")
    for k, other in zip(broken, np.roll(broken, 1), strict=True):
        second[k] = " ".join(first[other].split()[:10])
    rows = [f"=pair{k},{first[k]},{second[k]},{source[k]}" for k in range(500)]
    (tmp_path / "pairs.csv").write_text("\n".join(["id,question,answer,source", *rows]) + "\n")
    (tmp_path / "bags.py").write_text(alike_texts.ENCODER)
    monkeypatch.chdir(tmp_path)
    return tmp_path, source == "crawler"


TEXTS = ["pairs.csv:question", "pairs.csv:answer", "--encoder", "bags:bag", "--ids", "id"]


def test_raw_texts_are_encoded_grouped_shown_and_kept(raw_pairs, capsys):
    folder, _ = raw_pairs
    assert run(*TEXTS, "--groups", "source") == 0
    printed = capsys.readouterr().out
    assert "A is texts through bags:bag" in printed and "(kept)" not in printed
    record = json.loads((folder / "audit" / "audit.json").read_text())
    assert abs(record["noise_rate"] - 0.2) < 0.05
    assert record["groups"][0]["name"] == "crawler" and record["groups"][0]["rate"] > 0.9
    assert record["groups"][1]["rate"] < 0.05
    data = shown_data(folder, "audit")
    assert data["rows"]["a"][0].startswith("word") and data["rows"]["b"][0].startswith("word")
    assert data["groups"][0]["name"] == "crawler"
    assert run(*TEXTS, "--force") == 0
    assert capsys.readouterr().out.count("(kept)") == 2
    assert len(list((folder / "audit" / "encoded").iterdir())) == 2


def test_a_review_is_read_back_and_reported(raw_pairs, capsys):
    folder, wrong = raw_pairs
    assert run(*TEXTS) == 0
    lines = [f"{k},'=pair{k},{'wrong' if wrong[k] else 'keep'}" for k in range(0, 500, 3)]
    (folder / "review.csv").write_text("\n".join(["row,id,mark", *lines]) + "\n")
    capsys.readouterr()
    assert run("--review", "review.csv") == 0
    printed = capsys.readouterr().out
    assert "167 pairs reviewed" in printed and "precision" in printed
    found = json.loads((folder / "audit" / "review.json").read_text())
    assert found["interval"][0] <= 0.2 <= found["interval"][1] and found["precision"] > 0.8
    assert run(*TEXTS, "--force", "--review", "review.csv") == 0
    page = (folder / "audit" / "audit.html").read_text()
    assert '"marks":{"0":"keep"' in page
    (folder / "review.csv").write_text("row,id,mark\n0,somebody,keep\n")
    assert run("--review", "review.csv") == 2
    assert "belongs to another audit" in capsys.readouterr().err
    assert run("--review", "review.csv", "--out", "nowhere") == 2
    assert "there is no audit in nowhere" in capsys.readouterr().err


def test_without_an_encoder_words_are_hashed_and_towers_fitted(raw_pairs, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    from rince.audit.partitions.pipeline import cosine_scores_of

    seen = []

    def fitted_scores_of(parts, seed, recipe, progress):  # towers take a minute
        seen.append((np.asarray(parts.parts[0].a), np.asarray(parts.parts[0].b)))
        return cosine_scores_of(parts, seed)

    monkeypatch.setattr("rince.audit.fit.bounded.fitted_scores_of", fitted_scores_of)
    assert run("pairs.csv:question", "pairs.csv:answer", "--encode") == 0
    printed = capsys.readouterr().out
    assert "towers fitted" in printed and "A is texts through hashed n-grams" in printed
    assert [side.shape for side in seen[0]] == [(500, 128), (500, 128)]


def test_texts_without_encode_say_what_to_add(raw_pairs, capsys):
    assert run("pairs.csv:question", "pairs.csv:answer") == 2
    assert "--encode" in capsys.readouterr().err
    assert not (raw_pairs[0] / "audit").exists()


def test_near_duplicates_are_found_on_demand(columns, capsys):
    folder, _ = columns
    a = np.load(folder / "a.npy")
    a[200:210] = a[:10]
    np.save(folder / "a.npy", a)
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out"]
    assert run(*given, "--near-duplicates") == 0
    assert "20 pairs are near-duplicates of another, in 10 clusters" in capsys.readouterr().out


def test_ids_may_be_lines_of_text(columns, capsys):
    folder, _ = columns
    (folder / "ids.txt").write_text("".join(f"name {i}\n" for i in range(400)))
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--ids", folder / "ids.txt") == 0
    assert (folder / "out" / "audit.csv").read_text().splitlines()[7].startswith("name 6,")
    (folder / "ids.txt").write_text("one\n")
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "2", "--ids", folder / "ids.txt") == 2
    assert "ids must have one item per pair: expected 400, got 1" in capsys.readouterr().err
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "2", "--ids", folder) == 2
    assert "is a folder: name a file with one value per pair" in capsys.readouterr().err
