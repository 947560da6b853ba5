"""The views of GraphCL's published code, against a plain loop over one graph with the same rules."""

import random

import pytest
import torch

from rince.data import Graphs
from rince.errors import UsageError
from rince.views import GraphViews
from rince.views.graph import DirectNeighbors, DropIsolated, DropNodes, PerturbEdges, published_graphcl_view
from support.small_graphs import edges_of, graph, seeded

PAIRS = {(0, i) for i in range(1, 9)} | {(i, i + 1) for i in range(1, 24)} | {(3, 20), (4, 20), (5, 20)}
NODES = 26  # node 25 has no edge


def reference_direct_neighbors(nodes: int, pairs: set[tuple[int, int]], rng: random.Random) -> set[int]:
    start = rng.randrange(nodes)
    neighbors = sorted({v for u, v in pairs if u == start} | {u for u, v in pairs if v == start})
    kept = {start}
    for _ in range(nodes if neighbors else 0):
        if len(kept) > int(nodes * 0.2):
            break
        kept.add(rng.choice(neighbors))
    return kept


def test_direct_neighbors_match_published_subgraphs():
    repeats = 20_000
    batch = Graphs.from_list([graph(NODES, PAIRS)] * repeats).batch()
    view = DirectNeighbors()(batch, seeded(0))
    sizes = torch.bincount(view.ptr.diff(), minlength=NODES)[: NODES + 1] / repeats
    nodes = torch.bincount((view.x[:, 0] - 10).long(), minlength=NODES) / repeats
    rng = random.Random(0)
    kept = [reference_direct_neighbors(NODES, PAIRS, rng) for _ in range(repeats)]
    wanted_sizes = torch.tensor([sum(len(k) == size for k in kept) for size in range(len(sizes))]) / repeats
    wanted_nodes = torch.tensor([sum(node in k for k in kept) for node in range(NODES)]) / repeats
    assert (sizes - wanted_sizes).abs().max() < 0.02  # five standard errors of a difference
    assert (nodes - wanted_nodes).abs().max() < 0.02
    assert sizes.nonzero().max() == 1 + int(NODES * 0.2)


def test_published_view_drops_single_edge_directions():
    batch = Graphs.from_list([graph(NODES, PAIRS)] * 50).batch()
    view = PerturbEdges(0.1, undirected=False, add=False, round_down=True)(batch, seeded(0))
    old, new = edges_of(batch)[0], edges_of(view)
    assert all(len(edges) == len(old) - len(old) // 10 and edges < old for edges in new)
    assert any((v, u) not in edges for edges in new for u, v in edges)


def test_undirected_edges_can_be_dropped_without_adding_any():
    batch = Graphs.from_list([graph(NODES, PAIRS)] * 50).batch()
    for edges in edges_of(PerturbEdges(0.5, add=False)(batch, seeded(0))):
        assert len(edges) in (len(PAIRS), len(PAIRS) + 1)
        assert edges < edges_of(batch)[0] and all((v, u) in edges for u, v in edges)


def test_rates_are_rounded_down_on_request():
    batch = Graphs.from_list([graph(19, {(0, 1)})] * 50).batch()
    assert set(DropNodes(0.1, round_down=True)(batch, seeded(0)).ptr.diff().tolist()) == {18}


def test_nodes_without_an_edge_vanish_and_a_graph_may_become_empty():
    batch = Graphs.from_list([graph(4, {(0, 1)}, 0), graph(3, set(), 1), graph(2, {(0, 1)}, 2)]).batch()
    view = DropIsolated(DropNodes(0))(batch, seeded(0))
    assert view.ptr.diff().tolist() == [2, 0, 2]
    assert edges_of(view) == edges_of(batch)


def test_published_views_keep_few_nodes_of_a_subgraph_and_train():
    from rince.encoders import GIN

    batch = Graphs.from_list([graph(NODES, PAIRS, 1)] * 400).batch()
    anchor, view = GraphViews(published=True)(batch, seeded(0))
    left = view.ptr.diff()
    assert anchor is batch
    assert 0.15 < (left <= 6).float().mean() < 0.35  # a quarter of the graphs gets the subgraph view
    assert left.max() <= NODES - 1  # the node without an edge is in no view
    embedding = GIN(2)(view)
    assert embedding.shape == (400, 96) and embedding.isfinite().all()
    assert repr(published_graphcl_view()) in repr(GraphViews(published=True))


def test_published_refuses_a_view_of_ones_own():
    with pytest.raises(UsageError, match="published"):
        GraphViews(DropNodes(), published=True)
