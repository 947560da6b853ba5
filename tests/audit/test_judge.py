"""Scores of any origin, judged."""

import json

import numpy as np
import pytest

from rince.audit import Scored, judge
from rince.report.audit_page import audit_data
from support.paired_embeddings import scores_and_null


def test_scores_of_any_origin_can_be_judged():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(0, 1, 400), random.normal(5, 1, 600)]).astype(np.float32)
    found = judge(Scored(scores, random.normal(0, 1, 50_000).astype(np.float32)))
    assert abs(found.noise_rate - 0.4) < 0.03


def test_own_scores_may_be_lists_and_are_called_so(tmp_path):
    scores, null = scores_and_null()
    found = judge(scores.tolist(), null.tolist())
    assert abs(found.noise_rate - 1 / 3) < 0.05
    assert "scored by your scores" in found.summary() and "cosine" not in found.summary()
    found.save(tmp_path)
    assert json.loads((tmp_path / "audit.json").read_text())["scored_by"] == "your scores"
    assert audit_data(found, "own", 0.1, str)["score"] == "your scores"


def test_scores_that_tell_nothing_ask_for_their_direction_not_for_fit():
    scores, null = scores_and_null()
    found = judge(-scores, null)
    assert found.useless and "higher must mean a better pair" in found.summary() and "fit=True" not in found.summary()


def test_scores_that_cannot_be_judged_are_refused():
    scores, null = scores_and_null()
    with pytest.raises(ValueError, match=r"scores must be finite, got nan in row 7"):
        judge(np.where(np.arange(300) == 7, np.nan, scores), null)
