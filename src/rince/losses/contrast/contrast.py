"""What all contrasts share: the checks at the door, unit embeddings in full precision, and the way to a loss."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from rince.errors import UsageError, WrongType
from rince.losses.contrast.scores import Objective, Second


class Contrast(nn.Module):
    """Who is whose positive, and who is whose negative: the base class of all contrasts.

    A subclass has a ``forward(a, b, temperature, labels, ids)`` that returns ``Scores``. To serve objectives that ask
    for a second reduction, it takes ``second`` as well. ``rince.losses.contrast.kernel`` has the sums over negatives,
    and ``rince.losses.contrast.gather`` the embeddings of other processes.

    Example:
        Negatives are the other side's items, and nothing is tiled or gathered:

        >>> class Plain(rince.losses.Contrast):
        ...     def forward(self, a, b, temperature, labels=None, ids=None):
        ...         scores = nn.functional.normalize(a) @ nn.functional.normalize(b).T / temperature
        ...         others = scores.masked_fill(torch.eye(len(a), dtype=torch.bool), -torch.inf)
        ...         return rince.losses.Scores(scores.diag(), others.logsumexp(1), torch.full((len(a),), len(a) - 1.0))
        >>> a, b = torch.randn(2, 8, 4)
        >>> own = rince.InfoNCE(contrast=Plain())(a, b)
        >>> bool(torch.isclose(own, rince.InfoNCE(contrast=rince.CrossView(symmetric=False))(a, b)))
        True
    """

    _settings: ClassVar[tuple[str, ...]] = ()  # what all processes of a call have to give the same of

    def losses(
        self,
        objective: Objective,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The loss of every anchor of this process, and which anchors count (``None``: all)."""
        if objective.second is None:
            return objective(self(a, b, temperature, labels, ids)), None
        return objective(self(a, b, temperature, labels, ids, objective.second)), None


def check_second(second: Second | None, ids: Tensor | None) -> None:
    """Bags of positives need ids."""
    if second is not None and second.kind == "bag" and ids is None:
        raise UsageError("this objective takes bags of positives from ids, got none: call loss(z1, z2, ids=ids)")


def check_pair(a: Tensor, b: Tensor | None) -> Tensor:
    """Two matrices of embeddings, one pair per row; returns the second."""
    if b is None:
        raise UsageError("this contrast compares two views: call loss(z1, z2)")
    for name, z in (("first", a), ("second", b)):
        if not isinstance(z, Tensor):
            raise WrongType(f"the {name} embeddings must be a tensor, got {type(z).__name__}")
        check_dense(name, z)
        if not z.is_floating_point():
            raise WrongType(f"the {name} embeddings must be floating point, got {z.dtype}: convert them with .float()")
        if z.dim() != 2:
            raise UsageError(f"the {name} embeddings must have the shape (pairs, width), got {tuple(z.shape)}")
        if z.shape[1] == 0:
            raise UsageError(f"the {name} embeddings must be at least 1 wide, got {tuple(z.shape)}")
    if a.shape != b.shape:
        raise UsageError(f"the two embeddings must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.device != b.device:
        raise UsageError(f"the two embeddings must live on one device, got {a.device} and {b.device}")
    return b


def check_dense(name: str, z: Tensor) -> None:
    """Refuses what is no plain matrix of numbers in memory."""
    if z.is_nested:
        kind, way_out = "nested", "stack rows of the same width"
    elif z.is_quantized:
        kind, way_out = "quantised", "convert them with .dequantize()"
    elif z.layout != torch.strided:
        kind, way_out = str(z.layout), "convert them with .to_dense()"
    else:
        return
    raise WrongType(f"the {name} embeddings must be a dense tensor, got a {kind} one: {way_out}")


def check_per_pair(name: str, values: Tensor | None, a: Tensor) -> Tensor | None:
    """One integer per pair (ids, labels), as int64 on the device of the embeddings."""
    if values is None:
        return None
    if not isinstance(values, Tensor):
        raise WrongType(f"{name} must be a tensor of integers, got {type(values).__name__}")
    if values.is_floating_point() or values.is_complex():
        raise WrongType(f"{name} must be integers, got {values.dtype}")
    if values.shape != a.shape[:1]:
        raise UsageError(f"{name} must have one value per pair: expected ({a.shape[0]},), got {tuple(values.shape)}")
    return values.to(a.device, torch.int64)


def precision(*tensors: Tensor) -> torch.dtype:
    """What scores are taken in: float32, or float64 where that is given."""
    return torch.float64 if any(z.dtype == torch.float64 for z in tensors) else torch.float32


def unit(z: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Rows of length one, in float32 or better, from rows of any length; a row of zeros stays, without gradient."""
    z = z.to(dtype or precision(z))
    # Squares of very large or small numbers do not fit into a float32; the direction does not depend on the scale.
    largest = z.detach().abs().amax(1, keepdim=True)
    largest = largest.masked_fill(largest < torch.finfo(z.dtype).tiny, torch.inf)
    return nn.functional.normalize(z / largest, dim=1)


def over_temperature(temperature: float | Tensor, *embeddings: Tensor) -> list[Tensor]:
    """Unit rows over the root of the temperature, so that the product of two is a score."""
    dtype = precision(*embeddings)
    return [unit(z, dtype) * temperature**-0.5 for z in embeddings]


def scaled_pair(
    a: Tensor, b: Tensor | None, temperature: float | Tensor, ids: Tensor | None, second: Second | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Both sides as unit rows over the root of the temperature, and the ids; all of them checked."""
    b = check_pair(a, b)
    ids = check_per_pair("ids", ids, a)
    check_second(second, ids)
    a, b = over_temperature(temperature, a, b)
    return a, b, ids


def bound_of(temperature: float | Tensor) -> float | None:
    """The largest score there can be, where the temperature is a number that can be looked at for nothing."""
    return None if isinstance(temperature, Tensor) else 1 / temperature


def count_different(keys: Tensor, others: Tensor) -> Tensor:
    """For every key, how many of the others differ from it."""
    ordered = others.sort().values
    same = torch.searchsorted(ordered, keys, right=True) - torch.searchsorted(ordered, keys)
    return others.shape[0] - same
