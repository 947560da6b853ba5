"""What the frozen features of a run on graphs are worth: the protocol's SVM and a linear probe, on the same folds."""

from statistics import stdev
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rince.evaluate.svm import linear_accuracy, svm_accuracy

if TYPE_CHECKING:
    from rince.data.graphs.graphs import Graphs


def evaluate_graphs(method: Any, graphs: "Graphs", space: str = "encoder", seed: int = 0) -> dict[str, list[float]]:
    """Accuracy in percent of two classifiers on frozen features, by 10-fold cross-validation.

    Args:
        method: A training method such as ``rince.methods.GraphCL``.
        graphs: Graphs with labels.
        space: ``"encoder"`` for the encoder's features, ``"projection"`` for the output of the projection head.
        seed: Seed of the folds.

    Returns:
        ``svm``, an SVM's mean over the folds and its deviation, and ``linear``, a linear probe's.

    Example:
        >>> from torch_geometric.data import Data
        >>> def star(leaves, kind):
        ...     edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
        ...     return Data(x=torch.ones(leaves + 1, 1), edge_index=torch.cat([edges, edges.flip(0)], 1), y=kind)
        >>> graphs = rince.data.Graphs.from_list([star(3 + 4 * (i % 2), torch.tensor([i % 2])) for i in range(40)])
        >>> from rince.methods import GraphCL
        >>> method = GraphCL(rince.encoders.GIN(1), rince.InfoNCE(), rince.views.GraphViews(), torch.optim.Adam)
        >>> rince.evaluate.evaluate_graphs(method, graphs)["svm"][0]
        100.0
    """
    features = features_of(method.encoder, graphs)
    if space == "projection":
        with torch.no_grad():
            features = method.project(features)
    result = svm_accuracy(features, graphs.y, seed=seed)
    return {
        "svm": [100 * result.accuracy, 100 * stdev(result.accuracies)],
        "linear": [100 * linear_accuracy(features, graphs.y, seed=seed), 0.0],
    }


@torch.no_grad()
def features_of(encoder: nn.Module, graphs: "Graphs", batch_size: int = 512) -> Tensor:
    """Features of a whole data set from the encoder in evaluation mode, [graphs, features]."""
    training = encoder.training
    encoder.eval()
    try:
        return torch.cat([encoder(graphs.batch(part)) for part in torch.arange(len(graphs)).split(batch_size)])
    finally:
        encoder.train(training)
