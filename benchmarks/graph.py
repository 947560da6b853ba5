"""What an epoch of GraphCL and an SVM evaluation cost, in CPU seconds on one thread.

    python benchmarks/graph.py --root FOLDER_WITH_ZIPS [--datasets PROTEINS NCI1] [--parts epoch svm growth lightning]

Beside each epoch is the same work done the plain way in the same process: views graph by graph, PyG's collation and
PyG's GIN.
"""

import argparse
import itertools
import logging
import random
import time
from collections.abc import Callable

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool

from rince.data.graphs import Graphs, tudataset
from rince.encoders.gin import GIN
from rince.evaluate.svm import features_of, svm_accuracy
from rince.losses import RINCE
from rince.methods.graphcl import GraphCL
from rince.views.graph import GraphViews


def cpu(work: Callable[[], object], times: int = 3) -> float:
    """The least CPU seconds of several tries: what the work costs when nobody disturbs it."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def make_loss() -> RINCE:
    return RINCE(q=0.1, lam=0.025, temperature=0.2)


def train(graphs: Graphs, epochs: int) -> tuple[GraphCL, float]:
    """GraphCL in a bare loop, and its CPU seconds for an epoch: what the method costs without a trainer around it."""
    torch.manual_seed(0)
    method = GraphCL(GIN(graphs.num_features), make_loss(), GraphViews(), torch.optim.Adam)
    optimizer, draws = torch.optim.Adam(method.parameters(), 0.01), torch.Generator().manual_seed(0)
    started = time.process_time()
    for _ in range(epochs):
        for chosen in torch.randperm(len(graphs)).split(128):
            _, z1, z2 = method.embeddings(*method.views(graphs.batch(chosen), draws))
            value = method.loss(z1, z2)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return method, (time.process_time() - started) / epochs


# The plain way: one graph at a time.


def plain_view(graph: Data, rng: random.Random) -> Data:
    n, kind = graph.num_nodes, rng.randrange(4)
    if kind == 0:
        return kept(graph, set(rng.sample(range(n), n - int(0.1 * n + rng.random()) or 1)))
    if kind == 1:
        return rewired(graph, rng)
    if kind == 2:
        x = graph.x.clone()
        chosen = rng.sample(range(n), int(0.1 * n + rng.random()))
        x[chosen] = torch.randn(len(chosen), x.shape[1]) * 0.5 + 0.5
        return Data(x=x, edge_index=graph.edge_index)
    neighbors: dict[int, list[int]] = {}
    for u, v in graph.edge_index.T.tolist():
        neighbors.setdefault(u, []).append(v)
    here, target, fruitless = rng.randrange(n), max(1, n - int(0.2 * n + rng.random())), 0
    visited = {here}
    while len(visited) < target:
        here = rng.choice(neighbors.get(here, [here]))
        fruitless = fruitless + 1 if here in visited else 0
        if fruitless > 32:
            here, fruitless = rng.choice([i for i in range(n) if i not in visited]), 0
        visited.add(here)
    return kept(graph, visited)


def kept(graph: Data, nodes: set[int]) -> Data:
    place = {node: i for i, node in enumerate(sorted(nodes))}
    edges = [(place[u], place[v]) for u, v in graph.edge_index.T.tolist() if u in place and v in place]
    return Data(x=graph.x[sorted(nodes)], edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T)


def rewired(graph: Data, rng: random.Random) -> Data:
    pairs = {(u, v) for u, v in graph.edge_index.T.tolist() if u < v}
    number = int(0.1 * len(pairs) + rng.random())
    left = pairs - set(rng.sample(sorted(pairs), number))
    for _ in range(20 * number):
        u, v = sorted((rng.randrange(graph.num_nodes), rng.randrange(graph.num_nodes)))
        if len(left) < len(pairs) and u != v and (u, v) not in pairs:
            left.add((u, v))
    edges = [*left, *((v, u) for u, v in left)]
    return Data(x=graph.x, edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T)


class PlainGIN(nn.Module):
    def __init__(self, features: int, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        sizes = [features, *[width] * layers]
        pairs = list(itertools.pairwise(sizes))
        maps = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)) for a, b in pairs]
        self.convolutions = nn.ModuleList(GINConv(one) for one in maps)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96))

    def forward(self, batch: Batch) -> torch.Tensor:
        x, pooled = batch.x, []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(x, batch.edge_index).relu())
            pooled.append(global_add_pool(x, batch.batch))
        return self.head(torch.cat(pooled, 1))


def plain_epoch(graphs: list[Data], features: int) -> None:
    torch.manual_seed(0)
    net, loss, rng = PlainGIN(features), make_loss(), random.Random(0)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for chosen in torch.randperm(len(graphs)).split(128):
        mine = [graphs[i] for i in chosen.tolist()]
        first, second = Batch.from_data_list(mine), Batch.from_data_list([plain_view(g, rng) for g in mine])
        value = loss(net(first), net(second))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()


def our_epoch(graphs: Graphs) -> float:
    return min(train(graphs, epochs=3)[1] for _ in range(2))


def epoch(datasets: dict[str, Graphs]) -> None:
    print("One epoch, CPU seconds:")
    for name, graphs in datasets.items():
        ours = our_epoch(graphs)
        one_by_one = [Data(x=g.x, edge_index=g.edge_index) for g in (graphs[i] for i in range(len(graphs)))]
        plain = cpu(lambda one_by_one=one_by_one, graphs=graphs: plain_epoch(one_by_one, graphs.num_features), 1)
        print(f"  {name:<14} ours {ours:7.3f}   graph by graph {plain:7.3f}   ratio {plain / ours:5.1f}", flush=True)


def svm(datasets: dict[str, Graphs]) -> None:
    print("One SVM evaluation (10 folds, 5 inner, 7 values of C), CPU seconds:")
    for name, graphs in datasets.items():
        method, _ = train(graphs, epochs=10)
        x = features_of(method.encoder, graphs)
        print(f"  {name:<14} {cpu(lambda x=x, y=graphs.y: svm_accuracy(x, y), 1):7.2f}", flush=True)


def growth(datasets: dict[str, Graphs]) -> None:
    print("One epoch for 1, 2 and 4 times the graphs, CPU seconds (and per graph, in milliseconds):")
    for name, graphs in datasets.items():
        cells = []
        for factor in (1, 2, 4):
            larger = graphs.subset(torch.arange(len(graphs)).repeat(factor))
            seconds = our_epoch(larger)
            cells.append(f"{factor}x {seconds:6.3f} ({1000 * seconds / len(larger):.3f})")
        print(f"  {name:<14} " + "   ".join(cells), flush=True)


def lightning(datasets: dict[str, Graphs]) -> None:
    """The same method driven by Lightning, as ``rince train`` drives it, without checkpoints."""
    import warnings

    from lightning.pytorch import Trainer

    from rince.data.graphs import GraphData

    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    print("One epoch by Lightning, CPU seconds:")
    for name, graphs in datasets.items():
        data = GraphData(graphs)

        def fit(epochs: int, graphs: Graphs = graphs, data: GraphData = data) -> float:
            method = GraphCL(GIN(graphs.num_features), make_loss(), GraphViews(), torch.optim.Adam)
            quiet = dict.fromkeys(
                ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"), False
            )
            trainer = Trainer(max_epochs=epochs, accelerator="cpu", use_distributed_sampler=False, **quiet)
            return cpu(lambda: trainer.fit(method, datamodule=data), 1)

        seconds = (fit(6) - fit(1)) / 5
        print(f"  {name:<14} {seconds:7.3f}", flush=True)


def main() -> None:
    parts = {"epoch": epoch, "svm": svm, "growth": growth, "lightning": lightning}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default="data/tudataset")
    parser.add_argument("--datasets", nargs="+", default=["PROTEINS", "NCI1"])
    parser.add_argument("--parts", nargs="+", default=["epoch", "growth", "lightning", "svm"], choices=parts)
    options = parser.parse_args()
    torch.set_num_threads(1)
    datasets = {name: tudataset(name, options.root) for name in options.datasets}
    for part in options.parts:
        parts[part](datasets)


if __name__ == "__main__":
    main()
