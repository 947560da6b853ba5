"""Accuracy of classifiers on frozen features, by nested cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rince._support.optional_imports import require
from rince.errors import UsageError
from rince.evaluate.probes import check

if TYPE_CHECKING:
    from rince.data.graphs import Graphs

GRID = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
Array = NDArray[Any]


@dataclass(frozen=True)
class SVMResult:
    """Result of the cross-validation of an SVM.

    Attributes:
        accuracies: Accuracy of every outer fold.
        chosen: Chosen C of every outer fold.
        validation: Accuracy of the chosen C in the inner folds.
        predictions: (n,) held-out predictions.

    Example:
        >>> x, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
        >>> rince.evaluate.svm_accuracy(x, y, folds=4, inner_folds=2).accuracies
        (1.0, 1.0, 1.0, 1.0)
    """

    accuracies: tuple[float, ...]
    chosen: tuple[float, ...]
    validation: tuple[float, ...]
    predictions: Array

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the outer folds, in [0, 1]."""
        return float(np.mean(self.accuracies))


def svm_accuracy(
    features: ArrayLike | torch.Tensor,
    labels: ArrayLike | torch.Tensor,
    folds: int = 10,
    inner_folds: int = 5,
    grid: Sequence[float] = GRID,
    seed: int = 0,
    workers: int = 1,
) -> SVMResult:
    """Nested, stratified cross-validation of an SVM with an RBF kernel on frozen features.

    Args:
        features: (n, width) features.
        labels: (n,) classes.
        folds: Number of outer folds.
        inner_folds: Number of inner folds, to choose C.
        grid: Values of C to choose from.
        seed: Seed of the folds.
        workers: Number of processes that search for C.

    Returns:
        Accuracies, chosen C and predictions.

    Raises:
        UsageError: If features are not finite, or a class has too few samples for the folds.

    Example:
        >>> x, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
        >>> rince.evaluate.svm_accuracy(x, y, folds=4, inner_folds=2).accuracy
        1.0
    """
    require("sklearn", "train")
    from joblib import Parallel, delayed
    from sklearn.model_selection import StratifiedKFold

    x, y = _checked(features, labels, folds, inner_folds)
    c = sorted(grid)
    predictions, accuracies, chosen, validation = np.empty_like(y), [], [], []
    with Parallel(n_jobs=workers) as parallel:
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
            inner = StratifiedKFold(inner_folds).split(x[train], y[train])
            scores = parallel(delayed(_svm_scores)(x, y, train[fit], train[val], c) for fit, val in inner)
            means = np.mean(scores, axis=0)
            best = int(means.argmax())
            predictions[test] = _svm_predictions(x, y, train, test, [c[best]])[0]
            accuracies.append(float(np.mean(predictions[test] == y[test])))
            chosen.append(c[best])
            validation.append(float(means[best]))
    return SVMResult(tuple(accuracies), tuple(chosen), tuple(validation), predictions)


def _svm_scores(x: Array, y: Array, train: Array, test: Array, grid: Sequence[float]) -> list[float]:
    return [float(np.mean(labels == y[test])) for labels in _svm_predictions(x, y, train, test, grid)]


def _svm_predictions(x: Array, y: Array, train: Array, test: Array, grid: Sequence[float]) -> list[Array]:
    """Predictions of ``SVC(C=C)`` for every C. The kernel is computed once: several times faster than one per C."""
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.svm import SVC

    variance = x[train].var()
    gamma = 1 / (x.shape[1] * variance) if variance else 1.0  # "scale" of SVC
    fit, predict = rbf_kernel(x[train], gamma=gamma), rbf_kernel(x[test], x[train], gamma=gamma)
    return [SVC(C=c, kernel="precomputed").fit(fit, y[train]).predict(predict) for c in grid]


def linear_accuracy(
    features: ArrayLike | torch.Tensor,
    labels: ArrayLike | torch.Tensor,
    folds: int = 10,
    inner_folds: int = 5,
    grid: Sequence[float] = GRID,
    seed: int = 0,
) -> float:
    """As :func:`svm_accuracy`, for logistic regression on standardized features.

    Args:
        features: (n, width) features.
        labels: (n,) classes.
        folds: Number of outer folds.
        inner_folds: Number of inner folds, to choose C.
        grid: Values of C to choose from.
        seed: Seed of the folds.

    Returns:
        Mean accuracy over the outer folds, in [0, 1].

    Raises:
        UsageError: If features are not finite, or a class has too few samples for the folds.

    Example:
        >>> x, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
        >>> rince.evaluate.linear_accuracy(x, y, folds=4, inner_folds=2)
        1.0
    """
    require("sklearn", "train")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = _checked(features, labels, folds, inner_folds)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    search = GridSearchCV(probe, {"logisticregression__C": sorted(grid)}, cv=inner_folds)
    outer = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return float(cross_val_score(search, x, y, cv=outer).mean())


def _checked(features: Any, labels: Any, folds: int, inner_folds: int) -> tuple[Array, Array]:
    x = torch.as_tensor(features).detach().cpu().double()
    y = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)  # any type, such as strings
    classes, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    check(x, torch.from_numpy(codes))
    # The inner search splits (folds - 1) / folds of a class once more.
    min_samples = max(folds, inner_folds + -(-inner_folds // (folds - 1)))
    if sizes.min() < min_samples:
        raise UsageError(
            f"class {classes[sizes.argmin()]} has {sizes.min()} samples, {folds} folds with {inner_folds} inner ones "
            f"need {min_samples}: lower folds, or leave the class out"
        )
    return x.numpy(), y


def evaluate_graphs(method: Any, graphs: "Graphs", space: str = "encoder", seed: int = 0) -> dict[str, list[float]]:
    """Accuracy in percent of an SVM and a linear probe on frozen features, by 10-fold cross-validation.

    Args:
        method: A training method such as ``rince.methods.GraphCL``.
        graphs: Graphs with labels.
        space: ``"encoder"`` for the encoder's features, ``"projection"`` for the output of the projection head.
        seed: Seed of the folds.

    Returns:
        ``svm`` and ``linear``: mean and standard deviation over the folds.

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
    """(graphs, features) from the encoder in evaluation mode."""
    training = encoder.training
    encoder.eval()
    try:
        return torch.cat([encoder(graphs.batch(part)) for part in torch.arange(len(graphs)).split(batch_size)])
    finally:
        encoder.train(training)
