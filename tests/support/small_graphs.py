"""Graphs by their pairs of nodes, for tests of views."""

import torch
from torch_geometric.data import Batch, Data


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(nodes: int, pairs: set[tuple[int, int]], label: int = 0) -> Data:
    both = [*pairs, *((v, u) for u, v in pairs)]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).T
    # The features name the node, so that a test can see which ones are left.
    x = torch.stack([torch.arange(nodes, dtype=torch.float32) + 10, torch.full((nodes,), float(label))], 1)
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))


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
