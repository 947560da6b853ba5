import torch
from torch_geometric.data import Data

from rince import RINCE, InfoNCE
from rince.data.graphs import Graphs
from rince.encoders.gin import GIN
from rince.evaluate.svm import features_of
from rince.methods.graphcl import GraphCL
from rince.views.graph import DropNodes, GraphViews


def rings_and_stars(number: int = 40) -> Graphs:
    graphs = []
    for i in range(number):
        nodes = 6 + i % 5
        ring = torch.arange(nodes)
        pairs = torch.stack((ring, ring.roll(1))) if i % 2 else torch.stack((torch.zeros(nodes - 1), ring[1:])).long()
        graphs.append(
            Data(x=torch.ones(nodes, 1), edge_index=torch.cat((pairs, pairs.flip(0)), 1), y=torch.tensor([i % 2]))
        )
    return Graphs.from_list(graphs)


def a_method(**options) -> GraphCL:
    torch.manual_seed(0)
    return GraphCL(GIN(1, width=8), RINCE(q=0.1, lam=0.025, temperature=0.2), GraphViews(), torch.optim.Adam, **options)


def test_the_contrast_is_one_direction_as_published_or_both():
    assert a_method().contrast.symmetric is False
    assert a_method(symmetric=True).contrast.symmetric is True


def test_the_loss_is_that_of_graphs_against_their_views():
    method, batch = a_method(), rings_and_stars().batch(range(16))
    method.loss = InfoNCE(temperature=0.2)
    _, z1, z2 = method.embeddings(*method.views(batch, torch.Generator().manual_seed(0)))
    scores = torch.nn.functional.cosine_similarity(z1[:, None], z2[None], dim=2) / 0.2
    torch.testing.assert_close(method.contrastive(z1, z2), torch.nn.functional.cross_entropy(scores, torch.arange(16)))


def test_features_of_a_data_set_do_not_depend_on_the_batch_size():
    graphs, method = rings_and_stars(), a_method()
    method.train()
    torch.testing.assert_close(features_of(method.encoder, graphs, 7), features_of(method.encoder, graphs, 100))
    assert method.encoder.training
    assert method.embed(graphs.batch()).shape == (40, 24)
    assert method.project(method.embed(graphs.batch())).shape == (40, 24)


def test_a_few_steps_lower_the_loss():
    graphs, method = rings_and_stars(64), a_method()
    method.views = GraphViews(DropNodes(0.2))
    optimizer, draws = torch.optim.Adam(method.parameters(), 0.01), torch.Generator().manual_seed(0)
    losses = []
    for _ in range(25):
        _, z1, z2 = method.embeddings(*method.views(graphs.batch(), draws))
        loss = method.contrastive(z1, z2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < sum(losses[:5])


def test_rince_train_runs_on_a_data_set_in_raw_format(tmp_path, capsys):
    from rince.cli import main

    graphs = rings_and_stars(24)
    write_raw(graphs, tmp_path / "RINGS")
    arguments = [
        "train", "tudataset/proteins", "--out", str(tmp_path / "runs"), "--name", "rings",
        "--data.dataset", "RINGS", "--data.root", str(tmp_path), "--data.batch_size", "8", "--encoder.in_features", "1",
        "--trainer.max_epochs", "2", "--trainer.enable_progress_bar", "false",
        "--trainer.enable_model_summary", "false",
    ]  # fmt: skip
    assert main(arguments) == 0, capsys.readouterr().err
    assert (tmp_path / "runs" / "rings" / "encoder.safetensors").exists()
    from rince.encoders.files import load_encoder

    assert features_of(load_encoder(tmp_path / "runs" / "rings"), graphs).shape == (24, 96)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "runs" / "rings")]) == 0
    assert "svm" in capsys.readouterr().out
    for option in ("--labels_per_class", "--k"):
        assert main(["evaluate", str(tmp_path / "runs" / "rings"), option, "3", "--force"]) == 2
        assert "omit --labels-per-class, --probe and --k" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "runs" / "rings"), "--draws", "3"]) == 2
    assert "--draws is the number of random draws of --labels-per-class" in capsys.readouterr().err


def write_raw(graphs: Graphs, folder) -> None:
    folder.mkdir()
    batch = graphs.batch()
    pairs = "".join(f"{u + 1}, {v + 1}\n" for u, v in batch.edge_index.T.tolist())
    (folder / f"{folder.name}_A.txt").write_text(pairs)
    (folder / f"{folder.name}_graph_indicator.txt").write_text("".join(f"{i + 1}\n" for i in batch.batch.tolist()))
    (folder / f"{folder.name}_graph_labels.txt").write_text("".join(f"{y}\n" for y in batch.y.tolist()))
