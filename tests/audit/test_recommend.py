import pytest

import rince
from rince.audit.recommend import recommend, table


def test_the_table_covers_rates_data_and_settings_and_names_its_command():
    rows = table()["rows"]
    assert {row["rate"] for row in rows} == {0.0, 0.1, 0.2, 0.4, 0.6}
    assert all({"q", "r", "digits", "spoken", "score"} <= set(row) for row in rows)
    assert "benchmarks/recommend.py" in table()["command"]


@pytest.mark.parametrize("rate", [0.0, 0.09, 0.33, 0.6, 1.0])
def test_advice_is_the_best_row_at_the_nearest_rate(rate):
    advice = recommend(rate)
    nearest = min((row["rate"] for row in table()["rows"]), key=lambda known: abs(known - rate))
    rows = [row for row in table()["rows"] if row["rate"] == nearest]
    mine = next(row for row in rows if row["q"] == advice.q and row["r"] == advice.lam.r)
    assert mine["score"] == max(row["score"] for row in rows) and "rule of thumb" in advice.reason
    assert "both at temperature 0.1, which was not tuned for either; 2 seeds" in advice.reason
    rince.RINCE(advice.q, advice.lam, advice.temperature, scale=advice.scale)
    assert (advice.temperature, advice.scale) == (table()["temperature"], table()["scale"]) == (0.1, "unit")


def test_noise_wants_a_larger_q_than_none():
    assert recommend(0.4).q > recommend(0.0).q


def test_a_rate_outside_is_refused():
    with pytest.raises(ValueError, match="noise rate"):
        recommend(1.5)
