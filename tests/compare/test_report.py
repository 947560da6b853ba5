import pytest

from rince.compare.report import summarize, write_report


def result(loss, rate, temperature, seed, validation, test):
    settings = {"loss": loss, "rate": rate, "temperature": temperature, "seed": seed}
    return {"settings": settings, "validation": validation, "test": test}


RESULTS = [
    *(result("infonce", 0.0, 0.1, seed, 70, 70 + seed) for seed in range(3)),
    *(result("infonce", 0.0, 0.2, seed, 60, 99) for seed in range(3)),
    *(result("infonce", 0.4, 0.1, seed, 40, 40) for seed in range(3)),
    *(result("gce-1", 0.0, 0.1, seed, 70, 69 + seed) for seed in range(3)),
    *(result("gce-1", 0.4, 0.1, seed, 60, 60) for seed in range(3)),
    *(result("rince-0.5", 0.0, 0.1, seed, 50, 55) for seed in range(3)),
    *(result("rince-0.5", 0.4, 0.1, seed, 50, 58) for seed in range(3)),
]


@pytest.fixture
def summary():
    return summarize("toy", "R@1", "mismatched pairs", RESULTS)


def test_temperature_is_chosen_on_validation(summary):
    cell = summary.cells["infonce", 0.0]
    assert cell.temperature == 0.1 and cell.mean == 71 and cell.deviation == 1 and cell.seeds == 3


def test_advice_lists_losses_without_significant_difference(summary):
    # At 0 the differences of InfoNCE and GCE are 1, 1, 1 and those of InfoNCE and RINCE 15, 16, 17.
    assert summary.not_worse(0.0) == [] and summary.not_worse(0.4) == []
    close = [*RESULTS, *(result("dcl", 0.0, 0.1, seed, 70, 71 - seed) for seed in range(3))]
    assert summarize("toy", "R@1", "mismatched pairs", close).not_worse(0.0) == ["dcl"]


def test_advice_names_the_best_at_each_rate_and_the_safest(summary):
    first, second, safest = summary.advice()
    assert "0 % mismatched pairs, InfoNCE at temperature 0.1" in first and "71.0 ± 1.0 %" in first
    assert "40 % mismatched pairs, GCE q 1 at temperature 0.1" in second
    assert "GCE q 1, at most 1.0 points below the best" in safest and "1.0 points below InfoNCE" in safest


def test_fewer_than_three_seeds_give_no_verdict():
    few = summarize("toy", "R@1", "mismatched pairs", [r for r in RESULTS if r["settings"]["seed"] < 2])
    assert "2 seeds" in few.advice()[-1] and "--seeds 3" in few.advice()[-1]
    assert not any("no significant difference" in line for line in few.advice())


def test_report_is_written_if_drawing_fails(summary, tmp_path, monkeypatch):
    monkeypatch.setattr("rince.compare.report.figure", lambda summary: 1 / 0)
    assert "comparison.png" not in write_report(summary, RESULTS, tmp_path, "rince compare a b")
    assert "Which loss" in (tmp_path / "comparison.html").read_text("utf-8")


def test_report_that_fails_midway_leaves_the_earlier_one(summary, tmp_path, monkeypatch):
    write_report(summary, RESULTS, tmp_path, "rince compare a b")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("rince.compare.report.comparison_page", lambda *parts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(summary, RESULTS[:-1], tmp_path, "rince compare a b --seeds 2")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_tune_seeds_choose_the_temperature_and_all_seeds_are_reported():
    results = [
        *(result("infonce", 0.0, t, 0, validation, 50) for t, validation in ((0.1, 60), (0.2, 70))),
        *(result("infonce", 0.0, 0.2, seed, 10, 50 + seed) for seed in (1, 2)),
    ]
    cell = summarize("toy", "R@1", "mismatched pairs", results, tune_seeds=1).cells["infonce", 0.0]
    assert (cell.temperature, cell.mean, cell.seeds) == (0.2, 51, 3)
    assert summarize("toy", "R@1", "mismatched pairs", results).cells["infonce", 0.0].temperature == 0.1


def test_losses_without_results_at_every_rate_are_not_recommended():
    some = summarize("toy", "R@1", "mismatched pairs", [*RESULTS, result("dcl", 0.4, 0.1, 0, 99, 99)])
    assert ", DCL at" in some.advice()[1] and "unknown noise rate: GCE q 1" in some.advice()[2]
    none = summarize("toy", "R@1", "noise", [result("dcl", 0.4, 0.1, 0, 9, 9), result("sce", 0.0, 0.1, 0, 9, 9)])
    assert any("no loss has results at every rate" in line for line in none.advice())
