"""What the page of an audit holds, before it is shown."""

import json

import numpy as np

from rince.audit.output.groups import group_rates, group_texts
from rince.report.audit_page import MOST_MEDIA, MOST_ROWS, audit_data
from rince.report.gallery import Arrays, Texts
from support.made_up_audit import made_up_audit


def test_the_page_of_many_pairs_stays_small():
    result, _ = made_up_audit(n=1_500_000, rate=0.4)
    data = audit_data(result, "many", 0.1, str)
    assert len(data["rows"]["id"]) == MOST_ROWS and data["cut"] == 1_400_000
    assert len(data["stops"]) <= 402 and data["stops"][-1]["count"] == len(result.suspects()[0])
    assert len(json.dumps(data)) < 6_000_000


def test_long_texts_and_many_pictures_have_bounded_room(tmp_path):
    result, _ = made_up_audit(n=50_000)
    images = np.zeros((50_000, 4, 4), np.float32)
    data = audit_data(result, "long", 0.1, str, Texts(["x" * 5000] * 50_000), Arrays(images))
    assert sum(map(len, data["rows"]["a"])) < 32_000_000
    assert sum(item is not None for item in data["rows"]["b"]) == MOST_MEDIA


def test_rows_of_the_page_know_their_groups():
    result, _ = made_up_audit(n=300)
    groups = np.where(np.arange(300) < 100, "a", "b")
    data = audit_data(result, "groups", 0.1, str, groups=(group_texts(groups), group_rates(result, groups)))
    names = [data["group_names"][code] for code in data["rows_group"]]
    assert names == [groups[row] for row in data["rows"]["row"]]


def test_pairs_without_names_do_not_share_marks_with_those_of_other_data():
    keys = {audit_data(made_up_audit(n=300, seed=seed)[0], "t", 0.1, str)["key"] for seed in (0, 1)}
    assert len(keys) == 2
    named = {audit_data(made_up_audit(n=300, seed=s)[0], "t", 0.1, "pair{}".format)["key"] for s in (0, 1)}
    assert len(named) == 1, "pairs with names keep their marks when they are scored anew"
