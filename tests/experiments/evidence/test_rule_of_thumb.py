import importlib
import json

import pytest

from experiments.evidence.rule_of_thumb import combined, main
from rince.errors import UsageError


def record(task, noise="mismatched pairs", **means):
    """Means by loss at rates 0 and 0.4; the temperature is the mean over 1000."""
    cells = [
        {"loss": loss.replace("_", "-"), "rate": rate, "temperature": mean / 1000, "mean": mean, "seeds": 3}
        for loss, values in means.items()
        for rate, mean in zip((0.0, 0.4), values, strict=False)
    ]  # fmt: skip
    return {"task": task, "metric": "R@1", "noise": noise, "command": f"rince compare {task}", "cells": cells}


ONE = record("one", infonce=(80, 40), gce_1=(60, 50), dcl=(90, 1))
TWO = record("two", infonce=(50,), gce_1=(40,))


def test_scores_are_relative_to_the_best_loss():
    rows = {(row["rate"], row["loss"]): row for row in combined([ONE, TWO])["rows"]}
    assert rows[0.0, "infonce"]["score"] == pytest.approx((80 / 90 + 1) / 2, abs=1e-4)
    assert rows[0.0, "gce-1"]["score"] == pytest.approx((60 / 90 + 40 / 50) / 2, abs=1e-4)
    assert (0.0, "dcl") not in rows  # not measured on both
    assert rows[0.4, "gce-1"]["score"] == 1 and rows[0.4, "gce-1"]["means"] == {"one": 50}
    assert rows[0.0, "infonce"]["temperature"] == 0.05
    assert rows[0.4, "gce-1"]["class"] == "GCE" and rows[0.4, "gce-1"]["arguments"] == {"q": 1.0}


def test_different_kinds_of_noise_are_not_mixed():
    with pytest.raises(UsageError, match="flipped labels and mismatched pairs"):
        combined([ONE, record("three", "flipped labels", infonce=(1, 2))])


def test_the_command_writes_what_recommend_reads(tmp_path, monkeypatch, capsys):
    module = importlib.import_module("rince.audit.recommend")
    labels = record("labels", "flipped labels", infonce=(9, 8), gce_1=(8, 7))
    for name, one in (("a", ONE), ("b", TWO), ("c", labels)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(one))
    out = tmp_path / "table.json"
    assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out)]) == 0
    assert main([str(tmp_path / "c"), "--out", str(out)]) == 0, "the table of the other kind stays"
    written = json.loads(out.read_text())
    assert written["pairs"]["command"].startswith("python -m experiments rule-of-thumb")
    assert len(written["pairs"]["tasks"]) == 2 and len(written["labels"]["tasks"]) == 1
    monkeypatch.setattr(module, "tables", lambda: written)
    assert module.recommend(0.5).loss == "GCE" and module.recommend(0.0).loss == "InfoNCE"
    assert module.recommend(0.5, labels=True).loss == "InfoNCE"


def test_a_folder_without_a_comparison_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"summary\.json does not exist"):
        main([str(tmp_path)])
