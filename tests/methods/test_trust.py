"""What methods make of the trust in pairs: the weights of the loss, and embeddings of both sides to judge pairs by."""

import pytest
import torch
from torch import nn

import rince
from rince.encoders import MLP, Towers
from rince.losses import CrossView, Supervised
from rince.methods import CrossModal, SimCLR, SupCon
from rince.views import ImageBatch, PairBatch, PairViews, Unchanged

Z1, Z2 = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))
WEIGHTS = torch.tensor([1.0, 0.0, 0.3, 0.7, 1.0, 0.1])


def images(**more):
    return ImageBatch(Z1, torch.tensor([0, 0, 1, 1, 0, 1]), torch.arange(6), **more)


def image_method(kind, loss=None, **options):
    return kind(MLP([4, 8]), rince.InfoNCE() if loss is None else loss, Plain(), torch.optim.Adam, **options)


class Plain(nn.Module):
    def plain(self, items):
        return items


def test_a_pair_counts_as_much_as_it_is_trusted():
    expected = rince.InfoNCE()(Z1, Z2, weights=WEIGHTS)
    assert torch.equal(image_method(SimCLR).compare(Z1, Z2, images(weights=WEIGHTS)), expected)
    assert torch.equal(image_method(SupCon).compare(Z1, Z2, images(weights=WEIGHTS)), expected)
    method = CrossModal(
        Towers(MLP([6, 8]), MLP([6, 8])), rince.InfoNCE(), PairViews(Unchanged(), Unchanged()), torch.optim.Adam
    )
    batch = PairBatch(Z1, Z2, torch.zeros(6), torch.arange(6), weights=WEIGHTS)
    expected = rince.InfoNCE(contrast=CrossView())(Z1, Z2, weights=WEIGHTS)
    assert torch.equal(method.compare_pairs(Z1, Z2, batch), expected)


def test_a_loss_without_weights_is_called_without_where_there_are_none():
    method = image_method(SimCLR, nn.MSELoss())
    assert method.compare(Z1, Z2, images()) == nn.functional.mse_loss(Z1, Z2)


def test_custom_method_names_its_weights_and_temperature():
    class Own(SimCLR):
        def pair_weights(self, batch):
            return batch["confidence"]

        def temperature(self, otherwise):
            return self.loss.tau

    loss = nn.MSELoss()
    loss.tau = 0.3
    own = {"confidence": WEIGHTS}
    assert image_method(Own, loss).pair_weights(own) is WEIGHTS and image_method(Own, loss).temperature(0.1) == 0.3
    assert image_method(SimCLR, loss).pair_weights(own) is None and image_method(SimCLR, loss).temperature(0.1) == 0.1
    assert image_method(SimCLR, rince.InfoNCE(temperature=0.2)).temperature(0.1) == 0.2


def test_a_mistrusted_label_makes_no_pairs_among_several_positives():
    """Images 1, 2 and 5 are left with their own other views, and count in full."""
    found = image_method(SupCon, positives="several").compare(Z1, Z2, images(weights=WEIGHTS))
    labels = torch.tensor([0, 10, 11, 1, 0, 12])
    weights = torch.tensor([1.0, 1.0, 1.0, 0.7, 1.0, 1.0])
    expected = rince.InfoNCE(contrast=Supervised())(Z1, Z2, labels=labels, weights=weights)
    assert torch.allclose(found, expected)


def test_zero_weight_pairs_are_negatives_only():
    method = image_method(SimCLR)
    plain = method.compare(Z1, Z2, images())
    assert torch.allclose(plain, method.compare(Z1, Z2, images(weights=torch.ones(6))))
    a = Z1.clone().requires_grad_()
    method.compare(a, Z2, images(weights=torch.tensor([1.0, 0, 0, 0, 0, 0]))).backward()
    assert a.grad[0].abs().sum() > 0 and a.grad[1].abs().sum() > 0
    positive = nn.functional.normalize(a.detach()[1:2]), nn.functional.normalize(Z2[1:2])
    assert float((a.grad[1] * (positive[0] + positive[1])).sum().abs()) < 1  # no pull towards its partner


def test_both_sides_of_pairs_to_judge_them_by():
    method = image_method(SimCLR, hidden=0, width=3).eval()
    first, second = method.pair_embeddings(images(partners=Z2))
    assert torch.equal(first, method.project(method.encoder(Z1)))
    assert torch.equal(second, method.project(method.encoder(Z2)))
    first, second = method.pair_embeddings(images())
    assert torch.equal(first, second)


@pytest.mark.parametrize(("kind", "trusts"), [(SimCLR, "pairs"), (SupCon, "labels")])
def test_weights_are_those_of_pairs_or_labels(kind, trusts):
    assert image_method(kind).weights_for == trusts


def test_mispaired_graphs_get_the_view_of_their_partner():
    geometric = pytest.importorskip("torch_geometric.data")
    from rince.data.graphs import Graphs
    from rince.encoders.gin import GIN
    from rince.methods import GraphCL
    from rince.views.graph import GraphViews

    draws = torch.Generator().manual_seed(0)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    many = [
        geometric.Data(x=torch.randn(3, 2, generator=draws), edge_index=edges, y=torch.tensor([0])) for _ in range(8)
    ]
    graphs = Graphs.from_list(many)
    method = GraphCL(GIN(2, 4, 2), rince.InfoNCE(), GraphViews(lambda batch, draws: batch), torch.optim.Adam).eval()
    batch = graphs.batch(torch.arange(8))
    batch.partners, batch.weights = graphs.batch(torch.arange(8).roll(1)), torch.linspace(0, 1, 8)
    z1, z2 = method.pair_embeddings(batch)
    assert torch.allclose(z2, z1.roll(1, 0), atol=1e-6)
    method.note_similarity = lambda *views: None
    method.trainer = type("T", (), {"global_rank": 0, "world_size": 1})()
    expected = rince.InfoNCE(contrast=CrossView(symmetric=False))(z1, z2, weights=batch.weights)
    assert torch.allclose(method.batch_loss(batch), expected, atol=1e-6)
