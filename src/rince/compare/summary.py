"""From the results of all runs to a table, a figure and a word of advice."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rince.compare.losses import parse_loss

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A loss at a noise rate, at the temperature that did best on the validation part."""

    loss: str
    rate: float
    temperature: float
    mean: float
    deviation: float
    seeds: int


@dataclass(frozen=True)
class Summary:
    """All cells of a comparison, by loss and rate.

    Attributes:
        task: The name of the task.
        metric: What was measured.
        noise: What a noise rate is a rate of.
        cells: One per loss and noise rate.
        tune_seeds: As ``summarise`` was given it.

    Example:
        >>> settings = {"loss": "gce-1", "temperature": 0.2, "rate": 0.4, "seed": 0}
        >>> runs = [{"settings": settings, "validation": 65.0, "test": 66.0}]
        >>> print(rince.compare.summarise("digits", "R@1", "mismatched pairs", runs).advice()[0])
        40% mismatched pairs: GCE q 1 at t 0.2, R@1 66.0 ± 0.0.
    """

    task: str
    metric: str
    noise: str
    cells: dict[tuple[str, float], Cell]
    tune_seeds: int | None = None

    @property
    def losses(self) -> list[str]:
        """The losses that were compared, in their order."""
        return list(dict.fromkeys(loss for loss, _ in self.cells))

    @property
    def rates(self) -> list[float]:
        """The noise rates, rising."""
        return sorted({rate for _, rate in self.cells})

    def best(self, rate: float) -> Cell:
        """The cell with the highest mean at a noise rate."""
        return max((cell for cell in self.cells.values() if cell.rate == rate), key=lambda cell: cell.mean)

    def level(self, rate: float) -> list[str]:
        """The losses that are not behind the best one by more than both spread: they cannot be told apart."""
        best = self.best(rate)
        cells = [cell for cell in self.cells.values() if cell.rate == rate]
        return [c.loss for c in cells if best.mean - c.mean <= max(0.5, (best.deviation**2 + c.deviation**2) ** 0.5)]

    def advice(self) -> list[str]:
        """Sentences that a reader can act on: the best at every rate, and the loss that does well at all of them."""
        lines = []
        for rate in self.rates:
            best = self.best(rate)
            level = [parse_loss(name).label for name in self.level(rate) if name != best.loss]
            also = f"; not told apart from it: {', '.join(level)}" if level else ""
            lines.append(
                f"{rate:.0%} {self.noise}: {parse_loss(best.loss).label} at t {best.temperature:g}, "
                f"{self.metric} {best.mean:.1f} ± {best.deviation:.1f}{also}."
            )
        if len(self.rates) > 1:
            lines.append(self._whatever_the_rate())
        return lines

    def regret(self, loss: str) -> float:
        """The most that a loss loses against the best one, over all rates."""
        return max(self.best(rate).mean - self.cells[loss, rate].mean for rate in self.rates)

    def _whatever_the_rate(self) -> str:
        complete = [loss for loss in self.losses if all((loss, rate) in self.cells for rate in self.rates)]
        if not complete:
            return "If the rate is unknown: no loss has been measured at every rate yet."
        safest = min(complete, key=self.regret)
        name, regret = parse_loss(safest).label, self.regret(safest)
        text = f"If the rate is unknown: {name}, at most {regret:.1f} points behind the best"
        if ("infonce", 0.0) in self.cells and safest != "infonce":
            price = self.cells["infonce", 0.0].mean - self.cells[safest, 0.0].mean
            text += f"; without added noise it {'costs' if price > 0 else 'wins'} {abs(price):.1f} against InfoNCE"
        return f"{text}."


def chosen_temperatures(results: Sequence[Result], tune_seeds: int | None = None) -> dict[tuple[str, float], float]:
    """For every loss and rate, the temperature with the best validation mean.

    Args:
        results: As ``summarise`` takes them.
        tune_seeds: Only runs of the first so many seeds have a say; all of them if ``None``.
    """
    found: dict[tuple[str, float], dict[float, list[float]]] = {}
    for result in results:
        s = result["settings"]
        if tune_seeds is None or s["seed"] < tune_seeds:
            cell = found.setdefault((s["loss"], s["rate"]), {})
            cell.setdefault(s["temperature"], []).append(result["validation"])
    return {key: max(values, key=lambda t: statistics.fmean(values[t])) for key, values in found.items()}


def summarise(task: str, metric: str, noise: str, results: Sequence[Result], tune_seeds: int | None = None) -> Summary:
    """The summary of the runs that are there; of every loss and rate the temperature with the best validation mean.

    Args:
        task: The name of the task.
        metric: What was measured.
        noise: What a noise rate is a rate of.
        results: One per run, with ``settings`` (loss, temperature, rate, seed), ``validation`` and ``test``.
        tune_seeds: Temperatures are chosen on the validation parts of this number of seeds (``None``: of all).

    Returns:
        One cell per loss and rate, at its best temperature.

    Example:
        >>> settings = {"loss": "infonce", "temperature": 0.2, "rate": 0.0}
        >>> runs = [{"settings": settings | {"seed": s}, "validation": 70.0, "test": 70.0 + s} for s in range(3)]
        >>> rince.compare.summarise("digits", "R@1", "mismatched pairs", runs).best(0.0).mean
        71.0
    """
    cells = {}
    for (loss, rate), temperature in chosen_temperatures(results, tune_seeds).items():
        wanted = {"loss": loss, "rate": rate, "temperature": temperature}
        tests = [r["test"] for r in results if wanted.items() <= r["settings"].items()]
        deviation = statistics.stdev(tests) if len(tests) > 1 else 0.0
        cells[loss, rate] = Cell(loss, rate, temperature, statistics.fmean(tests), deviation, len(tests))
    return Summary(task, metric, noise, cells, tune_seeds)
