"""Many graphs in one set of tensors, from which any batch is cut without a loop over graphs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from rince._support.optional_imports import require
from rince._support.ragged import offsets, spans
from rince.errors import UsageError

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data


@dataclass(eq=False)
class Graphs(Dataset[Any]):
    """A data set of graphs: the nodes and edges of all graphs are concatenated.

    Graph ``i`` owns the nodes ``node_ptr[i]:node_ptr[i + 1]`` and the edges ``edge_ptr[i]:edge_ptr[i + 1]``. Given to a
    ``DataLoader`` with ``collate_fn=list.pop`` or asked through :meth:`batch`, it gives PyG batches a hundred times
    faster than collating graphs one by one.

    Args:
        x: (nodes, features) of all graphs.
        edge_index: (2, edges); nodes count from 0 within each graph.
        node_ptr: (graphs + 1,) where the nodes of each graph start.
        edge_ptr: (graphs + 1,) where its edges start.
        y: (graphs,) classes from 0.
        edge_attr: (edges, features), where edges have any.
        name: Of the data set.

    Example:
        >>> from torch_geometric.data import Data
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> several = [Data(x=torch.ones(3, 1), edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
        >>> graphs = rince.data.Graphs.from_list(several)
        >>> len(graphs), graphs.num_classes, graphs.batch([0, 2]).num_nodes
        (4, 2, 6)
    """

    x: Tensor  # [nodes, features]
    edge_index: Tensor  # [2, edges], local
    node_ptr: Tensor  # [graphs + 1]
    edge_ptr: Tensor  # [graphs + 1]
    y: Tensor  # [graphs], 0 .. classes - 1
    edge_attr: Tensor | None = None  # [edges, features]
    name: str = "graphs"

    def __len__(self) -> int:
        return len(self.node_ptr) - 1

    @property
    def num_features(self) -> int:
        """Features of a node."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """How many classes the graphs have."""
        return int(self.y.max()) + 1 if len(self.y) else 0

    def batch(self, index: Tensor | Sequence[int] | None = None) -> "Batch":
        """The graphs ``index`` (all of them by default), in that order, as one PyG batch."""
        from torch_geometric.data import Batch

        if index is None:
            index = torch.arange(len(self))
        index = torch.as_tensor(index, dtype=torch.long)
        start, count = self.node_ptr[index], self.node_ptr[index + 1] - self.node_ptr[index]
        nodes, ptr = spans(start, count), offsets(count)
        edge_count = self.edge_ptr[index + 1] - self.edge_ptr[index]
        edges = spans(self.edge_ptr[index], edge_count)
        shift = torch.repeat_interleave(ptr[:-1], edge_count)
        optional = {} if self.edge_attr is None else {"edge_attr": self.edge_attr.index_select(0, edges)}
        return Batch(
            x=self.x.index_select(0, nodes),
            edge_index=self.edge_index.index_select(1, edges) + shift,
            y=self.y[index],
            batch=torch.repeat_interleave(count),
            ptr=ptr,
            ids=index,
            **optional,
        )

    def __getitem__(self, index: int) -> "Data":
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        index %= len(self)
        nodes = slice(int(self.node_ptr[index]), int(self.node_ptr[index + 1]))
        edges = slice(int(self.edge_ptr[index]), int(self.edge_ptr[index + 1]))
        return Data(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            y=self.y[index : index + 1],
        )

    def __getitems__(self, index: list[int]) -> "list[Batch]":
        # A DataLoader hands over the indices of a whole batch here; `collate` takes the batch out of its wrapping.
        return [self.batch(index)]

    @staticmethod
    def collate(batches: "list[Batch]") -> "Batch":
        """For a ``DataLoader`` that asks for whole batches: the batch itself."""
        return batches[0]

    def subset(self, index: Tensor | Sequence[int]) -> "Graphs":
        """The graphs ``index`` as a data set of their own; a graph may be asked for more than once."""
        batch = self.batch(index)
        edge_count = torch.bincount(batch.batch[batch.edge_index[0]], minlength=len(batch.y))
        shift = torch.repeat_interleave(batch.ptr[:-1], edge_count)
        return replace(
            self,
            x=batch.x,
            edge_index=batch.edge_index - shift,
            node_ptr=batch.ptr,
            edge_ptr=offsets(edge_count),
            y=batch.y,
            edge_attr=batch.get("edge_attr"),
        )

    @classmethod
    def from_list(cls, graphs: "Sequence[Data]", name: str = "graphs") -> "Graphs":
        """Any PyG data set or list of graphs, stored in one piece."""
        require("torch_geometric", "graph")
        if not len(graphs):
            raise UsageError("a data set needs at least one graph, got an empty list")
        first = graphs[0]
        x = torch.cat([_features(graph) for graph in graphs])
        edge_attr = None
        if first.edge_attr is not None:
            edge_attr = torch.cat([graph.edge_attr for graph in graphs])
        y = torch.cat([_label(graph) for graph in graphs])
        return cls(
            x=x,
            edge_index=torch.cat([graph.edge_index for graph in graphs], dim=1),
            node_ptr=offsets(torch.tensor([graph.num_nodes for graph in graphs])),
            edge_ptr=offsets(torch.tensor([graph.num_edges for graph in graphs])),
            y=y,
            edge_attr=edge_attr,
            name=name,
        )


def _features(graph: Any) -> Tensor:
    return torch.ones(graph.num_nodes, 1) if graph.x is None else graph.x.float()


def _label(graph: Any) -> Tensor:
    return torch.zeros(1, dtype=torch.long) if graph.y is None else graph.y.reshape(-1)[:1].long()
