"""Explanation of a first batch that fails: the shapes of the data, and those that the encoder expects."""

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from rince.losses import ContrastiveLoss
from rince.methods.cross_modal import CrossModal
from rince.methods.finetune import FineTune
from rince.methods.graphcl import GraphCL
from rince.views.views import ClipBatch, ImageBatch, PairBatch

BATCHES = (ImageBatch, PairBatch, ClipBatch)
KINDS = {"CrossModal": "pairs", "GraphCL": "graphs"}  # what a method learns from, where it is not images

# Inputs of convolutions over one, two and three dimensions.
SIZES = {1: ("sounds", "samples"), 2: ("images", "height", "width"), 3: ("clips", "frames", "height", "width")}


class FirstBatch(Callback):
    """Keeps the first batch during its step, to explain a failure.

    Nothing is tried in advance: that would cost time, and change random numbers and statistics.
    """

    def __init__(self) -> None:
        self.batch: Any = None
        self._done = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch = None if self._done else batch

    def on_train_batch_end(self, *args: Any) -> None:
        self.batch, self._done = None, True

    def problem(self, trainer: Trainer, method: Any, data: Any) -> str | None:
        """One sentence; None if views and encoder accept the batch, so that something else failed."""
        if self.batch is None:
            return None
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            return shape_problem(method.eval(), data, self.batch)


class Side(NamedTuple):
    """One side: its name in the configuration, the items, their augmentation, and the encoder."""

    name: str
    items: Any
    recipe: Any
    encoder: nn.Module


def shape_problem(method: Any, data: Any, batch: Any) -> str | None:
    """Follow a few items from the data through the views to the encoder, up to the step that fails."""
    giver = type(data).__name__
    try:
        sides = list(sides_of(method, batch))
    except AttributeError:
        wanted = KINDS.get(type(method).__name__, "images")
        given = f"batches of {', '.join(batch._fields)}" if isinstance(batch, BATCHES) else f"a {type(batch).__name__}"
        return f"{type(method).__name__} learns from {wanted}, but {giver} gives {given}: set data, or method"
    for side in sides:
        if (problem := _problem(side, giver)) is not None:
            return problem.told + (": are a and b swapped?" if _swapped(sides) else f": {problem.advice}")
    if not isinstance(method.loss, ContrastiveLoss) and not isinstance(method, FineTune):
        taken = f"{type(method).__name__} calls its loss with the embeddings of both views"
        return f"{taken}, which {type(method.loss).__name__} does not take: set loss, such as RINCE"
    return None


def sides_of(method: Any, batch: Any) -> Iterator[Side]:
    views, encoder = method.views, method.encoder
    if isinstance(method, CrossModal):
        yield Side("a", batch.a[:2], views.a, encoder.a)
        yield Side("b", batch.b[:2], views.b, encoder.b)
    elif isinstance(method, GraphCL):
        _ = batch.edge_index
        yield Side("", batch, None, encoder)
    else:
        items = method.items(batch) if isinstance(method, FineTune) else batch.images
        yield Side("", items[:2], views, encoder)


class Problem(NamedTuple):
    """What does not fit, and what to do about it."""

    told: str
    advice: str


def _problem(side: Side, giver: str) -> Problem | None:
    where = f"side {side.name}: " if side.name else ""
    suffix = f".{side.name}" if side.name else ""
    view = side.items
    if side.recipe is not None:
        try:
            view = side.recipe.plain(side.items)
        except Exception as error:
            recipe = type(side.recipe).__name__
            told = f"{where}{giver} gives {shape(side.items)}, which {recipe} cannot take ({_first_line(error)})"
            return Problem(told, f"set views{suffix}")
    try:
        side.encoder(view)
    except Exception as error:
        through = "" if side.recipe is None else f", through {type(side.recipe).__name__} {shape(view)}"
        expected, width = expectation(side.encoder, view)
        expected = expected or f"something else ({_first_line(error)})"
        told = (
            f"{where}{giver} gives {shape(side.items)}{through}, and {type(side.encoder).__name__} expects {expected}"
        )
        return Problem(told, _advice(side, f"encoder{suffix}", width))
    return None


def _swapped(sides: list[Side]) -> bool:
    """Whether each side would take what the other one got."""
    if len(sides) != 2:
        return False
    a, b = sides
    return all(_problem(one._replace(items=other.items), "") is None for one, other in ((a, b), (b, a)))


def shape(items: Any) -> str:
    """What an item looks like, without the length of the batch."""
    if not isinstance(items, Tensor):
        return f"graphs with {items.x.shape[1]} features per node"
    sizes = " x ".join(map(str, items.shape[1:]))
    if items.dim() == 2:
        return f"rows of {sizes} numbers"
    return f"{'bytes' if items.dtype == torch.uint8 else 'numbers'} {sizes}"


def expectation(encoder: nn.Module, view: Any) -> tuple[str | None, bool]:
    """What the first layer of an encoder takes that a view is not, and whether the two differ in width alone."""
    for layer in encoder.modules():
        if isinstance(layer, nn.modules.conv._ConvNd):
            return _expected(view, layer.in_channels, "channels", SIZES[len(layer.kernel_size)])
        if isinstance(layer, nn.Linear):
            return _expected(view, layer.in_features, "numbers")
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return _expected(view, layer.num_features, "numbers")
    return None, True


def _expected(view: Any, width: int, unit: str, sizes: tuple[str, ...] = ()) -> tuple[str | None, bool]:
    if not isinstance(view, Tensor):
        return f"{width} {unit}", True
    if sizes and view.dim() != 1 + len(sizes):
        return f"{sizes[0]} of " + " x ".join([f"{width} {unit}", *sizes[1:]]), False
    given = view if sizes else view.flatten(1)  # a linear layer at the start takes all numbers of an item
    return (None, False) if given.shape[1] == width else (f"{width} {unit}", True)


def _advice(side: Side, option: str, width: bool) -> str:
    known = inspect.signature(type(side.encoder).__init__).parameters
    taken = [name for name in ("channels", "in_features", "widths") if name in known]
    return f"set {option}.{taken[0]}" if taken and width else f"choose another {option}, or other views"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
