import torch
from torch_geometric.data import Data

from rince import InfoNCE
from rince.data.graphs import Graphs
from rince.encoders.gin import GIN
from rince.evaluate.svm import evaluate_graphs
from rince.methods.graphcl import GraphCL
from rince.views.graph import GraphViews


def test_paths_and_rings_of_equal_size_are_told_apart_by_an_untrained_network():
    graphs = []
    for i in range(40):
        ring = torch.arange(8)
        pairs = torch.stack((ring, ring.roll(1)))[:, i % 2 :]
        graphs.append(
            Data(x=torch.ones(8, 1), edge_index=torch.cat((pairs, pairs.flip(0)), 1), y=torch.tensor([i % 2]))
        )
    torch.manual_seed(0)
    method = GraphCL(GIN(1), InfoNCE(temperature=0.2), GraphViews(), torch.optim.Adam)
    for space in ("encoder", "projection"):
        found = evaluate_graphs(method, Graphs.from_list(graphs), space)
        assert found["svm"][0] == found["linear"][0] == 100
