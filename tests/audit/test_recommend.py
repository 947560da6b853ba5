import importlib

import pytest
import torch

import rince
from rince.audit.recommend import recommend, tables
from rince.errors import UsageError

module = importlib.import_module("rince.audit.recommend")  # the function of that name hides it in rince.audit


@pytest.mark.parametrize(
    ("kind", "rates", "losses"),
    [
        ("pairs", {0.0, 0.2, 0.4}, {"infonce", "gce-1", "rince-0.5"}),
        ("labels", {0.0, 0.4}, {"infonce", "gce-1", "rince-0.5-r5"}),
    ],
)
def test_a_table_has_every_loss_at_every_rate_and_names_its_commands(kind, rates, losses):
    table = tables()[kind]
    assert rates <= {row["rate"] for row in table["rows"]}
    for rate in {row["rate"] for row in table["rows"]}:
        assert losses <= {row["loss"] for row in table["rows"] if row["rate"] == rate}
    assert "rule-of-thumb" in table["command"]
    assert all("compare" in task["command"] and task["seeds"] >= 3 for task in table["tasks"])


def test_pairs_made_from_labels_have_advice_of_their_own():
    assert recommend(0.4).loss == "GCE" and recommend(0.4, labels=True).loss == "InfoNCE"
    assert "cifar10-label-noise" in recommend(0.4, labels=True).reason
    assert recommend(0.0, unknown=True, labels=True).loss == "InfoNCE"


@pytest.mark.parametrize("rate", [0.0, 0.09, 0.33, 0.6, 1.0])
def test_advice_is_the_best_row_at_the_nearest_rate(rate):
    advice = recommend(rate)
    nearest = min((row["rate"] for row in tables()["pairs"]["rows"]), key=lambda known: abs(known - rate))
    rows = [row for row in tables()["pairs"]["rows"] if row["rate"] == nearest]
    mine = next(row for row in rows if row["label"] == advice.label)
    assert mine["score"] == max(row["score"] for row in rows if row["trust"] == advice.trust)
    assert mine["score"] >= max(row["score"] for row in rows) - 0.02 and advice.temperature == mine["temperature"]
    assert "rule of thumb" in advice.reason and f"{nearest:.0%}" in advice.reason and "InfoNCE" in advice.reason


@pytest.fixture
def three_rates(monkeypatch):
    def row(rate, loss, score, kind="GCE", **arguments):
        return {"rate": rate, "loss": loss, "label": loss, "class": kind, "arguments": arguments, "trust": False,
                "temperature": 0.2, "score": score, "means": {"toy": 100 * score}}  # fmt: skip

    rows = [
        row(0.0, "infonce", 1.0, "InfoNCE"), row(0.0, "gce-1", 0.9, q=1.0), row(0.0, "gce-0.1", 0.95, q=0.1),
        row(0.2, "infonce", 0.6, "InfoNCE"), row(0.2, "gce-1", 0.97, q=1.0), row(0.2, "gce-0.1", 1.0, q=0.1),
        row(0.4, "infonce", 0.5, "InfoNCE"), row(0.4, "gce-1", 1.0, q=1.0), row(0.4, "gce-0.1", 0.7, q=0.1),
    ]  # fmt: skip
    tasks = [{"task": "toy", "metric": "R@1"}]
    table = {"noise": "mismatched pairs", "rows": rows, "tasks": tasks}
    monkeypatch.setattr(module, "tables", lambda: {"pairs": table})


def test_between_two_measured_rates_the_higher_one_counts(three_rates):
    assert recommend(0.09).loss == "InfoNCE" and recommend(0.3).label == "gce-1" and recommend(0.1).label == "gce-0.1"


@pytest.mark.parametrize(("score", "label"), [(1.01, "gce-1"), (1.05, "infonce+trust")])
def test_trust_is_recommended_only_where_it_is_clearly_ahead(three_rates, score, label):
    rows = module.tables()["pairs"]["rows"]
    rows.append({**rows[-1], "loss": "infonce+trust", "label": "infonce+trust", "trust": True, "score": score})
    advice = recommend(0.4)
    assert advice.label == label and advice.trust == ("trust" in label) == ("weighted by the audit" in advice.reason)


@pytest.mark.parametrize(("score", "label"), [(1.005, "infonce"), (1.02, "gce-1")])
def test_infonce_stays_where_no_other_loss_is_clearly_ahead(three_rates, score, label):
    next(row for row in module.tables()["pairs"]["rows"] if row["loss"] == "gce-1" and row["rate"] == 0)["score"] = (
        score
    )
    advice = recommend(0.0)
    assert advice.label == label and ("no other loss was clearly better" in advice.reason) == (label == "infonce")


def test_unknown_rate_recommends_the_smallest_worst_case(three_rates):
    advice = recommend(0.0, unknown=True)
    assert advice.label == "gce-1" and "unknown" in advice.reason and "at least 90%" in advice.reason


@pytest.mark.parametrize("row", range(9))
def test_every_loss_of_the_table_can_be_built(row):
    rows = [r for r in tables()["pairs"]["rows"] if r["rate"] == 0]
    r = rows[row % len(rows)]
    advice = module.Recommendation(r["class"], r["arguments"], r["temperature"], r["label"], r["trust"], "")
    z1, z2 = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    assert torch.isfinite(advice.build(rince.CrossView())(z1, z2))


def test_a_rate_outside_is_refused():
    with pytest.raises(UsageError, match="noise rate"):
        recommend(1.5)
