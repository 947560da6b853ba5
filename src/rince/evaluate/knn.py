"""Weighted nearest neighbours."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rince.errors import UsageError
from rince.evaluate.linear import check


def knn_predict(train: Tensor, labels: Tensor, test: Tensor, k: int = 200, temperature: float = 0.1) -> Tensor:
    """The class with most votes among the ``k`` nearest by cosine, each vote weighing exp(cosine / temperature).

    Args:
        train: (n, width) features with known classes.
        labels: (n,) their classes, from 0.
        test: (m, width) features to be classified.
        k: Number of neighbours that vote; all items if there are fewer.
        temperature: Cosines are divided by it.

    Returns:
        (m,) classes.

    Raises:
        UsageError: If k is below 1, or features and labels do not fit.

    Example:
        >>> train, labels = torch.eye(3), torch.tensor([0, 1, 2])
        >>> rince.evaluate.knn_predict(train, labels, torch.tensor([[0.9, 0.1, 0.0]]), k=1)
        tensor([0])
    """
    check(train, labels)
    if k < 1:
        raise UsageError(f"k must be at least 1 neighbour, got {k}")
    k = min(k, len(train))
    train, test = normalize(train.float(), dim=1), normalize(test.float(), dim=1)
    predictions = []
    for part in test.split(1024):  # the matrix of all similarities need not fit into memory
        cosine, index = (part @ train.T).topk(k, dim=1)
        votes = torch.zeros(len(part), int(labels.max()) + 1)
        votes.scatter_add_(1, labels[index], ((cosine - 1) / temperature).exp())
        predictions.append(votes.argmax(1))
    return torch.cat(predictions) if predictions else labels.new_zeros(0)


def knn_accuracy(
    train: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, k: int = 200, temperature: float = 0.1
) -> float:
    """The share of the test features that :func:`knn_predict` classifies right.

    Args:
        train: (n, width) features with known classes.
        labels: (n,) their classes, from 0.
        test: (m, width) features to be classified.
        test_labels: (m,) their classes.
        k: Number of neighbours that vote; all items if there are fewer.
        temperature: Cosines are divided by it.

    Returns:
        A share from 0 to 1.

    Example:
        >>> train, labels = torch.eye(3), torch.tensor([0, 1, 2])
        >>> rince.evaluate.knn_accuracy(train, labels, torch.eye(3)[:2], torch.tensor([0, 2]), k=1)
        0.5
    """
    return float((knn_predict(train, labels, test, k, temperature) == test_labels).double().mean())
