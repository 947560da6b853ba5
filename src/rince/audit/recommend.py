"""Which q and lam to train with, given how many pairs are wrong: a rule of thumb, looked up in a measured table."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rince.losses import DensityRatio, Scale


class Recommendation(NamedTuple):
    """Arguments for ``rince.RINCE``, with the temperature and the scale they were measured with, and why."""

    q: float
    lam: DensityRatio
    temperature: float
    scale: Scale
    reason: str


@cache
def table() -> dict[str, Any]:
    """Retrieval by noise rate, q and r (lam = r / (r + K)) on each data set; see ``benchmarks/recommend.py``."""
    return json.loads(files("rince.audit").joinpath("rule_of_thumb.json").read_text(encoding="utf-8"))


def recommend(rate: float, useless: bool = False) -> Recommendation:
    """The best row of the table at the measured noise rate nearest to ``rate``."""
    if not 0 <= rate <= 1:
        raise ValueError(f"the noise rate must lie in [0, 1], got {rate}")
    rates = sorted({row["rate"] for row in table()["rows"]})
    if useless:
        rate = 0.0
    nearest = min(rates, key=lambda known: abs(known - rate))
    rows = [row for row in table()["rows"] if row["rate"] == nearest]
    best = max(rows, key=lambda row: row["score"])
    names = " and ".join(table()["data"])
    if useless:
        reason = f"rule of thumb: q {best['q']:g}, r {best['r']:g} as without noise, since the noise rate is unknown"
    else:
        reason = (
            f"rule of thumb: q {best['q']:g}, lam DensityRatio({best['r']:g}), the best at {nearest:.0%} wrong pairs "
            f"on {names}; it kept {best['score']:.0%} of the best retrieval there, InfoNCE {_plain(rows):.0%} "
            f"(both at temperature {table()['temperature']:g}, which was not tuned for either; {table()['seeds']} "
            "seeds, on which q and lam were chosen)"
        )
    return Recommendation(best["q"], DensityRatio(best["r"]), table()["temperature"], table()["scale"], reason)


def _plain(rows: list[dict[str, Any]]) -> float:
    return next(row["score"] for row in rows if row["q"] == 0)
