"""Views of graphs: exact properties on any batch, and the same distribution as a plain loop over graphs."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from rince.data.graphs.graphs import Graphs
from rince.views.graph import (
    Choice,
    DropNodes,
    GraphViews,
    MaskAttributes,
    PerturbEdges,
    Subgraph,
    graphcl_view,
)

RATES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9])
SEEDS = st.integers(0, 2**32)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(nodes: int, pairs: set[tuple[int, int]], label: int = 0) -> Data:
    both = [*pairs, *((v, u) for u, v in pairs)]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).T
    # The features name the node, so that a test can see which ones are left.
    x = torch.stack([torch.arange(nodes, dtype=torch.float32) + 10, torch.full((nodes,), float(label))], 1)
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    graphs = []
    for label in range(draw(st.integers(1, 5))):
        nodes = draw(st.integers(1, 40))
        every = [(u, v) for u in range(nodes) for v in range(u + 1, nodes)]
        pairs = draw(st.sets(st.sampled_from(every), max_size=60)) if every else set()
        graphs.append(graph(nodes, pairs, label))
    return Graphs.from_list(graphs).batch()


def edges_of(batch: Batch) -> list[set[tuple[int, int]]]:
    """The edges of every graph, nodes named as when the graph was made."""
    found: list[set[tuple[int, int]]] = [set() for _ in range(batch.num_graphs)]
    name = (batch.x[:, 0] - 10).long().tolist()
    owner = batch.batch.tolist()
    for u, v in batch.edge_index.T.tolist():
        assert owner[u] == owner[v]
        found[owner[u]].add((name[u], name[v]))
    assert sum(map(len, found)) == batch.num_edges, "an edge stands twice"
    return found


def consistent(before: Batch, after: Batch) -> None:
    assert torch.equal(after.y, before.y)
    assert torch.equal(after.ids, before.ids)
    assert after.num_graphs == before.num_graphs
    assert torch.equal(torch.bincount(after.batch, minlength=before.num_graphs), after.ptr.diff())
    assert (after.batch.diff() >= 0).all()
    assert after.x.shape[0] == after.num_nodes
    if after.num_edges:
        assert int(after.edge_index.min()) >= 0 and int(after.edge_index.max()) < after.num_nodes
    for edges in edges_of(after):
        assert all((v, u) in edges for u, v in edges)


@given(batches(), RATES, SEEDS)
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("kind", [DropNodes, Subgraph])
def test_node_views_lose_the_right_number_of_nodes_and_exactly_the_edges_at_them(kind, batch, rate, seed):
    after = kind(rate)(batch, seeded(seed))
    consistent(batch, after)
    size, left = batch.ptr.diff(), after.ptr.diff()
    assert (left >= 1).all()
    assert (((size - left) - rate * size).abs() < 1).logical_or(left == 1).all()
    owner, name = after.batch.tolist(), (after.x[:, 0] - 10).long().tolist()
    kept = [{n for g, n in zip(owner, name, strict=True) if g == i} for i in range(batch.num_graphs)]
    for old, new, nodes in zip(edges_of(batch), edges_of(after), kept, strict=True):
        assert new == {(u, v) for u, v in old if u in nodes and v in nodes}


@given(batches(), RATES, SEEDS)
@settings(deadline=None, max_examples=60)
def test_perturbed_edges_go_and_come_in_equal_number_and_in_both_directions(batch, rate, seed):
    after = PerturbEdges(rate)(batch, seeded(seed))
    consistent(batch, after)
    assert torch.equal(after.x, batch.x)
    for old, new, size in zip(edges_of(batch), edges_of(after), batch.ptr.diff().tolist(), strict=True):
        dropped, added, pairs = len(old - new) / 2, len(new - old) / 2, len(old) / 2
        assert abs(dropped - rate * pairs) < 1
        assert added == min(dropped, size * (size - 1) / 2 - pairs)
        assert all(u != v for u, v in new)


@given(batches(), RATES, SEEDS)
@settings(deadline=None, max_examples=60)
def test_masking_changes_the_right_number_of_rows_and_nothing_else(batch, rate, seed):
    after = MaskAttributes(rate)(batch, seeded(seed))
    assert torch.equal(after.edge_index, batch.edge_index)
    changed = (after.x != batch.x).any(1)
    number = torch.bincount(batch.batch[changed], minlength=batch.num_graphs)
    assert ((number - rate * batch.ptr.diff()).abs() < 1).all()


@given(batches(), SEEDS)
@settings(deadline=None, max_examples=30)
def test_a_rate_of_zero_leaves_every_graph_as_it_is(batch, seed):
    for view in (DropNodes(0), PerturbEdges(0), MaskAttributes(0), Subgraph(0), graphcl_view(0, 0)):
        after = view(batch, seeded(seed))
        assert torch.equal(after.x, batch.x)
        assert edges_of(after) == edges_of(batch)


@given(batches(), SEEDS)
@settings(deadline=None, max_examples=30)
def test_the_same_seed_gives_the_same_view_and_the_batch_is_not_touched(batch, seed):
    copy = batch.clone()
    first, second = (graphcl_view(0.4, 0.4)(batch, seeded(seed)) for _ in range(2))
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.edge_index, second.edge_index)
    assert torch.equal(batch.x, copy.x)
    assert torch.equal(batch.edge_index, copy.edge_index)


@given(batches(), SEEDS)
@settings(deadline=None, max_examples=30)
def test_a_choice_changes_each_graph_in_one_way_only(batch, seed):
    after = Choice([DropNodes(0.5), PerturbEdges(0.5)])(batch, seeded(seed))
    lost = batch.ptr.diff() - after.ptr.diff()
    for i, (old, new) in enumerate(zip(edges_of(batch), edges_of(after), strict=True)):
        assert lost[i] == 0 or not new - old


# A plain reference: one graph at a time, in the words of the definitions.


def rounded(value: float, rng: random.Random) -> int:
    return int(value + rng.random())


def reference_drop(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    number = min(rounded(rate * nodes, rng), nodes - 1)
    kept = set(range(nodes)) - set(rng.sample(range(nodes), number))
    return kept, {(u, v) for u, v in pairs if u in kept and v in kept}


def reference_perturb(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    number = rounded(rate * len(pairs), rng)
    absent = [(u, v) for u in range(nodes) for v in range(u + 1, nodes) if (u, v) not in pairs]
    dropped = set(rng.sample(sorted(pairs), number))
    return set(range(nodes)), (pairs - dropped) | set(rng.sample(absent, min(number, len(absent))))


def reference_walk(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    neighbours = {n: [v for u, v in pairs if u == n] + [u for u, v in pairs if v == n] for n in range(nodes)}
    target = max(1, nodes - rounded(rate * nodes, rng))
    here = rng.randrange(nodes)
    visited, fruitless = {here: None}, 0  # a dictionary keeps the order of the visits
    steps = 0
    while len(visited) < target:
        here = rng.choice(neighbours[here]) if neighbours[here] else here
        fruitless = 0 if here not in visited else fruitless + 1
        visited[here] = None
        steps += 1
        if steps % 32 == 0:
            if fruitless >= 32:
                beside = sorted({n for v in visited for n in neighbours[v]} - set(visited))
                here = rng.choice(beside or [n for n in range(nodes) if n not in visited])
                visited[here] = None
            fruitless = 0
    kept = set(list(visited)[:target])
    return kept, {(u, v) for u, v in pairs if u in kept and v in kept}


SHAPES = {
    "lollipop": (9, {(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)}),
    "star": (8, {(0, i) for i in range(1, 8)}),
    "two parts and a lone node": (9, {(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (6, 7)}),
    "nearly complete": (5, {(u, v) for u in range(5) for v in range(u + 1, 5)} - {(0, 1)}),
}
DRAWS = 3000


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("view", "reference"),
    [(DropNodes(0.35), reference_drop), (PerturbEdges(0.35), reference_perturb), (Subgraph(0.35), reference_walk)],
    ids=["drop", "perturb", "walk"],
)
def test_views_have_the_distribution_of_a_plain_loop_over_graphs(shape, view, reference):
    """How often each node and each edge is there, over many draws: within 4.5 standard errors of the reference."""
    nodes, pairs = SHAPES[shape]
    after = view(Graphs.from_list([graph(nodes, pairs)] * DRAWS).batch(), seeded(7))
    ours_nodes = torch.bincount((after.x[:, 0] - 10).long(), minlength=nodes) / DRAWS
    name = (after.x[:, 0] - 10).long()
    ours_edges = (
        torch.bincount(name[after.edge_index[0]] * nodes + name[after.edge_index[1]], minlength=nodes**2) / DRAWS
    )
    rng = random.Random(7)
    plain_nodes, plain_edges = torch.zeros(nodes), torch.zeros(nodes**2)
    for _ in range(DRAWS):
        kept, left = reference(nodes, pairs, view.rate, rng)
        plain_nodes[list(kept)] += 1 / DRAWS
        plain_edges[[u * nodes + v for u, v in left] + [v * nodes + u for u, v in left]] += 1 / DRAWS
    for ours, plain in ((ours_nodes, plain_nodes), (ours_edges, plain_edges)):
        middle = (ours + plain) / 2
        error = (2 * middle * (1 - middle) / DRAWS).clamp(min=0).sqrt()
        assert ((ours - plain).abs() <= 4.5 * error + 1e-6).all()


def test_masking_noise_has_mean_and_deviation_one_half():
    batch = Graphs.from_list([graph(40, {(0, 1)})] * 300).batch()
    after = MaskAttributes(0.5)(batch, seeded(0))
    noise = after.x[(after.x != batch.x).any(1)]
    assert noise.mean() == pytest.approx(0.5, abs=0.02)
    assert noise.std() == pytest.approx(0.5, abs=0.02)


def test_a_choice_draws_its_views_equally_often():
    batch = Graphs.from_list([graph(20, {(i, i + 1) for i in range(19)})] * 2000).batch()
    after = Choice([DropNodes(0.5), MaskAttributes(0.5)])(batch, seeded(0))
    share = float((after.ptr.diff() < 20).float().mean())
    assert share == pytest.approx(0.5, abs=0.05)


def test_one_view_leaves_the_anchor_alone_and_two_views_do_not():
    batch = Graphs.from_list([graph(20, {(i, i + 1) for i in range(19)})] * 8).batch()
    anchor, view = GraphViews(DropNodes(0.5))(batch, seeded(0))
    assert anchor is batch
    assert view.num_nodes == 80
    first, second = GraphViews(DropNodes(0.5), one_view=False)(batch, seeded(0))
    assert first.num_nodes == second.num_nodes == 80
    assert not torch.equal(first.x, second.x)


def test_edge_and_node_attributes_follow_their_edges_and_nodes():
    one = graph(12, {(i, i + 1) for i in range(11)} | {(0, 5), (2, 9)})
    pair = one.edge_index.sort(0).values
    one.edge_attr = (pair[0] * 100 + pair[1]).float()[:, None]
    batch = Batch.from_data_list([one, one, one])
    batch.mass = batch.x[:, 0] * 2
    for view in (DropNodes(0.4), Subgraph(0.4)):
        after = view(batch, seeded(3))
        name = (after.x[:, 0] - 10).long()
        pair = name[after.edge_index].sort(0).values
        assert torch.equal(after.edge_attr[:, 0], (pair[0] * 100 + pair[1]).float())
        assert torch.equal(after.mass, after.x[:, 0] * 2)
    after = PerturbEdges(0.4)(batch, seeded(3))
    assert after.edge_attr.shape[0] == after.num_edges
    # Every label stays as often as it was: an added edge takes over the label of a dropped one.
    assert torch.equal(after.edge_attr[:, 0].sort().values, batch.edge_attr[:, 0].sort().values)


def test_directed_edges_are_perturbed_one_by_one_and_refused_as_pairs():
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    batch = Graphs.from_list([Data(x=torch.ones(5, 1), edge_index=edge_index)] * 200).batch()
    with pytest.raises(ValueError, match="both directions"):
        PerturbEdges(0.4)(batch)
    after = PerturbEdges(0.4, undirected=False)(batch, seeded(0))
    assert after.num_edges == batch.num_edges
    old, new = ({tuple(e) for e in b.edge_index.T.tolist()} for b in (batch, after))
    assert len(new) == after.num_edges
    assert len(old - new) == len(new - old) == 400
    assert all(u != v for u, v in new)


@pytest.mark.parametrize(
    "edges",
    [
        [[0, 3], [1, 2]],  # as many up as down
        [[0, 1, 0, 2], [1, 0, 2, 1]],
        [[0, 0, 1, 2], [1, 1, 0, 0]],  # (0, 1) twice, (1, 0) once
    ],
)
def test_directed_graphs_are_refused_as_pairs_however_their_edges_are_counted(edges):
    batch = Batch.from_data_list([Data(x=torch.ones(4, 1), edge_index=torch.tensor(edges))] * 2)
    with pytest.raises(ValueError, match="both directions"):
        PerturbEdges(0)(batch)
    after = PerturbEdges(0, undirected=False)(batch)
    assert torch.equal(after.edge_index, batch.edge_index)


def test_views_can_follow_each_other():
    batch = Graphs.from_list([graph(20, {(i, i + 1) for i in range(19)}, i) for i in range(8)]).batch()
    draws = seeded(0)
    after = Subgraph(0.3)(PerturbEdges(0.3)(DropNodes(0.3)(PerturbEdges(0.3)(batch, draws), draws), draws), draws)
    consistent(batch, after)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(ValueError, match=r"rate must lie in \[0, 1\)"):
        DropNodes(rate)


def test_a_choice_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one view"):
        Choice([])
