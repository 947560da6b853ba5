import torch
from torch_geometric.data import Data

from rince import InfoNCE
from rince.data.graphs import Graphs
from rince.encoders.gin import GIN
from rince.evaluate.svm import evaluate_graphs
from rince.methods.graphcl import GraphCL
from rince.views.graph import GraphViews


def test_untrained_network_separates_paths_from_rings():
    graphs = []
    for i in range(40):
        ring = torch.arange(8)
        pairs = torch.stack((ring, ring.roll(1)))[:, i % 2 :]
        graphs.append(
            Data(x=torch.ones(8, 1), edge_index=torch.cat((pairs, pairs.flip(0)), 1), y=torch.tensor([i % 2]))
        )
    torch.manual_seed(0)
    method = GraphCL(GIN(1, width=8), InfoNCE(temperature=0.2), GraphViews(), torch.optim.Adam)
    result = evaluate_graphs(method, Graphs.from_list(graphs), "projection")
    assert result["svm"][0] == result["linear"][0] == 100
