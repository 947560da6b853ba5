"""Several looks at one thing, such as ten clips of a video: their scores are averaged before anything is decided."""

from typing import NamedTuple

from torch import Tensor

from rince.errors import UsageError


class Votes(NamedTuple):
    """One row per item, by rising id.

    Attributes:
        ids: The items.
        scores: The mean score of every item and class.
        labels: The right class of every item.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
        >>> rince.evaluate.vote(torch.tensor([0, 0, 1]), scores, torch.tensor([0, 0, 1])).accuracy
        1.0
    """

    ids: Tensor
    scores: Tensor
    labels: Tensor

    @property
    def accuracy(self) -> float:
        """The share of items whose highest mean score is that of their class, from 0 to 1."""
        return float((self.scores.argmax(1) == self.labels).double().mean())


def vote(ids: Tensor, scores: Tensor, labels: Tensor) -> Votes:
    """From several scored views per item, such as ten clips of a video, to one mean score per item.

    Args:
        ids: (views,) the item that each view shows.
        scores: (views, classes) its scores.
        labels: (views,) the class of its item.

    Returns:
        The items with their mean scores and labels.

    Raises:
        UsageError: If there are no views, the lengths differ, or one item has two labels.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6]])
        >>> rince.evaluate.vote(torch.tensor([7, 7]), scores, torch.tensor([0, 0])).scores
        tensor([[0.6500, 0.3500]], dtype=torch.float64)
    """
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
