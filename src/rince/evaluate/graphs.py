"""What the frozen features of a run on graphs are worth: the protocol's SVM and a linear probe, on the same folds."""

from statistics import stdev
from typing import Any

import torch

from rince.data.graphs import Graphs
from rince.evaluate.svm import linear_accuracy, svm_accuracy
from rince.methods.graphcl import features_of


def evaluate_graphs(method: Any, graphs: Graphs, space: str = "encoder", seed: int = 0) -> dict[str, list[float]]:
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
