import csv
import json
import os

import numpy as np
import pytest

from rince import cli
from rince.cli import main
from rince.errors import FileError
from rince.noise import wrong_pairs
from rince.trust.table import read_weights
from support import alike_texts, ranks


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
    assert "of the pairs are unrelated" in printed and "audit.html" in printed
    assert {p.name for p in (folder / "out").iterdir()} == {"audit.csv", "audit.json", "audit.html", "suspects.csv"}
    record = json.loads((folder / "out" / "audit.json").read_text())
    assert abs(record["noise_rate"] - 0.3) < 0.06 and record["fdr"] == 0.05
    assert record["issues"]["unrelated"]["count"] == record["flagged"] == shown_data(folder)["issues"][0]["count"]


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


def test_pictures_without_ids_are_matched_by_order_and_counted(columns, capsys):
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
    assert "row 5" in error and "--skip-invalid" in error
    assert run(*given, "--skip-invalid") == 0
    printed = capsys.readouterr().out
    assert "399 pairs" in printed and "row 5" in printed
    lines = (folder / "out" / "audit.csv").read_text().splitlines()
    assert lines[6] == "5,,,0,0" and lines[3].startswith(",") and lines[400].startswith("399,")


@pytest.mark.parametrize(
    "change, message",
    [
        (["missing.npy", "b.npy"], "does not exist"),
        (["a.npy", "short.npy"], "got 400 and 60 rows"),
        (["a.npy", "wide.npy"], "--fit"),
        (["a.npy", "nan.npy"], "row 5"),
        (["broken.npy", "b.npy"], "broken.npy cannot be read"),
        (["a.npy", "b.npy", "--fdr", "2"], "--fdr must be between 0 and 1"),
        (["a.npy", "b.npy", "--ids", "short_ids.npy"], "ids must have one item per pair: expected 400, got 7"),
        (["a.npy", "b.npy", "--texts-a", "nothing.csv"], "does not exist"),
        (["a.npy", "a.npy"], "A and B are both a.npy"),
        (["a.npy", "b.xls"], "b.xls cannot be read: files must end in .npy"),
        (["a.npy", "b.npy", "--out", "a.npy/out"], "a.npy/out cannot be written to"),
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
    (folder / "b.xls").write_text("{}")
    assert run("--out", "out", *change) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name two columns, as rince audit A B"),
        (["a.npy"], "a.npy"),
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
    assert "A: texts encoded with bags:bag" in printed and "(kept)" not in printed
    record = json.loads((folder / "audit" / "audit.json").read_text())
    assert abs(record["noise_rate"] - 0.2) < 0.05
    assert record["groups"][0]["name"] == "crawler" and record["groups"][0]["rate"] > 0.9
    assert record["groups"][1]["rate"] < 0.05
    data = shown_data(folder, "audit")
    assert data["rows"]["a"][0].startswith("word") and data["rows"]["b"][0].startswith("word")
    assert data["groups"][0]["name"] == "crawler"
    assert run(*TEXTS, "--force") == 0
    assert capsys.readouterr().out.count("(from the cache)") == 2
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
    capsys.readouterr()
    assert run(*TEXTS, "--force", "--review", "review.csv", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["review"]["marked"] and "audit/review.json" in record["files"]
    page = (folder / "audit" / "audit.html").read_text()
    assert '"marks":{"0":"keep"' in page
    (folder / "review.csv").write_text("row,id,mark\n0,somebody,keep\n")
    assert run("--review", "review.csv") == 2
    assert "belongs to another audit" in capsys.readouterr().err
    assert run("--review", "review.csv", "--out", "nowhere") == 2
    assert "no audit in nowhere" in capsys.readouterr().err


def test_default_text_encoder_fits_a_common_space(raw_pairs, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    from rince.audit.encode import columns

    audited = []

    def audit_pairs(a, b, *, fit, **options):  # fitting takes a while
        audited.append((a.shape, b.shape, fit))
        return done(a, b, fit=False, **options)

    done = columns.audit_pairs
    monkeypatch.setattr(columns, "audit_pairs", audit_pairs)
    assert run("pairs.csv:question", "pairs.csv:answer", "--encode") == 0
    assert audited == [((500, 128), (500, 128), True)]
    assert "A: texts encoded with hashed n-grams" in capsys.readouterr().out


def test_suspects_have_the_texts_under_the_names_of_their_columns(raw_pairs, monkeypatch):
    pytest.importorskip("sklearn")
    assert run("pairs.csv:question", "pairs.csv:answer", "--encode", "--no-fit") == 0
    with open("audit/suspects.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500 and {"row", "score", "p_wrong", "flagged", "issues", "question", "answer"} < set(rows[0])
    assert "question and answer of pairs.csv" in (raw_pairs[0] / "audit" / "audit.html").read_text()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_suspects_keep_columns_and_near_duplicates_are_found(raw_pairs, capsys, kind):
    pytest.importorskip("sklearn")
    with open("pairs.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for k in range(10):
        rows[200 + k] |= {"question": rows[k]["question"] + " again", "answer": rows[k]["answer"]}
    if kind == "csv":
        with open("all.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        with open("all.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({**row, "vector": [0.5, 1.0]}) + "\n" for row in rows)
    else:
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), "all.parquet")
    sides = [f"all.{kind}:{name}" for name in ("question", "answer")]
    assert run(*sides, "--encode", "--no-fit", "--near-duplicates", "0.8") == 0
    assert "20 pairs are near-duplicates of others, in 10 clusters" in capsys.readouterr().out
    with open("audit/suspects.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0])[-4:] == ["question", "answer", "original id", "source"]
    for one in found:
        row = rows[int(one["row"])]
        assert one["source"] == row["source"] and one["question"] == row["question"]
        assert one["original id"] == "'" + row["id"]


def test_one_table_lists_its_columns_and_suggests_two(raw_pairs, capsys):
    assert run("pairs.csv", "--encode") == 2
    assert "pairs.csv:question pairs.csv:answer" in capsys.readouterr().err


def test_json_is_the_whole_output_and_quiet_prints_nothing(columns, capsys):
    folder, _ = columns
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out"]
    assert run(*given, "--json") == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["verdict"] == "found" and str(folder / "out" / "suspects.csv") in record["files"] and not err
    assert run(*given, "--quiet", "--force") == 0
    assert capsys.readouterr() == ("", "")


def test_conditions_name_the_model_unless_it_has_not_seen_the_pairs(columns, capsys):
    folder, _ = columns
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--force", "--json"]
    verdicts = {}
    for answer in ([], ["--embeddings", "unseen"], ["--embeddings", "trained-on-these"]):
        assert run(*given, *answer) == 0
        verdicts[tuple(answer)] = json.loads(capsys.readouterr().out)["conditions"]
    assert "not trained on these pairs" in verdicts[()][0] and verdicts["--embeddings", "unseen"] == []
    assert "trained on these pairs" in verdicts["--embeddings", "trained-on-these"][0]


def test_held_out_pairs_reveal_memorization(columns, capsys):
    folder, _ = columns
    random = np.random.default_rng(1)
    new = random.normal(size=(200, 16)).astype(np.float32)
    np.save(folder / "new_a.npy", new)
    np.save(folder / "new_b.npy", new + 2 * random.normal(size=new.shape).astype(np.float32))
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--json"]
    assert run(*given, "--held-out", folder / "new_a.npy", folder / "new_b.npy") == 0
    assert json.loads(capsys.readouterr().out)["issues"]["trained_on_these"]["claimed"]
    assert run(*given, "--force", "--fit", "--held-out", folder / "new_a.npy", folder / "new_b.npy") == 2
    assert "--held-out" in capsys.readouterr().err


def test_checks_are_chosen_by_name(columns, capsys):
    folder, _ = columns
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--force", "--json", "--score", "cosine"]
    assert run(*given, "--checks", "duplicate,better-partner") == 0
    assert set(json.loads(capsys.readouterr().out)["issues"]) == {"unrelated", "duplicate", "better_partner"}
    assert run(*given, "--checks", "none") == 0
    assert set(json.loads(capsys.readouterr().out)["issues"]) <= {"unrelated"}
    assert run(*given, "--checks", "typo") == 2
    assert "typo" in capsys.readouterr().err


def test_placeholders_are_listed_as_suspects_and_on_the_page(tmp_path, capsys):
    random = np.random.default_rng(0)
    a = random.normal(size=(600, 16)).astype(np.float32)
    b = a + 0.3 * random.normal(size=a.shape).astype(np.float32)
    b[:120] = b[599]
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert run(tmp_path / "a.npy", tmp_path / "b.npy", "--out", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["issues"]["placeholder"]["claimed"]
    with open(tmp_path / "out" / "suspects.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "placeholder" in row["issues"]]
    assert {int(row["row"]) for row in rows} >= set(range(120)) and {row["score"] for row in rows[:50]} == {""}


def test_random_marks_recalibrate_all_pairs(columns, capsys):
    folder, wrong = columns
    given = [folder / "a.npy", folder / "b.npy", "--out", folder / "out"]
    assert run(*given) == 0
    marked = np.random.default_rng(5).permutation(400)[:60]
    lines = [f"{row},{row},{'wrong' if wrong[row] else 'keep'}\n" for row in marked]
    (folder / "review.csv").write_text("row,id,mark\n" + "".join(lines))
    capsys.readouterr()
    assert run("--review", folder / "review.csv", "--out", folder / "out", "--json") == 0
    review = json.loads(capsys.readouterr().out)
    assert review["recalibrated"] and abs(review["noise_rate"] - wrong.mean()) < 0.08
    with open(folder / "out" / "reviewed.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 400 and sum(row["mark"] != "" for row in rows) == 60
    assert run(*given, "--review", folder / "review.csv", "--force") == 0
    assert "Recalibrated to your marks" in capsys.readouterr().out


def test_drop_bad_still_works_and_names_its_successor(columns, capsys):
    folder, _ = columns
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--drop-bad") == 0
    assert "--skip-invalid" in capsys.readouterr().err


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
    assert "20 pairs are near-duplicates of others, in 10 clusters" in capsys.readouterr().out


def test_ids_may_be_lines_of_text(columns, capsys):
    folder, _ = columns
    (folder / "ids.txt").write_text("".join(f"name {i}\n" for i in range(400)))
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--ids", folder / "ids.txt") == 0
    assert (folder / "out" / "audit.csv").read_text().splitlines()[7].startswith("name 6,")
    (folder / "ids.txt").write_text("one\n")
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "2", "--ids", folder / "ids.txt") == 2
    assert "ids must have one item per pair: expected 400, got 1" in capsys.readouterr().err
    (folder / "empty").mkdir()
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "2", "--ids", folder / "empty") == 2
    assert "is a folder: name a file with one value per pair" in capsys.readouterr().err


@pytest.fixture
def small_folder(tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(400, 16)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", a + 0.3 * random.normal(size=a.shape).astype(np.float32))
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_review_that_is_no_file_is_told_before_the_work(small_folder, capsys):
    os.mkfifo(small_folder / "review.csv")
    assert (
        run(
            small_folder / "a.npy",
            small_folder / "b.npy",
            "--out",
            small_folder / "out",
            "--review",
            small_folder / "review.csv",
        )
        == 2
    )
    assert "review.csv is not a regular file" in capsys.readouterr().err and not (small_folder / "out").exists()


def test_results_that_another_command_wrote_meanwhile_stay(small_folder, capsys, monkeypatch):
    from rince.audit.encode import columns

    done = columns.audit_pairs

    def slow(*arguments, **options):
        (small_folder / "out" / "audit.csv").write_text("of another command")
        return done(*arguments, **options)

    monkeypatch.setattr(columns, "audit_pairs", slow)
    assert run(small_folder / "a.npy", small_folder / "b.npy", "--out", small_folder / "out") == 2
    assert "audit.csv already exists" in capsys.readouterr().err
    assert (small_folder / "out" / "audit.csv").read_text() == "of another command"


def test_a_folder_that_takes_no_files_is_told_before_the_work(small_folder, capsys, monkeypatch):

    def refuse(place):
        raise FileError(f"{place} cannot be written to (Permission denied)")

    monkeypatch.setattr("rince.commands.audit.check_writable", refuse)
    monkeypatch.setattr(
        "rince.audit.encode.columns.audit_pairs", lambda *arguments, **options: pytest.fail("it has begun")
    )
    assert run(small_folder / "a.npy", small_folder / "b.npy", "--out", small_folder / "out") == 2
    assert "out cannot be written to (Permission denied)" in capsys.readouterr().err
    assert not (small_folder / "out").exists()


@pytest.fixture
def shards(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    random = np.random.default_rng(0)
    a = random.normal(size=(2000, 8)).astype(np.float32)
    b = (a + 0.7 * random.normal(size=a.shape)).astype(np.float32)[wrong_pairs(2000, 0.3, 0)[0]]
    for number, rows in enumerate(np.split(np.arange(2000), [700, 1300])):
        columns = {"image": list(a[rows]), "text": list(b[rows]), "id": rows, "source": np.where(rows % 2, "x", "y")}
        parquet.write_table(arrow.table(columns), tmp_path / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COLUMNS = ["audit", "*.parquet:image", "*.parquet:text"]


def test_the_same_command_on_two_processes(shards, capsys):
    dask = pytest.importorskip("dask")
    ranks.context()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        compare_with_one_process(shards, capsys)


def compare_with_one_process(shards, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    options = ["--ids", "id", "--groups", "source"]
    assert main([*COLUMNS, *options, "--out", "here", "--table", "parquet"]) == 0
    here = capsys.readouterr().out
    assert main([*COLUMNS, *options, "--out", "there", "--workers", "2"]) == 0
    there = capsys.readouterr().out
    said = [line for line in there.split("written")[0].splitlines() if "Checked on a sample" not in line]
    assert said == here.split("written")[0].splitlines()
    assert len(list((shards / "there" / "audit.parquet").iterdir())) == 3
    one, other = (json.loads((shards / name / "audit.json").read_text()) for name in ("here", "there"))
    assert one["noise_rate"] == other["noise_rate"] and one["flagged"] == other["flagged"] > 300
    assert one["fingerprint"] == other["fingerprint"] and one["fingerprint"]["rows"] == 2000
    assert [group["rate"] for group in one["groups"]] == [group["rate"] for group in other["groups"]]
    tables = [parquet.read_table(shards / name / "audit.parquet") for name in ("here", "there")]
    assert tables[0]["flagged"].equals(tables[1]["flagged"]) and tables[0]["id"].to_pylist() == list(range(2000))
    (shards / "review.csv").write_text("row,id,mark\n0,0,keep\n")
    assert main(["audit", "--review", "review.csv", "--out", "there"]) == 0, "it is read back like any other"
    assert "1 pair reviewed" in capsys.readouterr().out
    assert np.allclose(read_weights("there", 2000), 1 - tables[0]["p_wrong"].to_numpy())


@pytest.mark.parametrize(
    "options, message",
    [
        (["--workers", "2", "--near-duplicates"], "--near-duplicates is for audits on one machine"),
        (["--workers", "2", "--scheduler", "tcp://x:1"], "not allowed with"),
        (["--workers", "2", "--table", "csv"], "leave out --table csv"),
        (["--workers", "0"], "at least 1, got 0"),
    ],
)
def test_what_a_cluster_cannot_do_is_one_sentence(shards, capsys, options, message):
    assert main([*COLUMNS, *options]) == 2
    assert message in capsys.readouterr().err and not (shards / "audit").exists()
