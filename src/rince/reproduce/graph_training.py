"""One run of GraphCL on a TUDataset: train, and evaluate the frozen encoder at given epochs.

The method is the one of ``rince train``; a plain loop drives it, because an experiment of forty short runs has no use
for checkpoints and logs within a run.
"""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rince import RINCE, ContrastiveLoss, InfoNCE
from rince._support.step_seeds import generator, number
from rince.data.graphs.graphs import Graphs
from rince.data.graphs.tudataset import tudataset
from rince.encoders.gin import GIN
from rince.errors import UsageError
from rince.losses import objectives
from rince.views.graph import GraphViews, View

if TYPE_CHECKING:
    from torch_geometric.data import Batch

    from rince.methods.graphcl import GraphCL

TEMPERATURE = 0.2
LOSSES = {  # name: (how it is written in a table, how it is made)
    "infonce": ("InfoNCE", lambda: InfoNCE(TEMPERATURE)),
    "graphcl": ("GraphCL's form", lambda: ContrastiveLoss(objectives.dcl, TEMPERATURE)),
    "rince": ("RINCE q 0.1", lambda: RINCE(q=0.1, lam=0.025, temperature=TEMPERATURE)),
    "rince-0.5": ("RINCE q 0.5", lambda: RINCE(q=0.5, lam=0.025, temperature=TEMPERATURE)),
    "rince-1": ("RINCE q 1", lambda: RINCE(q=1.0, lam=0.025, temperature=TEMPERATURE, scale="unit")),
}


def make_loss(name: str) -> ContrastiveLoss:
    if name not in LOSSES:
        raise UsageError(f"there is no loss '{name}' here; there are {', '.join(LOSSES)}")
    return LOSSES[name][1]()


@functools.lru_cache(maxsize=5)
def graphs_of(dataset: str, root: str, download: bool = False) -> Graphs:
    """A process that works on several runs reads each data set once."""
    return tudataset(dataset, root, download=download)


@dataclass
class Trained:
    method: "GraphCL"
    losses: list[float]  # the mean of every epoch
    cpu_seconds: float  # of training alone


def train(
    graphs: Graphs,
    loss: ContrastiveLoss,
    view: View,
    epochs: int = 20,
    seed: int = 0,
    batch_size: int = 128,
    lr: float = 0.01,
    partners: Tensor | None = None,
    after_epoch: "Callable[[int, GraphCL], Any] | None" = None,
) -> Trained:
    """GraphCL by its protocol: GIN, Adam, one augmented view; ``partners[i]`` is the graph whose view graph i gets."""
    from rince.methods.graphcl import GraphCL

    torch.manual_seed(number(seed, 0))
    method = GraphCL(GIN(graphs.num_features), loss, GraphViews(view), torch.optim.Adam)
    optimiser = torch.optim.Adam(method.parameters(), lr=lr)
    order, draws = generator(seed, 1), generator(seed, 2)
    history, spent = [], 0.0
    for epoch in range(1, epochs + 1):
        started = time.process_time()
        history.append(_epoch(method, optimiser, graphs, batch_size, order, draws, partners))
        spent += time.process_time() - started
        if after_epoch is not None:
            after_epoch(epoch, method)
    return Trained(method, history, spent)


def _epoch(
    method: "GraphCL",
    optimiser: torch.optim.Optimizer,
    graphs: Graphs,
    batch_size: int,
    order: torch.Generator,
    draws: torch.Generator,
    partners: Tensor | None,
) -> float:
    method.train()
    total = torch.zeros(())
    for chosen in torch.randperm(len(graphs), generator=order).split(batch_size):
        if len(chosen) < 2:
            continue  # nothing to contrast with
        first, second = views_of(method, graphs.batch(chosen), chosen, graphs, draws, partners)
        _, z1, z2 = method.embeddings(first, second)
        loss = method.contrastive(z1, z2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.detach() * len(chosen)
    mean = float(total) / len(graphs)
    if not torch.isfinite(total):
        raise UsageError(f"the loss became {mean}: lower the learning rate, or raise the temperature")
    return mean


def views_of(
    method: "GraphCL",
    batch: "Batch",
    chosen: Tensor,
    graphs: Graphs,
    draws: torch.Generator,
    partners: Tensor | None,
) -> "tuple[Batch, Batch]":
    """Two views of the chosen graphs, the second one of their partners where these are given."""
    if partners is None:
        return method.views(batch, draws)
    return batch, method.views(graphs.batch(partners[chosen]), draws)[1]


def evaluate_epochs(
    graphs: Graphs, loss: ContrastiveLoss, view: View, epochs: int, evaluated: Sequence[int], seed: int, **options: Any
) -> dict[str, Any]:
    """Train and tell the SVM's accuracy in percent at every one of the ``evaluated`` epochs, with times."""
    from rince.evaluate.graphs import features_of
    from rince.evaluate.svm import svm_accuracy

    found: dict[str, Any] = {}

    def look(epoch: int, method: "GraphCL") -> None:
        if epoch in evaluated:
            started = time.process_time()
            result = svm_accuracy(features_of(method.encoder, graphs), graphs.y, seed=seed)
            found[str(epoch)] = {
                "accuracy": 100 * result.accuracy,
                "folds": [100 * value for value in result.accuracies],
                "C": list(result.chosen),
                "validation": 100 * sum(result.validation) / len(result.validation),
                "cpu_seconds": time.process_time() - started,
            }

    trained = train(graphs, loss, view, epochs, seed, after_epoch=look, **options)
    return {"epochs": found, "loss": trained.losses, "training_cpu_seconds": trained.cpu_seconds}
