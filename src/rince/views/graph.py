"""Views of graphs, computed on whole PyG batches."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rince._support.ragged import spans
from rince.errors import UsageError
from rince.views.views import Views

if TYPE_CHECKING:
    from torch_geometric.data import Batch


def uniform(shape: int | tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Numbers in [0, 1), drawn on the generator's device, so that a seed gives the same result on all devices."""
    source = device if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=source, dtype=torch.float64).to(device)


def counts(size: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """``rate * size``, rounded up or down at random, so that the mean is exact for small groups too."""
    return (size.double() * rate + uniform(len(size), generator, size.device)).floor().long().clamp_(max=size)


def rank(group: Tensor, key: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Order of items by group and then by ``key`` in [0, 1), and their ranks within their groups."""
    order = (key + group).argsort()
    size = torch.bincount(group, minlength=groups)
    start = size.cumsum(0) - size
    return order, torch.arange(len(order), device=order.device) - start[group[order]]


def pick(group: Tensor, number: Tensor, generator: torch.Generator | None) -> Tensor:
    """Random mask of ``number[g]`` items of every group g. All subsets are equally likely."""
    mask = torch.zeros(len(group), dtype=torch.bool, device=group.device)
    items = (number[group] > 0).nonzero().squeeze(1)  # groups without a hit are not sorted
    order, position = rank(group[items], uniform(len(items), generator, group.device), len(number))
    items = items[order]
    mask[items] = position < number[group[items]]
    return mask


def distinct(number: Tensor, size: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """``number[g]`` distinct random integers from ``range(size[g])`` for every group g: groups and integers.

    By rejection if at most half of a range is drawn, by a full shuffle otherwise, so the cost is linear in the number
    of integers.
    """
    device = size.device
    base = size.cumsum(0) - size
    crowded = number * 2 > size
    full = torch.where(crowded, size, 0)
    group = torch.repeat_interleave(full)
    first = full.cumsum(0) - full
    local = torch.arange(len(group), device=device) - first[group]
    mask = pick(group, number, generator)
    shuffled = base[group[mask]] + local[mask]

    target = torch.where(crowded, 0, number)
    drawn = torch.empty(0, dtype=torch.long, device=device)
    missing = target
    while (total := int(missing.sum())) > 0:
        group = torch.repeat_interleave(missing)
        fresh = base[group] + (uniform(total, generator, device) * size[group]).long()
        drawn = torch.cat((drawn, fresh)).unique()
        missing = target - torch.bincount(owner(drawn, size), minlength=len(size))
    numbers = torch.cat((shuffled, drawn))
    group = owner(numbers, size)
    return group, numbers - base[group]


def owner(item: Tensor, size: Tensor) -> Tensor:
    """Group of each item, if group g has ``size[g]`` consecutive items."""
    return torch.searchsorted(size.cumsum(0), item, right=True)


@dataclass
class Edit:
    """Changes of a batch of graphs; None for no change."""

    keep_node: Tensor | None = None  # [nodes] bool
    keep_edge: Tensor | None = None  # [edges] bool
    new_edge: Tensor | None = None  # [2, new edges]
    new_edge_from: Tensor | None = None  # [new edges] old edges with the attributes of the new ones
    noisy: Tensor | None = None  # [nodes] bool
    noise: Tensor | None = None  # [noisy nodes, features]

    def __or__(self, other: "Edit") -> "Edit":
        """Union of two edits of different graphs."""
        noisy, noise = self.noisy, self.noise
        if other.noisy is not None and other.noise is not None:
            noisy, noise = other.noisy, other.noise
            if self.noisy is not None and self.noise is not None:
                noisy = self.noisy | other.noisy
                order = torch.cat((self.noisy.nonzero(), other.noisy.nonzero())).squeeze(1).argsort()
                noise = torch.cat((self.noise, other.noise))[order]
        return Edit(
            _both(self.keep_node, other.keep_node),
            _both(self.keep_edge, other.keep_edge),
            _concatenated(self.new_edge, other.new_edge),
            _concatenated(self.new_edge_from, other.new_edge_from),
            noisy,
            noise,
        )


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a & b


def _concatenated(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else torch.cat((a, b), -1)


def apply(batch: "Batch", edit: Edit) -> "Batch":
    """New batch after an edit, including all attributes of nodes, edges and graphs."""
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
    attributes = _other_attributes(batch, nodes, edges, edit)
    return Batch(x=x, edge_index=edge_index, batch=owner, ptr=ptr, **attributes)


def _kept_edges(edge_index: Tensor, edit: Edit) -> Tensor | None:
    """Indices of the edges in the view, among the old edges followed by the new ones; None for all old edges."""
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
    new = torch.arange(edit.new_edge.shape[1], device=kept.device) + edge_index.shape[1]
    return torch.cat((kept, new))


def _other_attributes(batch: "Batch", nodes: Tensor | None, edges: Tensor | None, edit: Edit) -> dict[str, object]:
    attributes: dict[str, object] = {}
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
        attributes[key] = value
    return attributes


NODES_PER_WALKER = 32
STEPS = 32  # between two checks of the visited nodes
NEVER = torch.iinfo(torch.long).max


def walk(
    edge_index: Tensor, batch: Tensor, ptr: Tensor, target: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Mask of the first ``target[g]`` nodes of graph g that its walkers visit; all nodes if ``target[g]`` is 0.

    The walkers of a graph (one per 32 nodes) start together at a random node and step to random neighbors. If 32 steps
    bring no new node, they continue at unvisited nodes next to visited ones, so that the visited nodes stay connected
    and long chains end; in an exhausted component, at any unvisited node.
    """
    device = batch.device
    edge_index, batch, ptr, target = (tensor.cpu() for tensor in (edge_index, batch, ptr, target))  # see _steps
    size = ptr.diff()
    first_edge, degree, neighbor = adjacency(edge_index, len(batch))
    active = target > 0
    nodes = spans(ptr[:-1][active], size[active])
    start = ptr[:-1] + (uniform(len(size), generator, batch.device) * size).long()
    visit = torch.full((len(batch),), NEVER)  # when a node was first visited
    visit[start[active]] = 0
    # Walkers of finished graphs are removed from `graph` and `position`.
    graph = torch.repeat_interleave(torch.where(active, (size + NODES_PER_WALKER - 1) // NODES_PER_WALKER, 0))
    position = start[graph]

    def num_visited() -> Tensor:
        return torch.bincount(batch[nodes[visit[nodes] < NEVER]], minlength=len(size))

    before, clock = num_visited(), 1
    while len(graph):
        trace = _steps(position, uniform((STEPS, len(graph)), generator, batch.device), first_edge, degree, neighbor)
        position = trace[-1]
        clock = _stamp(visit, trace.flatten(), clock)
        visited = num_visited()
        unfinished = (visited < target)[graph]
        graph, position = graph[unfinished], position[unfinished]
        stuck = ((visited == before) & (visited < target))[graph]
        if stuck.any():
            position[stuck] = _fresh(edge_index, visit, batch, nodes, graph[stuck], len(size), generator)
            clock = _stamp(visit, position[stuck], clock)
            visited = num_visited()
        before = visited
    return _earliest(visit, batch, nodes, target, clock).to(device)


def adjacency(edge_index: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """First edge, degree and neighbors of every node. A node without neighbors is its own neighbor."""
    row, col = edge_index
    degree = torch.bincount(row, minlength=nodes)
    alone = (degree == 0).nonzero().squeeze(1)
    if len(alone):
        row, col = torch.cat((row, alone)), torch.cat((col, alone))
        degree[alone] = 1
    if (row.diff() < 0).any():
        col = col[row.argsort()]
    return degree.cumsum(0) - degree, degree, col


def _steps(position: Tensor, draws: Tensor, first_edge: Tensor, degree: Tensor, neighbor: Tensor) -> Tensor:
    """[steps, walkers] positions after each step. In numpy, which has less overhead per call."""
    first, number, end = first_edge.numpy(), degree.numpy(), neighbor.numpy()
    node, trace = position.numpy(), np.empty(draws.shape, dtype=np.int64)
    for step, draw in enumerate(draws.numpy()):
        node = end[first[node] + (draw * number[node]).astype(np.int64)]
        trace[step] = node
    return torch.from_numpy(trace)


def _stamp(visit: Tensor, nodes: Tensor, clock: int) -> int:
    """Write the times of first visits into ``visit``, in place. Returns the time afterwards."""
    when = torch.arange(clock, clock + len(nodes), device=nodes.device)
    visit.scatter_reduce_(0, nodes, when, "amin")
    return clock + len(nodes)


def _fresh(
    edge_index: Tensor,
    visit: Tensor,
    batch: Tensor,
    candidates: Tensor,
    graph: Tensor,
    graphs: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Unvisited node for every walker of ``graph``, next to a visited one if possible."""
    unvisited = visit == NEVER
    source, target = edge_index
    border = torch.zeros_like(unvisited)
    border[target[~unvisited[source] & unvisited[target]]] = True
    bordered = torch.bincount(batch[border], minlength=graphs) > 0
    nodes = candidates[(unvisited & (border | ~bordered[batch]))[candidates]]
    count = torch.bincount(batch[nodes], minlength=graphs)
    first = count.cumsum(0) - count
    return nodes[first[graph] + (uniform(len(graph), generator, batch.device) * count[graph]).long()]


def _earliest(visit: Tensor, batch: Tensor, nodes: Tensor, target: Tensor, clock: int) -> Tensor:
    keep = torch.ones(len(batch), dtype=torch.bool, device=batch.device)
    order = nodes[(batch[nodes] * (clock + 1) + visit[nodes].clamp(max=clock)).argsort()]
    # `mine` is ordered by graph, so the sorted nodes of a graph start where its nodes start.
    size = torch.bincount(batch[nodes], minlength=len(target))
    position = torch.arange(len(order), device=order.device) - (size.cumsum(0) - size)[batch[order]]
    keep[order] = position < target[batch[order]]
    return keep


class View(ABC):
    """Base class of views. Calling a view changes all graphs of a batch."""

    @abstractmethod
    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        """Changes of the graphs in the mask ``chosen`` (graphs,)."""

    def __call__(self, batch: "Batch", generator: torch.Generator | None = None) -> "Batch":
        chosen = torch.ones(len(batch.ptr) - 1, dtype=torch.bool, device=batch.ptr.device)
        return apply(batch, self.edit(batch, chosen, generator))


class _Rated(View):
    """View that changes a share ``rate`` of every graph, rounded at random or always down."""

    def __init__(self, rate: float, round_down: bool = False) -> None:
        if not 0 <= rate < 1:
            raise UsageError(f"rate must be in [0, 1), got {rate}")
        self.rate, self.round_down = rate, round_down

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self.rate:g})"

    def counts(self, size: Tensor, generator: torch.Generator | None) -> Tensor:
        """Number of nodes or edges to change, of ``size`` (graphs,)."""
        return (size.double() * self.rate).long() if self.round_down else counts(size, self.rate, generator)


class DropNodes(_Rated):
    """Drop a share ``rate`` of the nodes, with their edges. One node always stays."""

    def __init__(self, rate: float = 0.1, round_down: bool = False) -> None:
        super().__init__(rate, round_down)

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        size = batch.ptr.diff()
        number = torch.minimum(self.counts(size, generator), size - 1) * chosen
        return Edit(keep_node=~pick(batch.batch, number, generator))


class MaskAttributes(_Rated):
    """Replace the features of a share ``rate`` of the nodes by noise N(mean, std)."""

    def __init__(self, rate: float = 0.1, mean: float = 0.5, std: float = 0.5, round_down: bool = False) -> None:
        super().__init__(rate, round_down)
        self.mean, self.std = mean, std

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        number = self.counts(batch.ptr.diff(), generator) * chosen
        noisy = pick(batch.batch, number, generator)
        source = batch.x.device if generator is None else generator.device
        noise = torch.empty(int(number.sum()), batch.x.shape[1], device=source)
        noise.normal_(self.mean, self.std, generator=generator)
        return Edit(noisy=noisy, noise=noise.to(batch.x))


class PerturbEdges(_Rated):
    """Drop a share ``rate`` of the edges and add as many between nodes that were not joined.

    An undirected edge is stored in both directions, which are dropped or added together. All absent pairs of nodes are
    equally likely; if there are too few, all are added. An added edge takes over the attributes of a dropped one.
    ``undirected=False`` treats each stored direction as an edge, and ``add=False`` only drops edges.
    """

    def __init__(self, rate: float = 0.1, undirected: bool = True, add: bool = True, round_down: bool = False) -> None:
        super().__init__(rate, round_down)
        self.undirected, self.add = undirected, add

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        row, col = batch.edge_index
        owner = batch.batch[row]
        mask = chosen[owner]
        forward = (mask & (row < col if self.undirected else row != col)).nonzero().squeeze(1)
        if self.undirected and not _same_pairs(batch.edge_index[:, forward], batch.edge_index[:, mask & (row > col)]):
            raise UsageError(
                "PerturbEdges needs every edge in both directions: set undirected=False for directed graphs"
            )
        group = owner[forward]
        number = self.counts(torch.bincount(group, minlength=len(chosen)), generator) * chosen
        dropped = pick(group, number, generator)
        keep_edge = torch.ones(len(row), dtype=torch.bool, device=row.device)
        keep_edge[forward[dropped]] = False
        if self.add:
            added, source = self._absent(batch, forward, group, dropped, number, generator)
        else:
            added, source = batch.edge_index[:, :0], forward[:0]
        if not self.undirected:
            return Edit(keep_edge=keep_edge, new_edge=added, new_edge_from=source)
        # Backward directions are rebuilt from forward ones, which is cheaper than looking them up.
        keep_edge &= ~(mask & (row > col))
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
        """Absent pairs, as many as were dropped if possible, and the dropped edge that each of them replaces."""
        size = batch.ptr.diff()
        pairs = size * (size - 1) // (2 if self.undirected else 1) * (number > 0)
        first = pairs.cumsum(0) - pairs
        row, col = batch.edge_index[:, forward] - batch.ptr[group]
        affected = number[group] > 0
        code = (first[group] + self._code(row, col, size[group]))[affected].unique()
        num_present = torch.bincount(torch.searchsorted(pairs.cumsum(0), code, right=True), minlength=len(size))
        free = pairs - num_present
        owner, choice = distinct(torch.minimum(number, free), free, generator)
        # The r-th absent pair: codes are sorted, code[i] - i absent pairs lie before the i-th present one.
        index = (free.cumsum(0) - free)[owner] + choice
        present = torch.searchsorted(code - torch.arange(len(code), device=code.device), index, right=True)
        u, v = self._decode(index + present - first[owner], size[owner])
        edge = torch.stack((u, v)) + batch.ptr[owner]
        # The k-th added edge of a graph replaces its k-th dropped one.
        lost = forward[dropped]
        lost = lost[batch.batch[batch.edge_index[0, lost]].argsort(stable=True)]
        order = owner.argsort(stable=True)
        start = number.cumsum(0) - number
        num_added = torch.bincount(owner, minlength=len(size))
        position = torch.arange(len(order), device=order.device) - (num_added.cumsum(0) - num_added)[owner[order]]
        return edge[:, order], lost[start[owner[order]] + position]

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
    """Whether the second edges are the reverse of the first ones, in any order."""
    if forward.shape != backward.shape:
        return False
    nodes = forward.max() + 1 if forward.numel() else 1
    return torch.equal(
        (forward[0] * nodes + forward[1]).sort().values, (backward[1] * nodes + backward[0]).sort().values
    )


class Subgraph(_Rated):
    """Keep the nodes that a random walk visits first, all but a share ``rate``, and the edges between them.

    Graphs of more than 32 nodes have several walkers with the same start. If 32 steps bring no new node, the walkers
    continue at an unvisited node next to the visited ones, and leave a component only when it is exhausted.
    """

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__(rate)

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        size = batch.ptr.diff()
        target = (size - self.counts(size, generator)).clamp_(min=1)
        if self.rate == 0:
            return Edit()
        return Edit(keep_node=walk(batch.edge_index, batch.batch, batch.ptr, target * chosen, generator))


class DirectNeighbors(_Rated):
    """Keep a random node and some of its direct neighbors: the subgraph view of GraphCL's published code.

    The number of neighbors is a share ``rate`` of the graph's nodes, rounded down, or less if the node has fewer. As in
    the published code, neighbors are drawn with replacement, at most as many times as the graph has nodes.
    """

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__(rate, round_down=True)

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        size, device = batch.ptr.diff(), batch.ptr.device
        first_edge, degree, neighbor = adjacency(batch.edge_index, batch.num_nodes)  # a lone node neighbors itself
        start = batch.ptr[:-1] + (uniform(len(size), generator, device) * size).long()
        owner = torch.repeat_interleave(torch.where(chosen, size, 0))  # the graph of every draw
        node = start[owner]
        drawn = neighbor[first_edge[node] + (uniform(len(owner), generator, device) * degree[node]).long()]
        # First draw of every neighbor, in the order of the draws, and its rank among those of its graph.
        first_draw = torch.full((batch.num_nodes,), len(owner), device=device)
        first_draw.scatter_reduce_(0, drawn, torch.arange(len(owner), device=device), "amin")
        order = first_draw[first_draw < len(owner)].sort().values
        num_drawn = torch.bincount(owner[order], minlength=len(size))
        position = torch.arange(len(order), device=device) - (num_drawn.cumsum(0) - num_drawn)[owner[order]]
        keep = ~chosen[batch.batch]
        keep[start] = True
        keep[drawn[order[position < self.counts(size, generator)[owner[order]]]]] = True
        return Edit(keep_node=keep)


class DropIsolated(View):
    """Wrapped view without isolated nodes. A graph without edges becomes empty."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __repr__(self) -> str:
        return f"DropIsolated({self.view})"

    def edit(self, batch: "Batch", chosen: Tensor, generator: torch.Generator | None = None) -> Edit:
        edit = self.view.edit(batch, chosen, generator)
        edges = batch.edge_index if edit.keep_edge is None else batch.edge_index[:, edit.keep_edge]
        if edit.keep_node is not None:
            edges = edges[:, edit.keep_node[edges].all(0)]
        if edit.new_edge is not None:
            edges = torch.cat((edges, edit.new_edge), 1)
        joined = ~chosen[batch.batch]
        joined[edges.flatten()] = True
        return edit | Edit(keep_node=joined)


class Choice(View):
    """One of several views, drawn independently for every graph."""

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
            them. Default: a choice of all four, as the GraphCL paper defines them.
        one_view: Use the batch itself as the first view, as published.
        published: Make views as GraphCL's published code does, which differs from its paper. See
            :func:`published_graphcl_view`.

    Raises:
        UsageError: If both ``view`` and ``published`` are given.

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

    def __init__(self, view: View | None = None, one_view: bool = True, published: bool = False) -> None:
        super().__init__()
        if published and view is not None:
            raise UsageError("published=True chooses the view itself: leave out view")
        self.view = view if view is not None else published_graphcl_view() if published else graphcl_view()
        self.one_view = one_view

    def extra_repr(self) -> str:
        return f"{self.view}, one_view={self.one_view}"

    def forward(self, batch: "Batch", generator: torch.Generator | None = None) -> "tuple[Batch, Batch]":
        first = batch if self.one_view else self.view(batch, generator)
        return first, self.view(batch, generator)


def graphcl_view(rate: float = 0.1, subgraph_rate: float = 0.2) -> Choice:
    """The four augmentations that the GraphCL paper defines, one drawn for each graph."""
    return Choice([DropNodes(rate), PerturbEdges(rate), MaskAttributes(rate), Subgraph(subgraph_rate)])


def published_graphcl_view(rate: float = 0.1, subgraph_rate: float = 0.2) -> DropIsolated:
    """The four augmentations of GraphCL's published code, one drawn for each graph.

    Unlike in the paper, edges are only dropped (each stored direction by itself), a subgraph is a node and some of its
    direct neighbors, at most about 20 % of the nodes, nodes without an edge vanish, and shares are rounded down.
    """
    views = [
        DropNodes(rate, round_down=True),
        PerturbEdges(rate, undirected=False, add=False, round_down=True),
        MaskAttributes(rate, round_down=True),
        DirectNeighbors(subgraph_rate),
    ]
    return DropIsolated(Choice(views))
