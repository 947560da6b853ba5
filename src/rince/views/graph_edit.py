"""What a view changes in a batch of graphs, and the batch after the change."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Batch


@dataclass
class Edit:
    """What a view changes in a batch of graphs; None where it changes nothing."""

    keep_node: Tensor | None = None  # [nodes] bool
    keep_edge: Tensor | None = None  # [edges] bool
    new_edge: Tensor | None = None  # [2, new edges]
    new_edge_from: Tensor | None = None  # [new edges]: the old edge whose attributes a new one takes over
    noisy: Tensor | None = None  # [nodes] bool
    noise: Tensor | None = None  # [noisy nodes, features]

    def __or__(self, other: "Edit") -> "Edit":
        """Both edits; they must concern different graphs."""
        noisy, noise = self.noisy, self.noise
        if other.noisy is not None and other.noise is not None:
            noisy, noise = other.noisy, other.noise
            if self.noisy is not None and self.noise is not None:
                noisy = self.noisy | other.noisy
                place = torch.cat((self.noisy.nonzero(), other.noisy.nonzero())).squeeze(1).argsort()
                noise = torch.cat((self.noise, other.noise))[place]
        return Edit(
            _both(self.keep_node, other.keep_node),
            _both(self.keep_edge, other.keep_edge),
            _one_after_the_other(self.new_edge, other.new_edge),
            _one_after_the_other(self.new_edge_from, other.new_edge_from),
            noisy,
            noise,
        )


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a & b


def _one_after_the_other(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else torch.cat((a, b), -1)


def apply(batch: "Batch", edit: Edit) -> "Batch":
    """A new batch with the edit carried out; node, edge and graph attributes all stay in step."""
    from torch_geometric.data import Batch

    x, edge_index, owner, ptr = batch.x, batch.edge_index, batch.batch, batch.ptr
    if edit.noise is not None and edit.noisy is not None:
        x = x.masked_scatter(edit.noisy[:, None], edit.noise)
    edges, nodes = _kept_edges(edge_index, edit), None
    if edit.new_edge is not None:
        edge_index = torch.cat((edge_index, edit.new_edge), 1)
    if edges is not None:
        edge_index = edge_index.index_select(1, edges)
    if edit.keep_node is not None:
        nodes = edit.keep_node.nonzero().squeeze(1)
        edge_index = (edit.keep_node.cumsum(0) - 1)[edge_index]
        x, owner = x.index_select(0, nodes), owner[nodes]
        ptr = torch.nn.functional.pad(torch.bincount(owner, minlength=len(ptr) - 1).cumsum(0), (1, 0))
    rest = _other_attributes(batch, nodes, edges, edit)
    return Batch(x=x, edge_index=edge_index, batch=owner, ptr=ptr, **rest)


def _kept_edges(edge_index: Tensor, edit: Edit) -> Tensor | None:
    """Which of the old and the new edges, in one row, are in the view; None for all the old ones."""
    if edit.keep_node is None and edit.keep_edge is None:
        return None
    keep = torch.ones(edge_index.shape[1], dtype=torch.bool, device=edge_index.device)
    if edit.keep_edge is not None:
        keep &= edit.keep_edge
    if edit.keep_node is not None:
        keep &= edit.keep_node[edge_index].all(0)
    kept = keep.nonzero().squeeze(1)
    if edit.new_edge is None:
        return kept
    fresh = torch.arange(edit.new_edge.shape[1], device=kept.device) + edge_index.shape[1]
    return torch.cat((kept, fresh))


def _other_attributes(batch: "Batch", nodes: Tensor | None, edges: Tensor | None, edit: Edit) -> dict[str, object]:
    rest: dict[str, object] = {}
    graphs = len(batch.ptr) - 1
    for key, value in batch.to_dict().items():
        if key in ("x", "edge_index", "batch", "ptr"):
            continue
        if isinstance(value, Tensor) and value.dim() and not (key in ("y", "ids") and len(value) == graphs):
            if edges is not None and batch.is_edge_attr(key):
                if edit.new_edge_from is not None:
                    value = torch.cat((value, value[edit.new_edge_from]))
                value = value.index_select(0, edges)
            elif nodes is not None and batch.is_node_attr(key):
                value = value.index_select(0, nodes)
        rest[key] = value
    return rest
