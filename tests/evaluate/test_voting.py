import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rince.evaluate.features import vote


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 1000))
def test_a_vote_is_the_mean_of_the_scores_of_an_item(items, looks, seed):
    g = torch.Generator().manual_seed(seed)
    ids = (torch.arange(items) * 7 + 3).repeat(looks)[torch.randperm(items * looks, generator=g)]
    scores, labels = torch.rand(items * looks, 5, generator=g), ids % 5
    votes = vote(ids, scores, labels)
    right = 0
    for row, item in enumerate(sorted(set(ids.tolist()))):
        mean = scores[ids == item].mean(0)
        torch.testing.assert_close(votes.scores[row].float(), mean)
        assert votes.ids[row] == item and votes.labels[row] == item % 5
        right += int(mean.argmax()) == item % 5
    assert votes.accuracy == pytest.approx(right / items)


def test_scores_of_clips_are_averaged_not_counted():
    votes = vote(torch.tensor([1, 1, 1]), torch.tensor([[0.4, 0.6], [0.4, 0.6], [0.95, 0.05]]), torch.zeros(3).long())
    assert votes.accuracy == 1


def test_nothing_and_contradictions_are_refused():
    with pytest.raises(ValueError, match="test split is empty"):
        vote(torch.zeros(0).long(), torch.zeros(0, 2), torch.zeros(0).long())
    with pytest.raises(ValueError, match="item 4 has two labels"):
        vote(torch.tensor([4, 4]), torch.zeros(2, 2), torch.tensor([0, 1]))
