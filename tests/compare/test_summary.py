import pytest

from rince.compare.summary import summarise


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
    return summarise("toy", "R@1", "mismatched pairs", RESULTS)


def test_the_temperature_is_chosen_on_the_validation_part_not_on_the_test(summary):
    cell = summary.cells["infonce", 0.0]
    assert cell.temperature == 0.1 and cell.mean == 71 and cell.deviation == 1 and cell.seeds == 3


def test_losses_within_the_spread_are_level_and_others_are_not(summary):
    assert summary.level(0.0) == ["infonce", "gce-1"] and summary.level(0.4) == ["gce-1"]


def test_advice_names_the_best_at_each_rate_and_the_safest(summary):
    first, second, safest = summary.advice()
    assert first.startswith("0% mismatched pairs: InfoNCE") and "not told apart from it: GCE q 1" in first
    assert second.startswith("40% mismatched pairs: GCE q 1 at t 0.1")
    assert safest.startswith("If the rate is unknown: GCE q 1, at most 1.0 points behind the best;")
    assert safest.endswith("without added noise it costs 1.0 against InfoNCE.")


def test_only_the_seeds_that_tune_choose_the_temperature_and_all_seeds_are_counted():
    results = [
        *(result("infonce", 0.0, t, 0, validation, 50) for t, validation in ((0.1, 60), (0.2, 70))),
        *(result("infonce", 0.0, 0.2, seed, 10, 50 + seed) for seed in (1, 2)),
    ]
    cell = summarise("toy", "R@1", "mismatched pairs", results, tune_seeds=1).cells["infonce", 0.0]
    assert (cell.temperature, cell.mean, cell.seeds) == (0.2, 51, 3)
    assert summarise("toy", "R@1", "mismatched pairs", results).cells["infonce", 0.0].temperature == 0.1


def test_losses_that_lack_a_rate_are_no_advice_for_an_unknown_rate():
    some = summarise("toy", "R@1", "mismatched pairs", [*RESULTS, result("dcl", 0.4, 0.1, 0, 99, 99)])
    assert some.advice()[1].startswith("40% mismatched pairs: DCL") and "unknown: GCE q 1" in some.advice()[2]
    none = summarise("toy", "R@1", "noise", [result("dcl", 0.4, 0.1, 0, 9, 9), result("sce", 0.0, 0.1, 0, 9, 9)])
    assert "no loss has been measured at every rate" in none.advice()[-1]
