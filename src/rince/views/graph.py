"""Views of graphs: drop nodes, rewire edges, mask attributes, walk out a subgraph; on a whole PyG batch at once.

Every view has a ``rate``: the share of a graph's nodes (or edges) it touches, 0 leaving the graph as it is. What a
graph of n nodes loses is ``rate * n`` rounded up or down at random. Views describe what they change as an
:class:`Edit`, so that several views, each meant for other graphs of the batch, are carried out in one go.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.views.graph_edit import Edit, apply
from rince.views.graph_sampling import counts, distinct, pick, uniform
from rince.views.graph_walk import walk
from rince.views.views import Views

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class View(ABC):
    """A view says what to change in the graphs that ``chosen`` marks; called by itself it changes all of them."""

    @abstractmethod
    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        """What to change in the ``chosen`` [graphs] of a batch."""

    def __call__(self, batch: "Batch", generator: torch.Generator | None = None) -> "Batch":
        chosen = torch.ones(len(batch.ptr) - 1, dtype=torch.bool, device=batch.ptr.device)
        return apply(batch, self.edit(batch, chosen, generator))


class _Rated(View):
    """A view with a rate, which touches every graph when it is called by itself."""

    def __init__(self, rate: float) -> None:
        if not 0 <= rate < 1:
            raise UsageError(f"rate must lie in [0, 1), got {rate}")
        self.rate = rate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self.rate:g})"


class DropNodes(_Rated):
    """Drop ``rate`` of a graph's nodes, with their edges; one node is always left."""

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__(rate)

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        size = batch.ptr.diff()
        number = torch.minimum(counts(size, self.rate, generator), size - 1) * chosen
        return Edit(keep_node=~pick(batch.batch, number, generator))


class MaskAttributes(_Rated):
    """Replace the features of ``rate`` of a graph's nodes by noise N(mean, std)."""

    def __init__(self, rate: float = 0.1, mean: float = 0.5, std: float = 0.5) -> None:
        super().__init__(rate)
        self.mean, self.std = mean, std

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        number = counts(batch.ptr.diff(), self.rate, generator) * chosen
        noisy = pick(batch.batch, number, generator)
        source = batch.x.device if generator is None else generator.device
        noise = torch.empty(int(number.sum()), batch.x.shape[1], device=source)
        noise.normal_(self.mean, self.std, generator=generator)
        return Edit(noisy=noisy, noise=noise.to(batch.x))


