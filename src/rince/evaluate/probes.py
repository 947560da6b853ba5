"""Classifiers on frozen features: linear probes and nearest neighbors."""

import numbers
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.errors import UsageError

DECAYS = (1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
SMALL = 10_000_000
"""Matrix size in elements below which a single thread is fastest."""


class LinearProbe(NamedTuple):
    """A linear classifier: logits are ``(x - mean) / std @ weight.T + bias``.

    Attributes:
        weight: (classes, width).
        bias: (classes,).
        mean: (width,) mean of the training features.
        std: (width,) standard deviation of the training features.
        decay: Weight decay of the fit.

    Example:
        >>> x, y = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 0, 1, 1])
        >>> rince.evaluate.fit_linear(x, y, decay=1e-3).predict(torch.tensor([[-1.0], [5.0]]))
        tensor([0, 1])
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    std: Tensor
    decay: float

    def predict(self, features: Tensor) -> Tensor:
        """(n,) predicted classes."""
        x = (features.to(self.mean) - self.mean) / self.std
        return (x @ self.weight.T + self.bias).argmax(1)

    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        """Accuracy in [0, 1]."""
        return float((self.predict(features) == labels).double().mean())


def logistic_regression(
    x: Tensor,
    y: Tensor,
    classes: int,
    decay: float,
    start: Tensor | None = None,
    steps: int = 1000,
    tolerance: float = 1e-6,
) -> Tensor:
    """(classes, width + 1) weights that minimize mean cross-entropy + decay / 2 |W|^2; the last column is the bias.

    For two classes scikit-learn has one row; a softmax over two rows uses half of it with opposite signs.
    """
    sklearn = require("sklearn.linear_model", "train")
    present = y.unique().cpu()
    divisor = 2.0 if len(present) == 2 else 1.0
    penalty = np.inf if decay == 0 else divisor / (len(x) * decay)
    model = sklearn.LogisticRegression(C=penalty, tol=tolerance, max_iter=steps, warm_start=True)
    if start is not None:
        rows = start.cpu()[present[1:] if divisor == 2 else present].numpy() * divisor
        model.classes_, model.coef_, model.intercept_ = present.numpy(), rows[:, :-1].copy(), rows[:, -1].copy()
    thread_limit = require("threadpoolctl", "train").threadpool_limits  # a dependency of scikit-learn
    with thread_limit(1 if x.numel() < SMALL else None, user_api="blas"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=require("sklearn.exceptions", "train").ConvergenceWarning)
        model.fit(x.cpu().numpy(), y.cpu().numpy())
    rows = np.concatenate([model.coef_, model.intercept_[:, None]], 1) / divisor
    weight = x.new_zeros(classes, x.shape[1] + 1)
    weight[:, -1] = -torch.inf  # absent classes are never predicted
    weight[present] = torch.from_numpy(np.concatenate([-rows, rows]) if divisor == 2 else rows).to(x)
    return weight


def fit_linear(
    features: Tensor,
    labels: Tensor,
    decay: float | Sequence[float] = DECAYS,
    validation: float = 0.2,
    seed: int = 0,
) -> LinearProbe:
    """Linear probe: logistic regression on standardized features, fitted to convergence.

    Args:
        features: (n, width) features of a frozen encoder.
        labels: (n,) classes from 0.
        decay: Weight decay, or several to choose from on a validation split.
        validation: Share of the validation split.
        seed: Seed of the validation split.

    Returns:
        The probe.

    Raises:
        UsageError: If decay is negative, features and labels do not match, or only one class is present.

    Example:
        >>> x, y = torch.randn(200, 8), torch.arange(200) % 2
        >>> x[:, 0] += 4 * y
        >>> rince.evaluate.fit_linear(x, y).accuracy(x, y) > 0.9
        True
    """
    check(features, labels)
    x, y = features.double(), labels.long()
    classes = int(y.max()) + 1
    mean, std = x.mean(0), x.std(0)
    std = torch.where(std > 1e-8, std, 1.0)
    x = (x - mean) / std
    several = [decay] if isinstance(decay, numbers.Real | float) else decay
    decays = sorted(map(float, several), reverse=True)
    if not decays or decays[-1] < 0:
        raise UsageError(f"decay must be at least 0, got {decay!r}")
    decay = decays[0] if len(decays) == 1 else _best_decay(x, y, classes, decays, validation, seed)
    weight = logistic_regression(x, y, classes, decay)
    return LinearProbe(weight[:, :-1], weight[:, -1], mean, std, decay)


def _best_decay(x: Tensor, y: Tensor, classes: int, decays: Sequence[float], validation: float, seed: int) -> float:
    order = torch.randperm(len(x), generator=generator(seed, 50))
    num_validation = max(1, round(validation * len(x)))
    test, train = order[:num_validation], order[num_validation:]
    best, best_accuracy, weight, num_worse = decays[0], -1.0, None, 0
    for decay in decays:  # from strong to weak, with a warm start
        weight = logistic_regression(x[train], y[train], classes, decay, weight, steps=200)
        logits = x[test] @ weight[:, :-1].T + weight[:, -1]
        accuracy = float((logits.argmax(1) == y[test]).double().mean())
        best, best_accuracy, num_worse = (
            (decay, accuracy, 0) if accuracy > best_accuracy else (best, best_accuracy, num_worse + 1)
        )
        if num_worse == 3:  # weaker decays are slower and no better
            break
    return best


def fit_adam(
    features: Tensor,
    labels: Tensor,
    epochs: int = 100,
    lr: float = 1e-3,
    decay: float = 1e-6,
    batch_size: int = 256,
    seed: int = 0,
) -> LinearProbe:
    """The paper's probe for CIFAR-10: a linear layer on the raw features, trained with Adam.

    Args:
        features: (n, width) features of a frozen encoder.
        labels: (n,) classes from 0.
        epochs: Number of epochs.
        lr: Learning rate.
        decay: Weight decay.
        batch_size: Batch size.
        seed: Seed of the order of the items and of the initial weights.

    Returns:
        The probe.

    Example:
        >>> x, y = torch.randn(200, 8), torch.arange(200) % 2
        >>> x[:, 0] += 4 * y
        >>> rince.evaluate.fit_adam(x, y, epochs=20, lr=0.05).accuracy(x, y) > 0.9
        True
    """
    check(features, labels)
    x, y = features.float(), labels.long()
    layer = nn.Linear(x.shape[1], int(y.max()) + 1)
    source = generator(seed, 51)
    bound = x.shape[1] ** -0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=source)
    optimizer = torch.optim.Adam(layer.parameters(), lr=lr, weight_decay=decay)
    with torch.enable_grad():
        for _ in range(epochs):
            for part in torch.randperm(len(x), generator=source).split(batch_size):
                optimizer.zero_grad()
                nn.functional.cross_entropy(layer(x[part]), y[part]).backward()
                optimizer.step()
    zero = torch.zeros(x.shape[1])
    return LinearProbe(layer.weight.detach(), layer.bias.detach(), zero, zero + 1, decay)


def check(features: Tensor, labels: Tensor) -> None:
    if features.dim() != 2 or len(features) != len(labels):
        raise UsageError(
            f"features must be (n, width) and labels (n,), got {tuple(features.shape)} and {tuple(labels.shape)}"
        )
    if not torch.isfinite(features).all():
        raise UsageError("the features have non-finite values: the encoder has diverged")
    if len(labels.unique()) < 2:
        raise UsageError("a classifier needs items of at least two classes")


def knn_predict(train: Tensor, labels: Tensor, test: Tensor, k: int = 200, temperature: float = 0.1) -> Tensor:
    """k-nearest-neighbor classification by cosine, with votes weighted by exp(cosine / temperature).

    Args:
        train: (n, width) features with known classes.
        labels: (n,) classes from 0.
        test: (m, width) features to classify.
        k: Number of neighbors; all items if there are fewer.
        temperature: Temperature of the votes.

    Returns:
        (m,) classes.

    Raises:
        UsageError: If features and labels do not match.

    Example:
        >>> train, labels = torch.eye(3), torch.tensor([0, 1, 2])
        >>> rince.evaluate.knn_predict(train, labels, torch.tensor([[0.9, 0.1, 0.0]]), k=1)
        tensor([0])
    """
    check(train, labels)
    k = min(k, len(train))
    train, test = normalize(train.float(), dim=1), normalize(test.float(), dim=1)
    predictions = []
    for part in test.split(1024):
        cosine, index = (part @ train.T).topk(k, dim=1)
        votes = torch.zeros(len(part), int(labels.max()) + 1)
        votes.scatter_add_(1, labels[index], ((cosine - 1) / temperature).exp())
        predictions.append(votes.argmax(1))
    return torch.cat(predictions) if predictions else labels.new_zeros(0)


def knn_accuracy(
    train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, k: int = 200, temperature: float = 0.1
) -> float:
    """Accuracy of :func:`knn_predict`.

    Args:
        train: (n, width) features with known classes.
        labels: (n,) classes from 0.
        test: (m, width) features to classify.
        test_labels: (m,) classes of the test features.
        k: Number of neighbors; all items if there are fewer.
        temperature: Temperature of the votes.

    Returns:
        A share from 0 to 1.

    Example:
        >>> train, labels = torch.eye(3), torch.tensor([0, 1, 2])
        >>> rince.evaluate.knn_accuracy(train, labels, torch.eye(3)[:2], torch.tensor([0, 2]), k=1)
        0.5
    """
    return float((knn_predict(train, labels, test, k, temperature) == test_labels).double().mean())
