"""`rince clean` from the outside: after an audit, the pairs that it found right, and partners for the others."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from rince import cli
from rince.audit import audit_pairs
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import read_weights

N = 400


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    random = np.random.default_rng(0)
    z = random.normal(size=(N, 16)).astype(np.float32)
    a, b = (z + 0.2 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(N, 0.3, 0)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b[partner])
    np.savez(folder / "both.npz", a=a, b=b[partner], ids=np.array([f"pair {i}" for i in range(N)]))
    found = audit_pairs(a, b[partner])
    found.save(folder / "audit", ids=[f"pair {i}" for i in range(N)])
    return folder, found, wrong, np.argsort(partner)


def clean(folder, *options, a="a.npy", b="b.npy", out="clean"):
    given = [str(folder / a), str(folder / b), "--audit", str(folder / "audit"), "--out", str(folder / out)]
    return cli.main(["clean", *given, *options])


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_flagged_pairs_are_left_out_and_nothing_is_overwritten(audited, capsys):
    folder, found, _, _ = audited
    assert clean(folder) == 0
    kept = np.setdiff1d(np.arange(N), found.flag(0.1))
    for name in ("a", "b"):
        assert np.array_equal(np.load(folder / "clean" / f"{name}.npy"), np.load(folder / f"{name}.npy")[kept])
    pairs = rows_of(folder / "clean" / "decisions.csv")
    assert [int(row["row"]) for row in pairs if row["kept"] == "1"] == kept.tolist() and pairs[7]["id"] == "pair 7"
    assert f"{len(kept)} of {N} pairs kept, {N - len(kept)} dropped" in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in (folder / "clean").iterdir()}
    assert clean(folder) == 2
    assert "already exists: overwrite it with --force" in capsys.readouterr().err
    assert before == {path.name: path.read_bytes() for path in (folder / "clean").iterdir()}
    assert clean(folder, "--force") == 0


def test_a_threshold_of_trust_and_another_share_of_false_alarms(audited):
    folder, found, _, _ = audited
    assert clean(folder, "--keep-above", "0.7", out="above") == 0
    assert len(np.load(folder / "above" / "a.npy")) == ((1 - found.p_wrong) > 0.7).sum()
    assert clean(folder, "--fdr", "0.4", out="more") == 0
    assert len(np.load(folder / "more" / "a.npy")) < len(np.load(folder / "above" / "a.npy"))


def test_weights_are_added_instead(audited, capsys):
    folder, found, _, _ = audited
    assert clean(folder, "--weights", a="both.npz:a", b="both.npz:b", out="weighted") == 0
    new = np.load(folder / "weighted" / "both.npz")
    assert np.allclose(new["weight"], 1 - found.p_wrong, atol=1e-5) and len(new["a"]) == N
    assert "mean weight of" in capsys.readouterr().out
    assert clean(folder, "--weights", out="weighted-arrays") == 0
    assert np.allclose(np.load(folder / "weighted-arrays" / "weights.npy"), 1 - found.p_wrong, atol=1e-5)


def test_new_partners_are_listed_and_shown(audited, capsys, tmp_path):
    folder, _, wrong, where = audited
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"text {i} <script>\n" for i in range(N)))
    assert clean(folder, "--repair", "2", "--texts-b", str(texts), out="repaired") == 0
    rows = [row for row in rows_of(folder / "repaired" / "repair.csv") if row["rank"] == "1" and wrong[int(row["row"])]]
    assert len(rows) > 100
    assert np.mean([int(row["partner_row"]) == where[int(row["row"])] for row in rows]) > 0.95
    assert rows[0]["partner"] == f"pair {rows[0]['partner_row']}"
    page = (folder / "repaired" / "repair.html").read_text()
    assert f"text {rows[0]['partner_row']} \\u003cscript\\u003e" in page and "text 1 <script>" not in page
    assert f'"{rows[0]["row"]}":[{{"id":"{rows[0]["partner"]}"' in page, "on the page of the audit"
    assert "new partners for" in capsys.readouterr().out


def test_stopped_while_it_looks_for_partners_it_leaves_nothing(audited, monkeypatch, tmp_path):
    """Files that are there would keep the same command from being given again."""

    def stopped(*arguments, **options):
        assert (out.parent / ".stopped.new" / "a.npy").exists() and not out.exists()
        raise KeyboardInterrupt

    out = tmp_path / "stopped"
    monkeypatch.setattr("rince.trust.repair.best_partners", stopped)
    assert clean(audited[0], "--repair", "2", out=str(out)) == 130
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--fdr", "0.1", "--keep-above", "0.5"], "give either --fdr or --keep-above"),
        (["--fdr", "1.5"], "--fdr"),
        (["--keep-above", "1"], "--keep-above must lie in [0, 1), got 1.0"),
        (["--repair", "0"], "--repair must be at least 1 partner, got 0"),
        (["--audit", "nowhere"], "no audit in nowhere"),
        (["--out", "."], "would be replaced by its clean copy"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(audited, options, sentence, capsys, monkeypatch):
    folder = audited[0]
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert clean(folder, *options, out="bad") == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_an_audit_of_other_pairs_or_without_use_is_refused(audited, capsys, tmp_path):
    folder = audited[0]
    np.save(tmp_path / "a.npy", np.load(folder / "a.npy")[:-1])
    assert clean(folder, a=tmp_path / "a.npy", out="other") == 2
    assert f"has {N - 1} rows, the audit {N}: this is not the audit of these pairs" in capsys.readouterr().err
    (tmp_path / "audit.csv").write_bytes((folder / "audit" / "audit.csv").read_bytes())
    (tmp_path / "audit.json").write_text(json.dumps({"useless": True}))
    assert clean(folder, "--audit", str(tmp_path), out="other") == 2
    assert "its scores tell nothing about pairs" in capsys.readouterr().err
    assert not (folder / "other").exists()


@pytest.mark.parametrize("name", ["table.csv", "pairs.csv"])
def test_the_file_keeps_its_name(audited, name, tmp_path):
    rows = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(N))
    (tmp_path / name).write_text(rows)
    table = tmp_path / "audit.csv"  # without the record beside it, by which these pairs would be refused
    table.write_bytes((audited[0] / "audit" / "audit.csv").read_bytes())
    path, out = tmp_path / name, tmp_path / "out"
    assert cli.main(["clean", f"{path}:a", f"{path}:b", "--audit", str(table), "--out", str(out)]) == 0
    assert {file.name for file in out.iterdir()} == {name, "decisions.csv", "clean.json"}
    kept = [int(row["row"]) for row in rows_of(out / "decisions.csv") if row["kept"] == "1"]
    assert [int(row["a"]) for row in rows_of(out / name)] == kept


def test_files_of_others_in_the_folder_are_not_removed(audited, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert clean(audited[0], "--force", out=str(tmp_path)) == 2
    assert "mine.txt was not written by rince clean" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_table_that_does_not_belong_to_the_record_is_refused(audited, tmp_path, capsys):
    """Another audit may have left its table in the folder."""
    folder = tmp_path / "audit"
    folder.mkdir()
    (folder / "audit.csv").write_bytes((audited[0] / "audit" / "audit.csv").read_bytes())
    record = json.loads((audited[0] / "audit" / "audit.json").read_text())
    (folder / "audit.json").write_text(json.dumps(record | {"table": "audit.csv", "table_sha256": "0" * 64}))
    assert clean(audited[0], "--audit", str(folder), out=str(tmp_path / "out")) == 2
    assert "audit.csv is not the table" in capsys.readouterr().err
    (folder / "audit.json").write_text(json.dumps(record | {"table": "audit.parquet", "table_sha256": "0" * 64}))
    assert clean(audited[0], "--audit", str(folder), out=str(tmp_path / "out")) == 2
    assert "audit.parquet" in capsys.readouterr().err


def test_an_audit_with_impossible_chances_is_refused(audited, capsys, tmp_path):
    for chance in ("-inf", "5"):
        lines = "".join(f"{i},0.5,{chance if i == 3 else 0.1},0\n" for i in range(N))
        (tmp_path / "audit.csv").write_text(f"id,score,p_wrong,flagged\n{lines}")
        assert clean(audited[0], "--audit", str(tmp_path), out="impossible") == 2
        assert f"has {chance} as p_wrong in row 3: it must lie in [0, 1]" in capsys.readouterr().err


def test_an_array_is_no_audit(tmp_path, capsys):
    array = str(tmp_path / "a.npy")
    np.save(array, np.ones((60, 3)))
    assert cli.main(["clean", array, array, "--audit", array]) == 2
    assert "a.npy is not a table of rince audit: give the audit.csv" in capsys.readouterr().err


def two_audits(folder, data):
    """An audit that flags many pairs, then one that flags few, as another kind of table."""
    pytest.importorskip("pyarrow")
    audit_ = ["audit", str(data / "a.npy"), str(data / "b.npy"), "--out", str(folder / "audit")]
    assert cli.main([*audit_, "--fdr", "0.5"]) == 0
    stale = (folder / "audit" / "audit.csv").read_bytes()
    assert cli.main([*audit_, "--fdr", "0.001", "--table", "parquet", "--force"]) == 0
    return stale


def test_table_of_an_earlier_audit_decides_nothing(audited, tmp_path, capsys):
    data = audited[0]
    stale = two_audits(tmp_path, data)
    assert not (tmp_path / "audit" / "audit.csv").exists()
    (tmp_path / "audit" / "audit.csv").write_bytes(stale)  # as versions before 0.3 left it
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert record["table"] == "audit.parquet"
    assert clean(data, "--audit", str(tmp_path / "audit"), out=str(tmp_path / "out")) == 0
    assert len(np.load(tmp_path / "out" / "a.npy")) == N - record["flagged"]
    assert clean(data, "--audit", str(tmp_path / "audit" / "audit.csv"), out=str(tmp_path / "other")) == 2
    assert "audit.csv is not the table" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"audit\.csv is not the table"):
        read_weights(tmp_path / "audit" / "audit.csv", N)
    (tmp_path / "review.csv").write_text("row,id,mark\n0,0,keep\n")
    assert cli.main(["audit", "--review", str(tmp_path / "review.csv"), "--out", str(tmp_path / "audit")]) == 0
    assert json.loads((tmp_path / "audit" / "review.json").read_text())["flagged"] == record["flagged"]


KILLED = """
import os, signal, sys
left, replace = 1 - (sys.argv[2] == "clean"), os.replace

