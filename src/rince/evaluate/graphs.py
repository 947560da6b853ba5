"""What the frozen features of a run on graphs are worth: the protocol's SVM and a linear probe, on the same folds."""

from statistics import stdev
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rince.evaluate.svm import linear_accuracy, svm_accuracy

if TYPE_CHECKING:
    from rince.data.graphs.graphs import Graphs


def evaluate_graphs(method: Any, graphs: "Graphs", space: str = "encoder", seed: int = 0) -> dict[str, list[float]]:
    """Accuracy in percent by 10-fold cross-validation: ``svm`` with its deviation over the folds, and ``linear``."""
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
