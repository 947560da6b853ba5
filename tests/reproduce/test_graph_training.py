import pytest
import torch
from torch_geometric.data import Data

from rince.data.graphs.graphs import Graphs
from rince.reproduce.graph_training import LOSSES, evaluate_epochs, make_loss, train
from rince.views.graph import graphcl_view


def paths_and_rings(number: int = 40) -> Graphs:
    graphs = []
    for i in range(number):
        nodes = 5 + i % 4
        ring = torch.arange(nodes)
        pairs = torch.stack((ring, ring.roll(1)))[:, i % 2 :]
        graphs.append(
            Data(x=torch.ones(nodes, 1), edge_index=torch.cat((pairs, pairs.flip(0)), 1), y=torch.tensor([i % 2]))
        )
    return Graphs.from_list(graphs)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_and_the_same_seed_gives_the_same_weights(loss):
    def weights():
        method = train(paths_and_rings(), make_loss(loss), graphcl_view(), epochs=2, seed=3, batch_size=16).method
        return torch.cat([p.flatten() for p in method.parameters()])

    first = weights()
    assert torch.isfinite(first).all()
    assert torch.equal(first, weights())


def test_graphcls_form_leaves_the_positive_out_of_the_denominator():
    z1, z2 = torch.randn(6, 4), torch.randn(6, 4)
    method = train(paths_and_rings(), make_loss("graphcl"), graphcl_view(), epochs=1).method
    s = torch.nn.functional.cosine_similarity(z1[:, None], z2[None], dim=2) / 0.2
    others = s.masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf).logsumexp(1)
    torch.testing.assert_close(method.contrastive(z1, z2), (others - s.diag()).mean())


def test_the_wanted_epochs_are_evaluated():
    found = evaluate_epochs(paths_and_rings(), make_loss("rince"), graphcl_view(), 3, [1, 3], seed=0)
    assert list(found["epochs"]) == ["1", "3"]
    assert 0 <= found["epochs"]["3"]["accuracy"] <= 100
    assert len(found["epochs"]["3"]["folds"]) == 10
    assert len(found["loss"]) == 3


def test_a_lone_graph_in_the_last_batch_is_left_out():
    train(paths_and_rings(17), make_loss("infonce"), graphcl_view(), epochs=1, batch_size=16)
