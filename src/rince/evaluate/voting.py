"""Several looks at one thing, such as ten clips of a video: their scores are averaged before anything is decided."""

from typing import NamedTuple

from torch import Tensor

from rince.errors import UsageError


class Votes(NamedTuple):
    """One row an item, by rising id: the mean of its scores, and its label."""

    ids: Tensor
    scores: Tensor
    labels: Tensor

    @property
    def accuracy(self) -> float:
        return float((self.scores.argmax(1) == self.labels).double().mean())


def vote(ids: Tensor, scores: Tensor, labels: Tensor) -> Votes:
    """From scores (looks, classes) with the ids and labels of their items to one mean score an item."""
    if not len(ids):
        raise UsageError("there is nothing to test on: the test part is empty")
    if not len(ids) == len(scores) == len(labels):
        raise UsageError(
            f"ids, scores and labels must be equally many, got {len(ids)}, {len(scores)} and {len(labels)}"
        )
    items, place, count = ids.unique(return_inverse=True, return_counts=True)
    total = scores.new_zeros(len(items), scores.shape[1]).double().index_add_(0, place, scores.double())
    label = labels.new_zeros(len(items)).index_copy_(0, place, labels)
    clash = label[place] != labels
    if clash.any():
        raise UsageError(f"item {int(ids[clash][0])} comes with two labels")
    return Votes(items, total / count[:, None], label)