class PerturbEdges(_Rated):
    """Drop ``rate`` of a graph's edges and add as many between nodes that were not joined.

    An undirected edge is one edge although it is stored in both directions: both go, or both come. Every absent pair of
    nodes is equally likely; a graph with fewer absent pairs than wanted gets all of them. An added edge takes over the
    attributes of a dropped one. ``undirected=False`` treats every stored direction as an edge of its own.
    """

    def __init__(self, rate: float = 0.1, undirected: bool = True) -> None:
        super().__init__(rate)
        self.undirected = undirected

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        row, col = batch.edge_index
        owner = batch.batch[row]
        mine = chosen[owner]
        forward = (mine & (row < col if self.undirected else row != col)).nonzero().squeeze(1)
        if self.undirected and not _same_pairs(batch.edge_index[:, forward], batch.edge_index[:, mine & (row > col)]):
            raise UsageError(
                "PerturbEdges needs every edge in both directions; for directed graphs say undirected=False"
            )
        group = owner[forward]
        number = counts(torch.bincount(group, minlength=len(chosen)), self.rate, generator) * chosen
        dropped = pick(group, number, generator)
        added, source = self._absent(batch, forward, group, dropped, number, generator)
        keep_edge = torch.ones(len(row), dtype=torch.bool, device=row.device)
        keep_edge[forward[dropped]] = False
        if not self.undirected:
            return Edit(keep_edge=keep_edge, new_edge=added, new_edge_from=source)
        # The backward directions are written anew from the forward ones: cheaper than looking up each one's twin.
        keep_edge &= ~(mine & (row > col))
        stays = forward[~dropped]
        new_edge = torch.cat((batch.edge_index[:, stays].flip(0), added, added.flip(0)), 1)
        return Edit(keep_edge=keep_edge, new_edge=new_edge, new_edge_from=torch.cat((stays, source, source)))

    def _absent(
        self,
        batch: "Batch",
        forward: Tensor,
        group: Tensor,
        dropped: Tensor,
        number: Tensor,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        """Absent pairs, as many as were dropped if there are so many, and the dropped edge each one stands in for."""
        size = batch.ptr.diff()
        pairs = size * (size - 1) // (2 if self.undirected else 1) * (number > 0)
        first = pairs.cumsum(0) - pairs
        row, col = batch.edge_index[:, forward] - batch.ptr[group]
        touched = number[group] > 0
        code = (first[group] + self._code(row, col, size[group]))[touched].unique()
        taken = torch.bincount(torch.searchsorted(pairs.cumsum(0), code, right=True), minlength=len(size))
        free = pairs - taken
        owner, choice = distinct(torch.minimum(number, free), free, generator)
        # The r-th absent pair: codes are sorted, code[i] - i absent pairs lie before the i-th present one.
        place = (free.cumsum(0) - free)[owner] + choice
        present = torch.searchsorted(code - torch.arange(len(code), device=code.device), place, right=True)
        u, v = self._decode(place + present - first[owner], size[owner])
        edge = torch.stack((u, v)) + batch.ptr[owner]
        # Any matching of added to dropped edges within a graph will do: k-th to k-th.
        lost = forward[dropped]
        lost = lost[batch.batch[batch.edge_index[0, lost]].argsort(stable=True)]
        order = owner.argsort(stable=True)
        start = number.cumsum(0) - number
        have = torch.bincount(owner, minlength=len(size))
        nth = torch.arange(len(order), device=order.device) - (have.cumsum(0) - have)[owner[order]]
        return edge[:, order], lost[start[owner[order]] + nth]

    def _code(self, row: Tensor, col: Tensor, size: Tensor) -> Tensor:
        if self.undirected:
            low, high = torch.minimum(row, col), torch.maximum(row, col)
            return high * (high - 1) // 2 + low
        return row * (size - 1) + col - (col > row).long()

    def _decode(self, code: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        if self.undirected:
            high = ((1 + (1 + 8 * code.double()).sqrt()) / 2).long()
            high -= (high * (high - 1) // 2 > code).long()  # the square root may be off by one unit in the last place
            high += ((high + 1) * high // 2 <= code).long()
            return code - high * (high - 1) // 2, high
        row, col = code // (size - 1), code % (size - 1)
        return row, col + (col >= row).long()


def _same_pairs(forward: Tensor, backward: Tensor) -> bool:
    """Whether the second edges are the first ones turned round, in any order."""
    if forward.shape != backward.shape:
        return False
    nodes = forward.max() + 1 if forward.numel() else 1
    return torch.equal(
        (forward[0] * nodes + forward[1]).sort().values, (backward[1] * nodes + backward[0]).sort().values
    )


class Subgraph(_Rated):
    """Keep the first nodes that a random walk visits, all but ``rate`` of the graph, and the edges between them.

    Large graphs are walked by several walkers from the same start (one per 32 nodes). Where they find nothing new for
    32 steps they go on from an unvisited node beside the visited ones; only a component that is used up is left.
    """

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__(rate)

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        size = batch.ptr.diff()
        target = (size - counts(size, self.rate, generator)).clamp_(min=1)
        if self.rate == 0:
            return Edit()
        return Edit(keep_node=walk(batch.edge_index, batch.batch, batch.ptr, target * chosen, generator))


class Choice(View):
    """One of several views, drawn anew for every graph of the batch."""

    def __init__(self, views: Sequence[View]) -> None:
        if not views:
            raise UsageError("Choice needs at least one view, got none")
        self.views = list(views)

    def __repr__(self) -> str:
        return f"Choice({self.views})"

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        drawn = (uniform(len(chosen), generator, chosen.device) * len(self.views)).long()
        edit = Edit()
        for number, view in enumerate(self.views):
            edit = edit | view.edit(batch, chosen & (drawn == number), generator)
        return edit


class GraphViews(Views):
    """Two views of a batch of graphs.

    Args:
        view: How a view is made: ``DropNodes``, ``PerturbEdges``, ``MaskAttributes``, ``Subgraph``, or a ``Choice`` of
            them; GraphCL's choice of all four if none is given.
        one_view: Take the batch itself as the first view, as published.

    Example:
        >>> from torch_geometric.data import Batch, Data
        >>> ring = torch.stack([torch.arange(6), torch.arange(6).roll(-1)])
        >>> graph = Data(x=torch.ones(6, 1), edge_index=torch.cat([ring, ring.flip(0)], 1))
        >>> views = rince.views.GraphViews(rince.views.graph.DropNodes(rate=0.5))
        >>> first, second = views(Batch.from_data_list([graph, graph]))
        >>> first.num_nodes, second.num_nodes
        (12, 6)
    """

    makes = "those of graphs"

    def __init__(self, view: View | None = None, one_view: bool = True) -> None:
        super().__init__()
        self.view = graphcl_view() if view is None else view
        self.one_view = one_view

    def extra_repr(self) -> str:
        return f"{self.view}, one_view={self.one_view}"

    def forward(self, batch: "Batch", generator: torch.Generator | None = None) -> "tuple[Batch, Batch]":
        first = batch if self.one_view else self.view(batch, generator)
        return first, self.view(batch, generator)


def graphcl_view(rate: float = 0.1, subgraph_rate: float = 0.2) -> Choice:
    """GraphCL's four augmentations, one drawn for each graph."""
    return Choice([DropNodes(rate), PerturbEdges(rate), MaskAttributes(rate), Subgraph(subgraph_rate)])
