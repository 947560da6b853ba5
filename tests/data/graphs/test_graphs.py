import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Data

from rince._support.ragged import spans
from rince.data.graphs import Graphs


def some_graphs() -> list[Data]:
    draws = torch.Generator().manual_seed(0)
    graphs = []
    for i, nodes in enumerate([3, 1, 7, 5]):
        edges = torch.randint(nodes, (2, 0 if nodes == 1 else 6), generator=draws)
        x, kinds = torch.rand(nodes, 2, generator=draws), torch.rand(edges.shape[1], 3, generator=draws)
        graphs.append(Data(x=x, edge_index=edges, edge_attr=kinds, y=torch.tensor([i % 2])))
    return graphs


def test_a_batch_equals_the_one_pyg_collates():
    graphs = some_graphs()
    for index in ([0, 1, 2, 3], [2, 0], [1], [3, 3, 1]):
        ours, theirs = Graphs.from_list(graphs).batch(index), Batch.from_data_list([graphs[i] for i in index])
        for key in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
            assert torch.equal(ours[key], theirs[key]), key
        assert ours.num_graphs == len(index)
        assert ours.ids.tolist() == index


def test_one_graph_comes_back_as_it_went_in():
    graphs = some_graphs()
    stored = Graphs.from_list(graphs)
    assert len(stored) == 4
    for i in (0, 1, 3, -1):
        assert torch.equal(stored[i].x, graphs[i].x)
        assert torch.equal(stored[i].edge_index, graphs[i].edge_index)
    with pytest.raises(IndexError):
        stored[4]


def test_a_subset_is_a_data_set_of_its_own():
    stored = Graphs.from_list(some_graphs())
    part = stored.subset([2, 0])
    assert len(part) == 2
    assert torch.equal(part.batch([1]).edge_index, stored.batch([0]).edge_index)
    assert torch.equal(part.batch([0, 1]).x, stored.batch([2, 0]).x)
    assert torch.equal(part.batch([0]).edge_attr, stored.batch([2]).edge_attr)


def test_a_data_loader_gives_whole_batches():
    stored = Graphs.from_list(some_graphs())
    batches = list(DataLoader(stored, batch_size=3, collate_fn=Graphs.collate))
    assert [batch.num_graphs for batch in batches] == [3, 1]
    assert torch.equal(batches[0].x, stored.batch([0, 1, 2]).x)


def test_graphs_without_features_or_labels_get_constants():
    stored = Graphs.from_list([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)])
    assert stored.x.tolist() == [[1.0], [1.0]]
    assert stored.y.tolist() == [0]


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="at least one graph"):
        Graphs.from_list([])


def test_spans_run_through_each_stretch():
    assert spans(torch.tensor([5, 0, 9]), torch.tensor([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
