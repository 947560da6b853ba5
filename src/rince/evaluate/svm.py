"""Accuracy of an RBF support vector machine on frozen features, by nested cross-validation.

The answers are those of ``GridSearchCV(SVC(), {"C": grid}, cv=5)`` on the same outer folds. Our own search stays, since
it takes 0.4 (MUTAG) to 0.5 (PROTEINS) of the CPU time: distances are computed once, kernels once for all C.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rince._support.optional_imports import require
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.data.graphs import Graphs

GRID = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
Array = NDArray[Any]


@dataclass(frozen=True)
class SVMResult:
    """The results of cross-validation of an SVM.

    Attributes:
        accuracies: Of every outer fold.
        chosen: The C chosen for it.
        validation: The accuracy of that C in the inner folds.
        predictions: The prediction of every sample while it was held out.

    Example:
        >>> x, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
        >>> rince.evaluate.svm_accuracy(x, y, folds=4, inner_folds=2).accuracies
        (1.0, 1.0, 1.0, 1.0)
    """

    accuracies: tuple[float, ...]
    chosen: tuple[float, ...]
    validation: tuple[float, ...]  # the chosen C's accuracy in the inner folds
    predictions: Array

    @property
    def accuracy(self) -> float:
        """The mean over the outer folds, from 0 to 1."""
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
    """Stratified cross-validation of an SVM with an RBF kernel on frozen features; C is chosen by inner folds.

    Args:
        features: (n, width).
        labels: (n,) classes.
        folds: Outer folds, for the accuracy.
        inner_folds: Inner folds of every outer one, for C.
        grid: The C to choose from.
        seed: Seed of the folds.
        workers: Number of threads; each works on one outer fold.

    Returns:
        Accuracies, chosen C and predictions.

    Raises:
        UsageError: If there are too few samples of a class for the folds, or a C is not positive.

    Example:
        >>> x, y = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
        >>> rince.evaluate.svm_accuracy(x, y, folds=4, inner_folds=2).accuracy
        1.0
    """
    require("sklearn", "train")
    from sklearn.model_selection import StratifiedKFold

    x, y = _checked(features, labels, folds, inner_folds)
    ordered = _checked_grid(grid)
    squares = np.einsum("ij,ij->i", x, x)
    distances = np.maximum(squares[:, None] + squares - 2 * (x @ x.T), 0)
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y)
    with ThreadPoolExecutor(max(1, min(workers, os.cpu_count() or 1))) as pool:
        jobs = [
            (test, pool.submit(_fold, x, y, distances, train, test, inner_folds, ordered)) for train, test in splits
        ]
        results = [(test, *job.result()) for test, job in jobs]
    predictions = np.empty_like(y)
    for test, predicted, _, _ in results:
        predictions[test] = predicted
    return SVMResult(
        accuracies=tuple(float(np.mean(predicted == y[test])) for test, predicted, _, _ in results),
        chosen=tuple(c for _, _, c, _ in results),
        validation=tuple(score for *_, score in results),
        predictions=predictions,
    )


def linear_accuracy(
    features: ArrayLike | torch.Tensor,
    labels: ArrayLike | torch.Tensor,
    folds: int = 10,
    inner_folds: int = 5,
    grid: Sequence[float] = GRID,
    seed: int = 0,
) -> float:
    """The same folds and search as :func:`svm_accuracy` for a linear probe: logistic regression on standardized
    features.

    Args:
        features: (n, width).
        labels: (n,) classes.
        folds: Outer folds, for the accuracy.
        inner_folds: Inner folds of every outer one, for C.
        grid: The C to choose from.
        seed: Seed of the folds.

    Returns:
        The mean accuracy over the outer folds, from 0 to 1.

    Raises:
        UsageError: If there are too few samples of a class for the folds, or a C is not positive.

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
    search = GridSearchCV(probe, {"logisticregression__C": _checked_grid(grid)}, cv=inner_folds)
    outer = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return float(cross_val_score(search, x, y, cv=outer).mean())


def _checked_grid(grid: Sequence[float]) -> list[float]:
    if not len(grid) or min(grid) <= 0:
        raise UsageError(f"grid must hold values of C above 0, got {list(grid)}")
    return sorted(grid)


def _checked(features: Any, labels: Any, folds: int, inner_folds: int) -> tuple[Array, Array]:
    def array(values: Any) -> Array:
        return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)

    x, y = array(features).astype(np.float64), array(labels)
    if x.ndim != 2 or y.ndim != 1 or len(x) != len(y):
        raise UsageError(f"need features [n, d] and labels [n], got {x.shape} and {y.shape}")
    if folds < 2 or inner_folds < 2:
        raise UsageError(f"folds and inner_folds must be at least 2, got {folds} and {inner_folds}")
    if not np.isfinite(x).all():
        raise UsageError(f"{int((~np.isfinite(x)).any(1).sum())} of {len(x)} feature rows are not finite")
    classes, sizes = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise UsageError(f"a classifier needs two classes, all {len(y)} samples are of class {classes.tolist()}")
    # The inner search sees (folds - 1) / folds of a class and splits that once more.
    least = max(folds, inner_folds + -(-inner_folds // (folds - 1)))
    if sizes.min() < least:
        rare = classes[sizes.argmin()]
        raise UsageError(
            f"class {rare} has {sizes.min()} samples, {folds} folds with {inner_folds} inner ones need {least}: "
            "lower folds, or leave the class out"
        )
    return x, y


def _fold(
    x: Array,
    y: Array,
    distances: Array,
    train: Array,
    test: Array,
    inner_folds: int,
    grid: Sequence[float],
) -> tuple[Array, float, float]:
    """Predictions for ``test``, the C chosen on ``train`` and its accuracy there."""
    from sklearn.model_selection import StratifiedKFold

    inner = [(train[a], train[b]) for a, b in StratifiedKFold(inner_folds).split(train, y[train])]
    kernels = [_kernels(x, distances, a, b) for a, b in inner]

    best, chosen = -1.0, grid[0]
    for c in grid:
        accuracies: list[float] = []
        for (a, b), (kernel, held_out) in zip(inner, kernels, strict=True):
            accuracies.append(float(np.mean(_predict(kernel, y[a], held_out, c) == y[b])))
            if (sum(accuracies) + inner_folds - len(accuracies)) / inner_folds < best - 1e-9:
                break  # even perfect folds to come could not win
        else:
            if np.average(accuracies) > best:  # ties go to the smaller C, as in a grid search
                best, chosen = float(np.average(accuracies)), c
    kernel, held_out = _kernels(x, distances, train, test)
    return _predict(kernel, y[train], held_out, chosen), chosen, best


def _kernels(x: Array, distances: Array, train: Array, test: Array) -> tuple[Array, Array]:
    """The RBF kernel among ``train`` and from ``test`` to ``train``, with scikit-learn's ``gamma="scale"``."""
    variance = x[train].var()
    gamma = 1.0 / (x.shape[1] * variance) if variance > 0 else 1.0

    def kernel(rows: Array) -> Array:
        # torch's exp is several times as fast as numpy's on double precision.
        part = torch.from_numpy(distances[np.ix_(rows, train)])
        return part.mul_(-gamma).exp_().numpy()

    return kernel(train), kernel(test)


def _predict(kernel: Array, labels: Array, held_out: Array, c: float) -> Array:
    from sklearn import config_context
    from sklearn.svm import SVC

    with config_context(assume_finite=True, skip_parameter_validation=True):  # both were checked at the door
        machine = SVC(C=c, kernel="precomputed", cache_size=1000)
        return machine.fit(kernel, labels).predict(held_out)


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
