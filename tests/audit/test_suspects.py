import csv
import dataclasses

import numpy as np

from rince.audit import Issue, audit_pairs
from rince.audit.save import MIN_SUSPECTS
from support.made_up_audit import made_up_audit


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_suspects_come_first_with_flags_issue_names_and_texts(tmp_path):
    result, _ = made_up_audit()
    scores = np.zeros(len(result), np.float32)
    scores[1500] = 1
    shifted = Issue(
        name="shifted", claimed=True, scores=scores, count=1, examples=np.array([1500]), explanation="one row"
    )
    result = dataclasses.replace(result, issues={"shifted": shifted})
    texts = [f"text {row}" for row in range(len(result))]
    result.save(tmp_path, show_b=texts, columns=("question", "answer"))
    rows, flagged = read(tmp_path / "suspects.csv"), result.flag(0.1)
    assert list(rows[0]) == ["row", "id", "score", "p_wrong", "flagged", "issues", "answer"]
    assert [int(row["row"]) for row in rows[: len(flagged)]] == flagged.tolist()
    assert [row["flagged"] for row in rows].count("1") == len(flagged)
    assert rows[0]["issues"] == "unrelated" and rows[0]["answer"] == f"text {flagged[0]}"
    assert next(row for row in rows if row["row"] == "1500")["issues"] == "shifted"
    assert len(rows) == len(result)


def test_pairs_are_ranked_although_the_audit_cannot_tell(tmp_path):
    random = np.random.default_rng(0)
    result = audit_pairs(random.normal(size=(300, 8)), random.normal(size=(300, 8)), checks=None)
    assert not result.noise_found
    result.save(tmp_path)
    rows = read(tmp_path / "suspects.csv")
    scores = [float(row["score"]) for row in rows]
    assert len(rows) == 300 and scores == sorted(scores) and {row["flagged"] for row in rows} == {"0"}


def test_the_list_is_bounded_and_holds_all_suspects(tmp_path):
    result, _ = made_up_audit(n=60_000, rate=0.4)
    result.save(tmp_path, force=True)
    assert len(read(tmp_path / "suspects.csv")) == len(result.suspects()[0]) > MIN_SUSPECTS
    result, _ = made_up_audit(n=60_000, rate=0.0)
    result.save(tmp_path, force=True)
    assert len(read(tmp_path / "suspects.csv")) == MIN_SUSPECTS


def test_cells_that_a_spreadsheet_would_run_are_escaped(tmp_path):
    result, _ = made_up_audit(n=100)
    texts = ["\n=1+1", "＝cmd()"] * 50
    result.save(tmp_path, ids=[f"=id{row}" for row in range(100)], show_a=texts)
    assert all(row["id"].startswith("'=") and row["a"].startswith("'") for row in read(tmp_path / "suspects.csv"))


def test_columns_named_like_ours_are_called_a_and_b(tmp_path):
    result, _ = made_up_audit(n=100)
    texts = ["x"] * 100
    result.save(tmp_path, show_a=texts, show_b=texts, columns=("id", "text"))
    assert list(read(tmp_path / "suspects.csv")[0])[-2:] == ["a", "b"]
