import math

import pytest
import torch

from rince.evaluate.pairs import recall_at
from rince.evaluate.probes import knn_accuracy, knn_predict


def plain_knn(train, labels, x, k, t):
    cosines = sorted(
        ((float(torch.cosine_similarity(x, z, dim=0)), int(y)) for z, y in zip(train, labels, strict=True)),
        reverse=True,
    )
    votes = {}
    for cosine, label in cosines[:k]:
        votes[label] = votes.get(label, 0) + math.exp(cosine / t)
    return max(votes, key=votes.get)


def test_knn_agrees_with_counting_votes_one_by_one():
    torch.manual_seed(0)
    train, labels, test = torch.randn(60, 5), torch.randint(4, (60,)), torch.randn(30, 5)
    for k, t in ((1, 0.1), (7, 0.1), (60, 1.0), (100, 0.5)):
        expected = [plain_knn(train, labels, x, k, t) for x in test]
        assert knn_predict(train, labels, test, k, t).tolist() == expected
    assert knn_accuracy(train, labels, train, labels, k=1) == 1


def test_recall_agrees_with_sorting_one_by_one():
    torch.manual_seed(1)
    query, gallery = torch.randn(20, 4), torch.randn(30, 4)
    keys, others = torch.randint(8, (20,)), torch.randint(8, (30,))
    found = recall_at(query, keys, gallery, others, (1, 3, 50))
    for k in (1, 3, 50):
        hits = 0
        for x, key in zip(query, keys, strict=True):
            order = torch.cosine_similarity(x[None], gallery).argsort(descending=True)
            hits += bool((others[order[:k]] == key).any())
        assert found[k] == pytest.approx(hits / 20)


def test_retrieval_without_queries_is_refused():
    x, y = torch.randn(4, 2), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match="queries and a gallery"):
        recall_at(x[:0], y[:0], x, y)
