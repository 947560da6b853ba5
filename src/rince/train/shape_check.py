"""Explanation of a first step that fails: which of data, views and encoder does not fit the others."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rince._support.command_errors import first_line
from rince.losses import ContrastiveLoss
from rince.methods.cross_modal import CrossModal
from rince.methods.finetune import FineTune
from rince.methods.graphcl import GraphCL
from rince.views.views import ClipBatch, ImageBatch, PairBatch


@torch.no_grad()
def shape_problem(method: Any, data: Any) -> str | None:
    """Sentence about the first part that rejects a training batch; None if all parts accept it.

    Not called before training: that would cost time, and change random numbers and statistics.
    """
    try:
        batch = next(iter(data.train_dataloader()))
    except Exception:  # the data failed, not the parts that take its batches
        return None
    method.float().eval()  # in one precision, regardless of that of the training
    data_name = type(data).__name__
    try:
        sides = list(_sides(method, batch))
    except AttributeError:
        items = {CrossModal: "pairs", GraphCL: "graphs"}.get(type(method), "images")
        fields = isinstance(batch, ImageBatch | PairBatch | ClipBatch)
        content = f"batches of {', '.join(batch._fields)}" if fields else f"a {type(batch).__name__}"
        return f"{type(method).__name__} learns from {items}, but {data_name} gives {content}: set data, or method"
    for name, items, recipe, encoder in sides:
        where, suffix = (f"side {name}: ", f".{name}") if name else ("", "")
        path, view = f"{where}{data_name} gives {_shape(items)}", items
        if recipe is not None:
            try:
                view = recipe.plain(items)
            except Exception as error:
                return (
                    f"{path}, which {type(recipe).__name__} cannot take ({first_line(error)[:200]}): set views{suffix}"
                )
            path += f", through {type(recipe).__name__} {_shape(view)}"
        try:
            encoder(view)
        except Exception as error:
            problem = f"{path}, and {type(encoder).__name__} rejects it ({first_line(error)[:200]})"
            return f"{problem}: set encoder{suffix}, views{suffix} or data"
    if not isinstance(method.loss, ContrastiveLoss) and not isinstance(method, FineTune):
        return (
            f"{type(method).__name__} calls its loss with the embeddings of both views, which "
            f"{type(method.loss).__name__} does not take: set loss, such as RINCE"
        )
    return None


def _sides(method: Any, batch: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, items, views and encoder of every side of a batch."""
    if isinstance(method, CrossModal):
        for name in "ab":
            yield name, getattr(batch, name)[:2], getattr(method.views, name), getattr(method.encoder, name)
    elif isinstance(method, GraphCL):
        _ = batch.edge_index
        yield "", batch, None, method.encoder
    else:
        items = method.items(batch) if isinstance(method, FineTune) else batch.images
        yield "", items[:2], method.views, method.encoder


def _shape(items: Any) -> str:
    """Shape of an item, without the batch."""
    if not isinstance(items, Tensor):
        return f"graphs with {items.x.shape[1]} features per node"
    sizes = " x ".join(map(str, items.shape[1:]))
    if items.dim() == 2:
        return f"rows of {sizes} numbers"
    return f"{'bytes' if items.dtype == torch.uint8 else 'numbers'} {sizes}"
