"""Other features of whole graphs, from their own libraries, evaluated like ``python -m experiments tudataset``.

    pip install grakel karateclub PyGCL
    python -m experiments graph-baselines --root FOLDER_WITH_ZIPS [--datasets MUTAG PROTEINS] [--seeds 5]

- WL: the Weisfeiler-Lehman subtree kernel of GraKeL, normalized; an SVM on the kernel, with the same folds and C.
- graph2vec, node2vec: karateclub's, the latter on all graphs as one, averaged over the nodes of each graph.
- InfoGraph: PyGCL's global-to-local contrast with the Jensen-Shannon estimator, on rince's GIN (3 layers, width 32),
  Adam 0.01, 20 epochs, batches of 128, as GraphCL has them.

Features go into the protocol's SVM (10 folds, nested). sub2vec, JOAO and JOAOv2 are in none of these libraries.
"""

import argparse
import importlib.util
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch_geometric.utils
from torch import Tensor, nn

from rince.data.graphs import Graphs, tudataset
from rince.encoders.gin import GIN, Neighbors, sum_over_graphs
from rince.evaluate.svm import GRID, svm_accuracy


def wl(graphs: Graphs, seed: int) -> float:
    """Accuracy of the kernel; iterations as is usual, 5."""
    from grakel.kernels import VertexHistogram, WeisfeilerLehman
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
    from sklearn.svm import SVC

    labeled = [(edges, dict(enumerate(labels))) for edges, labels in as_lists(graphs)]
    with_edges = [[{tuple(edge) for edge in edges}, labels] for edges, labels in labeled]
    kernel = WeisfeilerLehman(n_iter=5, base_graph_kernel=VertexHistogram, normalize=True).fit_transform(with_edges)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": GRID}, cv=5)
    folds = StratifiedKFold(10, shuffle=True, random_state=seed)
    return float(cross_val_score(search, kernel, graphs.y.numpy(), cv=folds).mean())


def graph2vec(graphs: Graphs, seed: int) -> float:
    """Accuracy of karateclub's features, with node labels as first words; its own 10 epochs learn nothing on MUTAG."""
    from karateclub import Graph2Vec

    model = Graph2Vec(attributed=True, epochs=100, workers=1, seed=seed)
    order, given = shuffled(len(graphs), seed), [networkx_graph(edges, labels) for edges, labels in as_lists(graphs)]
    model.fit([given[i] for i in order])
    return svm_accuracy(model.get_embedding(), graphs.y[order], seed=seed).accuracy


def node2vec(graphs: Graphs, seed: int) -> float:
    """Accuracy of karateclub's features at its own settings, but for 3 walks of 20 steps per node."""
    import networkx
    from karateclub import Node2Vec

    start = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_ptr.diff())
    union = networkx.Graph()
    union.add_nodes_from(shuffled(len(graphs.x), seed))
    union.add_edges_from((graphs.edge_index + start).T.tolist())
    model = Node2Vec(walk_number=3, walk_length=20, workers=1, seed=seed)
    model.fit(union)
    nodes = np.asarray(model.get_embedding())
    means = [nodes[a:b].mean(0) for a, b in zip(graphs.node_ptr[:-1], graphs.node_ptr[1:], strict=True)]
    return svm_accuracy(np.stack(means), graphs.y, seed=seed).accuracy


def shuffled(number: int, seed: int) -> list[int]:
    """Random order, since vectors depend on the training order and PROTEINS is sorted by class."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed)).tolist()


def infograph(graphs: Graphs, seed: int, epochs: int = 20) -> float:
    """Accuracy of the encoder after training without labels."""
    stand_in("dgl", DGLGraph=object)
    stand_in("torch_sparse", SparseTensor=object, coalesce=object)
    stand_in("torch_scatter", scatter=torch_geometric.utils.scatter)
    from GCL.losses import JSD
    from GCL.models import SingleBranchContrast

    torch.manual_seed(seed)
    encoder = GIN(graphs.num_features)
    heads = [nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96)) for _ in range(2)]
    parameters = [p for part in (encoder, *heads) for p in part.parameters()]
    optimizer, contrast = torch.optim.Adam(parameters, lr=0.01), SingleBranchContrast(JSD(), mode="G2L")
    for _ in range(epochs):
        for chosen in torch.randperm(len(graphs)).split(128):
            batch = graphs.batch(chosen)
            nodes, pooled = node_and_graph_features(encoder, batch)
            value = contrast(h=heads[0](nodes), g=heads[1](pooled), batch=batch.batch)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    encoder.eval()
    with torch.no_grad():
        features = node_and_graph_features(encoder, graphs.batch())[1]
    return svm_accuracy(features, graphs.y, seed=seed).accuracy


def stand_in(name: str, **contents: Any) -> None:
    """PyGCL imports extensions that have no build beside every torch, mostly for what is not used here."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module


def node_and_graph_features(encoder: GIN, batch: Any) -> tuple[Tensor, Tensor]:
    """All layers of the encoder side by side, of every node and summed over every graph."""
    x, layers, neighbors = batch.x, [], Neighbors(batch.edge_index, len(batch.x))
    for layer in encoder.layers:
        x = layer(x, neighbors)
        layers.append(x)
    nodes = torch.cat(layers, 1)
    return nodes, sum_over_graphs(nodes, batch.batch, batch.ptr)


def as_lists(graphs: Graphs) -> Iterator[tuple[list[list[int]], list[int]]]:
    """Edges and node labels of every graph."""
    for i in range(len(graphs)):
        graph = graphs[i]
        yield graph.edge_index.T.tolist(), graph.x.argmax(1).tolist()


def networkx_graph(edges: list[list[int]], labels: list[int]) -> Any:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from((i, {"feature": label}) for i, label in enumerate(labels))
    graph.add_edges_from(edges)
    return graph


METHODS: dict[str, Callable[[Graphs, int], float]] = {
    "WL kernel": wl,
    "graph2vec": graph2vec,
    "node2vec": node2vec,
    "InfoGraph": infograph,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", default="data/tudataset")
    parser.add_argument("--datasets", nargs="+", default=["MUTAG", "PROTEINS"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for dataset in options.datasets:
        graphs = tudataset(dataset, options.root)
        for name in options.methods:
            started = time.process_time()
            accuracies = [100 * METHODS[name](graphs, seed) for seed in range(options.seeds)]
            spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
            cost = (time.process_time() - started) / len(accuracies)
            print(
                f"{dataset:<10}{name:<12}{statistics.fmean(accuracies):.1f} ± {spread:.1f}   {cost:.0f} CPU s",
                flush=True,
            )
