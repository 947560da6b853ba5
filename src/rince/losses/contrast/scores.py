"""What passes from a contrast to an objective: the scores of every anchor, and what else an objective asks for."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor

from rince.errors import UsageError, WrongType


class Scores(NamedTuple):
    """What a loss sees, one value per anchor.

    Args:
        positive: The score of the anchor's positive pair, a cosine over the temperature.
        negatives: The log-sum-exp of the scores of its negatives; ``-inf`` where it has none.
        number: How many negatives it has.
        second: A second reduction over its negatives, for objectives that ask for one (``Second``).

    Example:
        >>> scores = rince.CrossView()(torch.randn(8, 4), torch.randn(8, 4), temperature=0.2)
        >>> scores.positive.shape, scores.number[0]
        (torch.Size([16]), tensor(7.))
    """

    positive: Tensor
    negatives: Tensor
    number: Tensor
    second: Tensor | None = None


class Second(NamedTuple):
    """A second reduction over the negatives of an anchor, taken in the same walk over the scores as the first.

    Args:
        kind: ``"tilted"``: the logarithm of the mean of exp(score), weighted by exp(beta score), so that hard negatives
            count for more. ``"softplus"``: the sum of log(1 + exp(score + shift)). ``"bag"``: the log-sum-exp over the
            candidates that share the anchor's id, its positive among them and itself not.
        beta: Of ``"tilted"``.
        shift: Of ``"softplus"``: a scalar tensor, which gets its gradient.

    Example:
        >>> Second("tilted", beta=1.0).kind
        'tilted'
    """

    kind: Literal["tilted", "softplus", "bag"]
    beta: float = 0.0
    shift: Tensor | None = None


class Objective:
    """The loss of an anchor as a function of its scores, element by element, and what it needs for that.

    Args:
        function: From ``Scores`` to one loss per anchor.
        second: The second reduction that ``scores.second`` shall hold; ``None`` if it is not used.
        one_positive: Whether the objective has no meaning where an anchor has several positives and the others stand
            among its negatives, as in ``Supervised``.

    Example:
        InfoNCE in which negatives count for more the harder they are:

        >>> def hard(scores):
        ...     return torch.nn.functional.softplus(scores.second + scores.number.log() - scores.positive)
        >>> objective = rince.losses.Objective(hard, rince.losses.Second("tilted", beta=0.5))
        >>> loss = rince.ContrastiveLoss(objective, temperature=0.2)
    """

    def __init__(self, function: Callable[[Scores], Tensor], second: Second | None = None, one_positive: bool = False):
        self.function, self.second, self.one_positive = function, second, one_positive

    def __call__(self, scores: Scores) -> Tensor:
        return self.function(scores)


def as_objective(function: Any) -> Objective:
    """Functions of ``Scores`` and functions of ``(positive, negatives)`` as objectives; an objective as it is.

    Raises:
        WrongType: if it cannot be called.
        UsageError: if it needs neither one nor two arguments.
    """
    if isinstance(function, Objective):
        return function
    if not callable(function):
        raise WrongType(
            f"objective must be a function of (positive, negatives) or of Scores, got {type(function).__name__}"
        )
    needed = _needed_arguments(function)
    if needed not in (1, 2):
        raise UsageError(
            f"objective must take (positive, negatives), or Scores alone, but needs {needed} arguments: "
            "bind the others with functools.partial or give them defaults"
        )
    return Objective(function if needed == 1 else partial(_of_two, function))


def refuse_second(second: Second | None, contrast: str) -> None:
    """For contrasts that have the two halves of a loss only."""
    if second is not None:
        raise UsageError(f"{contrast} computes no second reduction over negatives: use TwoView, CrossView or Queue")


def _of_two(function: Callable[[Tensor, Tensor], Tensor], scores: Scores) -> Tensor:
    return function(scores.positive, scores.negatives)


def _needed_arguments(function: Callable[..., Any]) -> int:
    """How many positional arguments a function cannot do without; two where it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
