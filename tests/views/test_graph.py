"""Views of graphs: exact properties on any batch, and the same distribution as a plain loop over graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from rince.data.graphs import Graphs
from rince.views.graph import (
    Choice,
    DropNodes,
    GraphViews,
    MaskAttributes,
    PerturbEdges,
    Subgraph,
    graphcl_view,
)
from support.small_graphs import edges_of, graph, seeded

RATES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9])
SEEDS = st.integers(0, 2**32)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    graphs = []
    for label in range(draw(st.integers(1, 5))):
        nodes = draw(st.integers(1, 40))
        every = [(u, v) for u in range(nodes) for v in range(u + 1, nodes)]
        pairs = draw(st.sets(st.sampled_from(every), max_size=60)) if every else set()
        graphs.append(graph(nodes, pairs, label))
    return Graphs.from_list(graphs).batch()


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
def test_node_views_drop_the_right_nodes_and_edges(kind, batch, rate, seed):
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
def test_perturbed_edges_are_symmetric_and_balanced(batch, rate, seed):
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
def test_views_depend_on_the_seed_and_keep_the_batch(batch, seed):
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
def test_directed_graphs_are_refused(edges):
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
    with pytest.raises(ValueError, match=r"rate must be in"):
        DropNodes(rate)


def test_a_choice_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one view"):
        Choice([])