def counted(old, new):
    global left
    left -= str(new).startswith(sys.argv[1]) and ".results.new" not in str(new)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(old, new)

os.replace = counted
from rince import cli
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_kill_after_first_rename_leaves_complete_results(audited, tmp_path):
    data, out = audited[0], tmp_path / "clean"
    two_audits(tmp_path, data)
    assert clean(data, "--audit", str(tmp_path / "audit"), out=str(out)) == 0
    columns = [str(data / "a.npy"), str(data / "b.npy")]
    again = ["audit", *columns, "--out", str(tmp_path / "audit"), "--fdr", "0.5", "--force"]
    keep = ["clean", *columns, "--audit", str(tmp_path / "audit"), "--out", str(out), "--force"]
    for folder, command in ((tmp_path / "audit", again), (tmp_path / "clean", keep)):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(folder), *command], capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert clean(data, "--audit", str(tmp_path / "audit"), out=str(out)) == 2  # complete again: refuses to overwrite
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert record["fdr"] == 0.5
    assert len(np.load(out / "a.npy")) == len(np.load(out / "b.npy")) == N - record["flagged"]
    assert clean(data, "--audit", str(tmp_path / "audit"), "--force", out=str(out)) == 0
    assert sorted(os.listdir(tmp_path)) == ["audit", "clean"]
    files = set(os.listdir(tmp_path / "audit"))
    assert {"audit.csv", "audit.html", "audit.json"} <= files and "audit.parquet" not in files
    assert not any(name.startswith(".") for name in files)


@pytest.mark.parametrize("options", [["--link", "--copy"], ["--fit"], ["--seed", "3"]], ids=" ".join)
def test_options_without_effect_are_refused(audited, options, capsys):
    assert clean(audited[0], *options) == 2
    assert options[0] in capsys.readouterr().err
