import torch

from rince.encoders.gin import Neighbors, sum_over_graphs


def some_edges(nodes: int = 7, edges: int = 20) -> torch.Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))


def test_neighbor_sums_equal_a_matrix_product():
    edge_index = some_edges()
    x = torch.randn(7, 3, dtype=torch.float64)
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    for source, target in edge_index.T:
        adjacency[target, source] += 1
    torch.testing.assert_close(Neighbors(edge_index, 7).sum(x), adjacency @ x)


def test_gradients_are_right():
    neighbors = Neighbors(some_edges(), 7)
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(neighbors.sum, x)
    batch, ptr = torch.tensor([0, 0, 0, 2, 2, 2, 2]), torch.tensor([0, 3, 3, 7])
    assert torch.autograd.gradcheck(lambda nodes: sum_over_graphs(nodes, batch, ptr), x)


def test_no_edges_give_zeros():
    assert torch.equal(Neighbors(torch.empty(2, 0, dtype=torch.long), 4).sum(torch.ones(4, 2)), torch.zeros(4, 2))


def test_an_empty_graph_sums_to_zero():
    x = torch.ones(3, 2)
    pooled = sum_over_graphs(x, torch.tensor([0, 0, 2]), torch.tensor([0, 2, 2, 3]))
    assert pooled.tolist() == [[2, 2], [0, 0], [1, 1]]
