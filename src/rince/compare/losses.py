"""Losses by short names (``infonce``, ``rince-0.5``, ``gce-1+trust``) or by class path (``my_module.MyLoss``)."""

import importlib
import inspect
import re
from dataclasses import dataclass, field
from typing import Any

from rince.errors import UsageError
from rince.losses.schedules import Schedule, linear

TRUST = "+trust"
# First word of a name: (class, label, numeric parameter if any, default of that parameter)
KINDS: dict[str, tuple[str, str, str | None, float]] = {
    "infonce": ("InfoNCE", "InfoNCE", None, 0.0),
    "rince": ("RINCE", "RINCE", "q", 0.5),
    "gce": ("GCE", "GCE", "q", 1.0),
    "dcl": ("DCL", "DCL", None, 0.0),
    "sce": ("SymmetricCrossEntropy", "Symmetric CE", None, 0.0),
    "debiased": ("Debiased", "Debiased", "tau_plus", 0.1),
    "hard": ("HardNegatives", "Hard negatives", "beta", 1.0),
    "sigmoid": ("Sigmoid", "Sigmoid", "bias", 10.0),  # the minus sign is omitted in the name
}


@dataclass(frozen=True)
class LossName:
    """A loss of a comparison, without its temperature.

    Attributes:
        name: Short name or class path, such as ``"rince-0.5+trust"`` or ``"my_module.MyLoss"``.
        label: Name in tables, such as ``"RINCE q 0.5, trust"``.
        kind: Class in ``rince``, such as ``"RINCE"``, or class path.
        arguments: Arguments besides temperature and contrast, as in a configuration.
        trust: Whether pairs are weighted by an audit.
        q_range: First and last value of a q that grows linearly during training, or ``None``.

    Example:
        >>> rince.compare.parse_loss("gce-1").build(temperature=0.2, contrast=rince.CrossView()).q
        1.0
    """

    name: str
    label: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    trust: bool = False
    q_range: tuple[float, float] | None = None

    @property
    def schedule(self) -> Schedule | None:
        """Schedule of q; ``None`` if q is constant."""
        return None if self.q_range is None else linear(*self.q_range)

    def part(self, temperature: float) -> dict[str, Any]:
        """Class path and arguments for a configuration."""
        path = self.kind if "." in self.kind else f"rince.{self.kind}"
        return {"class_path": path, "init_args": {**self.arguments, "temperature": temperature}}

    def build(self, temperature: float, contrast: Any = None) -> Any:
        """Construct the loss, a module called with two batches of embeddings and, optionally, ``weights``."""
        if "." not in self.kind:
            from rince.losses import named_loss

            return named_loss(self.kind, self.arguments, temperature, contrast)
        kind = _class_at(self.kind)
        parameters = inspect.signature(kind).parameters
        options = {"temperature": temperature, "contrast": contrast}
        return kind(**{name: value for name, value in options.items() if name in parameters and value is not None})


def parse_loss(name: str) -> LossName:
    """Parse the name of a loss.

    Args:
        name: ``infonce``, ``dcl``, ``sce``, ``gce[-Q]``, ``rince[-Q][-rR]`` (lam = R / (R + K); default R = 1,
            "balanced"), ``rince-Q-lamL``, ``debiased[-TAU]``, ``hard[-BETA][-tauT]`` (debiased with T = 0.1 by
            default), ``sigmoid[-B]`` (learned bias, starting at -B), or the class path of a loss. ``Q`` may be a range:
            ``rince-0.01:0.4`` increases q linearly. The suffix ``+trust`` weights the pairs by an audit.

    Returns:
        The loss, its arguments and its label.

    Raises:
        UsageError: If the name is unknown.

    Example:
        >>> parse_loss("rince-0.1-r2.5").label
        'RINCE q 0.1, r 2.5'
        >>> parse_loss("rince-0.01:0.4").label
        'RINCE q 0.01 to 0.4'
    """
    plain, trust = name.removesuffix(TRUST), name.endswith(TRUST)
    suffix = ", trust" if trust else ""
    kind, *numbers = plain.split("-")
    if kind not in KINDS and re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", plain):
        return LossName(name, plain + suffix, plain, trust=trust)
    if kind not in KINDS:
        raise UsageError(
            f"unknown loss '{name}': choose {', '.join(KINDS)} (each also with {TRUST}), or give a class path such as "
            "my_module.MyLoss"
        )
    class_name, label, parameter, default = KINDS[kind]
    arguments: dict[str, Any] = {}
    q_range = None
    if parameter is not None:
        number = numbers.pop(0) if numbers and numbers[0][:1] not in ("r", "l", "t") else f"{default}"
        if parameter == "q" and ":" in number:
            first, last = (_number(text, name) for text in number.split(":", 1))
            q_range, value, formatted = (first, last), last, f"{first:g} to {last:g}"
        else:
            value = -_number(number, name) if kind == "sigmoid" else _number(number, name)
            formatted = f"{value:g}"
        arguments[parameter] = value
        label = f"{label} {parameter} {formatted}"
    if kind == "rince":
        lam, said = _lam(numbers.pop(0), name) if numbers else ("balanced", "")
        arguments |= {"lam": lam, "scale": "unit"}
        label += said
    if kind == "hard":
        tau = _number(numbers.pop(0)[3:], name) if numbers and numbers[0].startswith("tau") else 0.1
        arguments["tau_plus"] = tau
        label += f", tau_plus {tau:g}"
    if numbers:
        raise UsageError(f"cannot read the loss '{name}': '{numbers[0]}' is left over after {kind}")
    return LossName(name, label + suffix, class_name, arguments, trust, q_range)


def _class_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise UsageError(f"cannot import the loss '{path}': {error}") from error
    except AttributeError:
        raise UsageError(f"cannot import the loss '{path}': the module {module} has no {name}") from None
    if not inspect.isclass(kind):
        raise UsageError(f"the loss '{path}' must be a class, got {type(kind).__name__}")
    return kind


def _lam(text: str, name: str) -> tuple[Any, str]:
    """Value of ``r2.5`` or ``lam0.01``, and its label in tables."""
    if text.startswith("lam"):
        lam = _number(text[3:], name)
        return lam, f", lam {lam:g}"
    if not text.startswith("r"):
        raise UsageError(f"cannot read the loss '{name}': '{text}' is left over after rince")
    r = _number(text[1:], name)
    return ("balanced", "") if r == 1 else ({"class_path": "rince.DensityRatio", "init_args": {"r": r}}, f", r {r:g}")


def _number(text: str, name: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise UsageError(f"cannot read the loss '{name}': '{text}' is not a number")
    return float(text)
