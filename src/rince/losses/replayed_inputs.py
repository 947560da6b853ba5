"""The inputs of an encoder, of which rows can be taken, and which a second pass has to find as they were."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from rince.errors import UsageError


class Inputs:
    """Arguments of an encoder: those with rows are taken in chunks, the others go whole into every chunk."""

    def __init__(self, inputs: Any):
        self.args, self.kwargs = arguments(inputs)
        self.values = [*self.args, *self.kwargs.values()]
        self.tensors = [x for x in self.values if isinstance(x, Tensor)]
        lengths = [len(x) for x in self.values if _has_rows(x)]
        if not lengths:
            raise UsageError(f"inputs must hold a tensor or a list with one row per pair, got {type(inputs).__name__}")
        if len(set(lengths)) > 1:
            raise UsageError(f"all inputs of an encoder must have one row per pair, got {sorted(set(lengths))} rows")
        self.length = lengths[0]
        self.versions = [(x, x._version) for x in _tensors_in(self.values) if not x.is_inference()]

    def __len__(self) -> int:
        return self.length

    def call(self, encoder: Callable[..., Tensor], rows: slice, pieces: Sequence[Tensor] = ()) -> Tensor:
        """Encode some rows; ``pieces`` stand in for the tensors that want a gradient, or for their rows."""
        new = iter(pieces)

        def take(value: Any) -> Any:
            if pieces and isinstance(value, Tensor) and value.requires_grad:
                return next(new)
            return value[rows] if _has_rows(value) else value

        return encoder(*[take(value) for value in self.args], **{name: take(x) for name, x in self.kwargs.items()})

    def refuse_gradients_inside(self) -> None:
        """Tensors inside of other inputs reach the encoder, but no gradient would find its way back to them."""
        for value in self.values:
            if not isinstance(value, Tensor) and any(x.requires_grad for x in _tensors_in([value])):
                raise UsageError(
                    f"a tensor inside of a {type(value).__name__} wants a gradient, which rince.cached gives only to "
                    "tensors that are arguments of their own: give it as one, or give its .detach()"
                )

    def check_unchanged(self) -> None:
        """Raises where a tensor was written to since the first pass: the second one would encode something else."""
        for x, version in self.versions:
            if x._version != version:
                raise UsageError(
                    f"an input of rince.cached, {tuple(x.shape)} of {x.dtype}, was changed in place before the "
                    "backward pass, which encodes it again: change a copy, or call backward first"
                )


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of what a user gives for one side of the pairs."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs, {}) if isinstance(inputs, tuple) else ((inputs,), {})


def rows_of(tensor: Tensor, rows: slice) -> Tensor:
    """Some rows; a tensor of one number has none and stays whole."""
    return tensor[rows] if tensor.dim() else tensor


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.dim() > 0)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in lists, tuples and mappings, at any depth."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_in(part)
