import pytest
import torch

from rince._support.step_seeds import generator
from rince.evaluate.pairs import retrieval, table, wrong_pairs_auc


def slowly(a, b, labels):
    """Recall and class retrieval of a by b, one query after the other."""
    ranks, same = [], []
    for i in range(len(a)):
        scores = [float(a[i] @ b[j] / (a[i].norm() * b[j].norm())) for j in range(len(b))]
        order = sorted(range(len(b)), key=lambda j: -scores[j])
        ranks.append(order.index(i))
        same.append(bool(labels[order[0]] == labels[i]))
    n = len(a)
    return 100 * sum(r < 1 for r in ranks) / n, 100 * sum(r < 10 for r in ranks) / n, 100 * sum(same) / n


def test_retrieval_equals_a_slow_reference():
    a = torch.randn(40, 6, generator=generator(1))
    b = a + 1.2 * torch.randn(40, 6, generator=generator(2))
    labels = torch.arange(40) % 5
    found = retrieval(a, b, labels)
    for way, x, y in (("a to b", a, b), ("b to a", b, a)):
        expected = slowly(x, y, labels)
        assert [found[f"{way} {k}"] for k in ("recall@1", "recall@10", "class")] == pytest.approx(expected)
    assert 10 < found["a to b recall@1"] < 90 and found["a to b recall@1"] != found["b to a recall@1"]
    assert "a to b class" not in retrieval(a, b, torch.full((40,), -1))
    with pytest.raises(ValueError, match="same shape"):
        retrieval(a, b[:5])


def test_the_auc_is_the_chance_that_a_right_pair_scores_higher():
    a = torch.randn(30, 4, generator=generator(3))
    b = a + torch.randn(30, 4, generator=generator(4))
    wrong = torch.arange(30) % 3 == 0
    b[wrong] = torch.randn(10, 4, generator=generator(5))
    scores = torch.cosine_similarity(a, b)
    wins = [float(r > w) for r in scores[~wrong] for w in scores[wrong]]
    assert wrong_pairs_auc(a, b, wrong.numpy()) == pytest.approx(100 * sum(wins) / len(wins))
    assert wrong_pairs_auc(a, b, torch.zeros(30, dtype=torch.bool)) is None
    with pytest.raises(ValueError, match=r"shape \(30,\)"):
        wrong_pairs_auc(a, b, wrong[:5])


def test_table_has_a_row_per_direction():
    row = {"a to b recall@1": 12.34, "b to a recall@1": 5.0, "a linear": 90.0, "wrong pairs AUC": 81.25}
    lines = table({"trained": row}).splitlines()
    assert lines[0].split() == ["recall@1", "linear", "probe"]
    assert lines[1].split() == ["trained", "a", "to", "b", "12.3", "90.0"]
    assert lines[2].split()[-2:] == ["5.0", "-"] and lines[3].endswith("81.2")
