"""Graph isomorphism network: sums over neighbours, a small MLP a layer, and the sum over nodes of every layer."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class GINLayer(nn.Module):
    """``MLP(x + sum of the neighbours' x)``, then ReLU and batch norm.

    The MLP's first linear map is taken before the sum, which is the same and cheaper: features of a hundred columns
    become 32 before they travel along the edges.
    """

    def __init__(self, in_features: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(in_features, width)
        self.second = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        mapped = nn.functional.linear(x, self.first.weight)
        summed = mapped.index_add(0, target, mapped.index_select(0, source)) + self.first.bias
        return self.norm(self.second(summed.relu()).relu())


class GIN(nn.Module):
    """Features [graphs, layers * width] of a PyG batch: every layer's nodes summed over each graph, side by side."""

    def __init__(self, in_features: int, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        for name, value in (("in_features", in_features), ("width", width), ("layers", layers)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.layers = nn.ModuleList(GINLayer(in_features if i == 0 else width, width) for i in range(layers))
        self.in_features = in_features
        self.out_features = layers * width
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, batch: "Batch") -> Tensor:
        x, graphs, pooled = batch.x, len(batch.ptr) - 1, []
        if x.shape[1] != self.in_features:
            raise ValueError(f"this GIN takes {self.in_features} features a node, the graphs have {x.shape[1]}")
        for layer in self.layers:
            x = layer(x, batch.edge_index)
            pooled.append(x.new_zeros(graphs, x.shape[1]).index_add(0, batch.batch, x))
        return torch.cat(pooled, 1)


class Pooled(nn.Module):
    """Any PyG network that maps ``(x, edge_index)`` to node features, summed or averaged over each graph."""

    def __init__(self, network: nn.Module, out_features: int, mean: bool = False) -> None:
        super().__init__()
        self.network, self.out_features, self.mean = network, out_features, mean

    def forward(self, batch: "Batch") -> Tensor:
        nodes = self.network(batch.x, batch.edge_index)
        graphs = nodes.new_zeros(len(batch.ptr) - 1, nodes.shape[1]).index_add(0, batch.batch, nodes)
        return graphs / batch.ptr.diff().clamp(min=1)[:, None] if self.mean else graphs
