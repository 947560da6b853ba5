"""Losses by short names: ``infonce``, ``rince-0.5``, ``rince-0.1-r2.5``, ``gce-1``, each also with ``+trust``."""

import re
from dataclasses import dataclass, field
from typing import Any

from rince.errors import UsageError

TRUST = "+trust"
# First word of a name: (class, how it is written, its number if it has one, default of that number)
KINDS: dict[str, tuple[str, str, str | None, float]] = {
    "infonce": ("InfoNCE", "InfoNCE", None, 0.0),
    "rince": ("RINCE", "RINCE", "q", 0.5),
    "gce": ("GCE", "GCE", "q", 1.0),
    "dcl": ("DCL", "DCL", None, 0.0),
    "sce": ("SymmetricCrossEntropy", "Symmetric CE", None, 0.0),
    "debiased": ("Debiased", "Debiased", "tau_plus", 0.1),
    "hard": ("HardNegatives", "Hard negatives", "beta", 1.0),
    "sigmoid": ("Sigmoid", "Sigmoid", "bias", 10.0),  # written without its minus
}


@dataclass(frozen=True)
class LossName:
    """A loss without its temperature.

    Attributes:
        name: What the user wrote, such as ``"rince-0.5+trust"``.
        label: How a table writes it, such as ``"RINCE q 0.5, trust"``.
        kind: The class in ``rince``, such as ``"RINCE"``.
        arguments: Its arguments beside temperature and contrast, as a configuration has them.
        trust: Whether pairs are weighted by an audit.

    Example:
        >>> rince.compare.parse_loss("gce-1").build(temperature=0.2, contrast=rince.CrossView()).q
        1.0
    """

    name: str
    label: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    trust: bool = False

    def part(self, temperature: float) -> dict[str, Any]:
        """For a configuration: class path and arguments."""
        return {"class_path": f"rince.{self.kind}", "init_args": {**self.arguments, "temperature": temperature}}

    def build(self, temperature: float, contrast: Any = None) -> Any:
        """The loss itself."""
        from rince.losses.named import named_loss

        return named_loss(self.kind, self.arguments, temperature, contrast)


def parse_loss(name: str) -> LossName:
    """The loss that a short name stands for.

    Args:
        name: ``infonce``, ``dcl``, ``sce``, ``gce[-Q]``, ``rince[-Q][-rR]`` (lam = R / (R + K); a bare ``rince-Q`` has
            R = 1, "balanced"), ``rince-Q-lamL``, ``debiased[-TAU]``, ``hard[-BETA][-tauT]`` (debiased, T = 0.1, unless
            T is 0), ``sigmoid[-B]`` (a learned bias that begins at -B); with ``+trust`` behind it, pairs are weighted.

    Returns:
        The loss, its arguments and its label.

    Raises:
        UsageError: if no loss has that name.

    Example:
        >>> parse_loss("rince-0.1-r2.5").label
        'RINCE q 0.1, r 2.5'
    """
    plain, trust = name.removesuffix(TRUST), name.endswith(TRUST)
    kind, *numbers = plain.split("-")
    if kind not in KINDS:
        raise UsageError(f"there is no loss '{name}' to compare; there are {', '.join(KINDS)}, each also with {TRUST}")
    class_name, label, parameter, default = KINDS[kind]
    arguments: dict[str, Any] = {}
    if parameter is not None:
        given = _number(numbers.pop(0), name) if numbers and numbers[0][:1] not in ("r", "l", "t") else default
        arguments[parameter] = -given if kind == "sigmoid" else given
        label = f"{label} {parameter} {arguments[parameter]:g}"
    if kind == "rince":
        lam, said = _lam(numbers.pop(0), name) if numbers else ("balanced", "")
        arguments |= {"lam": lam, "scale": "unit"}
        label += said
    if kind == "hard":
        tau = _number(numbers.pop(0)[3:], name) if numbers and numbers[0].startswith("tau") else 0.1
        arguments["tau_plus"] = tau
        label += f", tau_plus {tau:g}"
    if numbers:
        raise UsageError(f"'{name}' says more than {kind} understands: '{numbers[0]}' is left over")
    return LossName(name, label + (", trust" if trust else ""), class_name, arguments, trust)


def _lam(text: str, name: str) -> tuple[Any, str]:
    """The value of ``r2.5`` or ``lam0.01``, and how a table writes it."""
    if text.startswith("lam"):
        lam = _number(text[3:], name)
        return lam, f", lam {lam:g}"
    if not text.startswith("r"):
        raise UsageError(f"'{name}' says more than rince understands: '{text}' is left over")
    r = _number(text[1:], name)
    return ("balanced", "") if r == 1 else ({"class_path": "rince.DensityRatio", "init_args": {"r": r}}, f", r {r:g}")


def _number(text: str, name: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise UsageError(f"'{text}' in the loss '{name}' is not a number")
    return float(text)
