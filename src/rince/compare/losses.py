"""Losses by short names: ``infonce``, ``rince-0.5``, ``rince-0.1-r2.5``, ``gce-1``, each also with ``+trust``."""

import re
from dataclasses import dataclass, field
from typing import Any

from rince.errors import UsageError

TRUST = "+trust"
KINDS = {  # first word of a name: (class, how it is written, its number, default of that number)
    "infonce": ("InfoNCE", "InfoNCE", None, None),
    "rince": ("RINCE", "RINCE", "q", 0.5),
    "gce": ("GCE", "GCE", "q", 1.0),
    "dcl": ("DCL", "DCL", None, None),
    "sce": ("SymmetricCrossEntropy", "Symmetric CE", None, None),
    "debiased": ("Debiased", "Debiased", "tau_plus", 0.1),
    "hard": ("HardNegatives", "Hard negatives", "beta", 1.0),
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
            R = 1, "balanced"), ``debiased[-TAU]``, ``hard[-BETA]``; with ``+trust`` behind it, pairs are weighted.

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
        arguments[parameter] = _number(numbers.pop(0), name) if numbers and numbers[0][:1] != "r" else default
        label = f"{label} {parameter} {arguments[parameter]:g}"
    if kind == "rince":
        ratio = _number(numbers.pop(0)[1:], name) if numbers and numbers[0][:1] == "r" else 1.0
        arguments |= {"lam": "balanced" if ratio == 1 else _ratio(ratio), "scale": "unit"}
        label += "" if ratio == 1 else f", r {ratio:g}"
    if numbers:
        raise UsageError(f"'{name}' says more than {kind} understands: '{numbers[0]}' is left over")
    return LossName(name, label + (", trust" if trust else ""), class_name, arguments, trust)


def _ratio(r: float) -> dict[str, Any]:
    return {"class_path": "rince.DensityRatio", "init_args": {"r": r}}


def _number(text: str, name: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise UsageError(f"'{text}' in the loss '{name}' is not a number")
    return float(text)
