"""What the adapters share: an objective in the clothes of another library."""

from typing import Any, Literal

from rince.losses import GCE, RINCE, DensityRatio

Lam = float | DensityRatio | Literal["balanced"]


def rince_objective(q: float, lam: Lam, temperature: float, unit: bool) -> RINCE:
    """RINCE, by the argument ``unit`` instead of a scale, which means the inverse of a temperature elsewhere."""
    return RINCE(q, lam, temperature, scale="unit" if unit else "paper")


class WithQ:
    """A loss whose q can be read and set between steps."""

    contrastive: Any

    @property
    def q(self) -> float:
        return self.contrastive.q

    @q.setter
    def q(self, value: float) -> None:
        self.contrastive.q = value


def settings_of(contrastive: Any) -> dict[str, Any]:
    """The settings of an objective, for a record of the run."""
    if isinstance(contrastive, RINCE):
        lam = f"DensityRatio({contrastive.lam.r:g})" if isinstance(contrastive.lam, DensityRatio) else contrastive.lam
        return {"q": contrastive.q, "lam": lam, "unit": contrastive.scale == "unit"}
    return {"q": contrastive.q} if isinstance(contrastive, GCE) else {}
