import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GINConv, global_add_pool

from rince.data.graphs import Graphs
from rince.encoders.gin import GIN, Pooled


def a_batch(features: int = 5):
    draws = torch.Generator().manual_seed(0)
    graphs = [
        Data(x=torch.rand(n, features, generator=draws), edge_index=torch.randint(n, (2, 3 * n), generator=draws))
        for n in (4, 1, 9)
    ]
    return Graphs.from_list(graphs).batch()


def test_gin_equals_one_built_from_pyg_layers():
    torch.manual_seed(0)
    net, batch = GIN(5, width=8, layers=3), a_batch()
    x, pooled = batch.x, []
    for layer in net.layers:
        conv = GINConv(nn.Sequential(layer.first, nn.ReLU(), layer.second))
        x = layer.norm(conv(x, batch.edge_index).relu())
        pooled.append(global_add_pool(x, batch.batch))
    torch.testing.assert_close(net(batch), torch.cat(pooled, 1))


def test_graph_features_are_independent_of_the_batch():
    torch.manual_seed(0)
    net = GIN(5).eval()
    batch = a_batch()
    alone = Graphs.from_list([Data(x=batch.x[:4], edge_index=batch.edge_index[:, batch.edge_index[0] < 4])]).batch()
    torch.testing.assert_close(net(batch)[:1], net(alone))
    assert net(batch).shape == (3, net.features)


def test_any_pyg_network_fits_in():
    net = Pooled(GCN(5, 8, 2, 6), features=6)
    assert net(a_batch()).shape == (3, 6)
    mean = Pooled(GCN(5, 8, 2, 6), features=6, mean=True)
    assert mean(a_batch()).shape == (3, 6)


def test_features_of_another_width_are_refused():
    with pytest.raises(ValueError, match="takes 4 features per node, the graphs have 5"):
        GIN(4)(a_batch())


@pytest.mark.parametrize("layers", (0, 10**9))
def test_number_of_layers_is_bounded(layers):
    with pytest.raises(ValueError, match=f"layers must be in .* got {layers}"):
        GIN(5, layers=layers)
