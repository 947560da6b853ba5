"""Random walks on all graphs of a batch at the same time."""

import numpy as np
import torch
from torch import Tensor

from rince._support.ragged import spans
from rince.views.graph_sampling import uniform

NODES_PER_WALKER = 32
STEPS = 32  # between two looks at what has been visited
NEVER = torch.iinfo(torch.long).max


def walk(
    edge_index: Tensor, batch: Tensor, ptr: Tensor, target: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """A mask over nodes: the first ``target[g]`` nodes of graph g that its walkers visit; all nodes where it is 0.

    The walkers of a graph (one per 32 nodes) start together at a random node and step to random neighbours. When 32
    steps have brought nothing new they go on from unvisited nodes next to visited ones, so that what is visited stays
    connected and long chains do not take for ever; in a component that is used up, from any unvisited nodes.
    """
    device = batch.device
    edge_index, batch, ptr, target = (tensor.cpu() for tensor in (edge_index, batch, ptr, target))  # see _steps
    size = ptr.diff()
    first_edge, degree, neighbour = _adjacency(edge_index, len(batch))
    walked = target > 0
    mine = spans(ptr[:-1][walked], size[walked])
    start = ptr[:-1] + (uniform(len(size), generator, batch.device) * size).long()
    visit = torch.full((len(batch),), NEVER)  # when a node was first visited
    visit[start[walked]] = 0
    # Only walkers whose graph is unfinished are kept: `graph` and `position` shrink.
    graph = torch.repeat_interleave(torch.where(walked, (size + NODES_PER_WALKER - 1) // NODES_PER_WALKER, 0))
    position = start[graph]

    def seen() -> Tensor:
        return torch.bincount(batch[mine[visit[mine] < NEVER]], minlength=len(size))

    before, clock = seen(), 1
    while len(graph):
        trace = _steps(position, uniform((STEPS, len(graph)), generator, batch.device), first_edge, degree, neighbour)
        position = trace[-1]
        clock = _stamp(visit, trace.flatten(), clock)
        now = seen()
        on = (now < target)[graph]
        graph, position = graph[on], position[on]
        stuck = ((now == before) & (now < target))[graph]
        if stuck.any():
            position[stuck] = _fresh(edge_index, visit, batch, mine, graph[stuck], len(size), generator)
            clock = _stamp(visit, position[stuck], clock)
            now = seen()
        before = now
    return _earliest(visit, batch, mine, target, clock).to(device)


def _adjacency(edge_index: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """First edge, degree and neighbours of every node; a node without neighbours is its own."""
    row, col = edge_index
    degree = torch.bincount(row, minlength=nodes)
    alone = (degree == 0).nonzero().squeeze(1)
    if len(alone):
        row, col = torch.cat((row, alone)), torch.cat((col, alone))
        degree[alone] = 1
    if (row.diff() < 0).any():
        col = col[row.argsort()]
    return degree.cumsum(0) - degree, degree, col


def _steps(position: Tensor, draws: Tensor, first_edge: Tensor, degree: Tensor, neighbour: Tensor) -> Tensor:
    """[steps, walkers]: where the walkers are after each step.

    In numpy, and so on the CPU: a step is five tiny operations, and the price of each is that of calling it.
    """
    first, number, end = first_edge.numpy(), degree.numpy(), neighbour.numpy()
    here, trace = position.numpy(), np.empty(draws.shape, dtype=np.int64)
    for step, draw in enumerate(draws.numpy()):
        here = end[first[here] + (draw * number[here]).astype(np.int64)]
        trace[step] = here
    return torch.from_numpy(trace)


def _stamp(visit: Tensor, nodes: Tensor, clock: int) -> int:
    """Write the time of the first visit into ``visit``, in place; the time afterwards."""
    when = torch.arange(clock, clock + len(nodes), device=nodes.device)
    visit.scatter_reduce_(0, nodes, when, "amin")
    return clock + len(nodes)


def _fresh(
    edge_index: Tensor,
    visit: Tensor,
    batch: Tensor,
    mine: Tensor,
    graph: Tensor,
    graphs: int,
    generator: torch.Generator | None,
) -> Tensor:
    """For every walker of ``graph`` an unvisited node of its graph, next to a visited one where there is one."""
    unvisited = visit == NEVER
    source, target = edge_index
    border = torch.zeros_like(unvisited)
    border[target[~unvisited[source] & unvisited[target]]] = True
    bordered = torch.bincount(batch[border], minlength=graphs) > 0
    nodes = mine[(unvisited & (border | ~bordered[batch]))[mine]]
    count = torch.bincount(batch[nodes], minlength=graphs)
    first = count.cumsum(0) - count
    return nodes[first[graph] + (uniform(len(graph), generator, batch.device) * count[graph]).long()]


def _earliest(visit: Tensor, batch: Tensor, mine: Tensor, target: Tensor, clock: int) -> Tensor:
    keep = torch.ones(len(batch), dtype=torch.bool, device=batch.device)
    order = mine[(batch[mine] * (clock + 1) + visit[mine].clamp(max=clock)).argsort()]
    # `mine` holds graphs one after the other, so the sorted nodes of a graph begin where its nodes begin.
    size = torch.bincount(batch[mine], minlength=len(target))
    place = torch.arange(len(order), device=order.device) - (size.cumsum(0) - size)[batch[order]]
    keep[order] = place < target[batch[order]]
    return keep
