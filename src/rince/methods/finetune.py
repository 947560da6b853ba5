"""Supervised training on a pre-trained encoder: fine-tuning, and a linear layer on frozen features."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince.errors import UsageError
from rince.evaluate.features import Votes, vote
from rince.methods.method import Method, OptimizerFactory, width_of


class FineTune(Method):
    """Fine-tuning on labels: first the classifier on a frozen encoder, then all weights.

    Batches have ``labels`` and, in their first field, the items to classify. Tests average the scores of items with
    the same ``ids``, such as several clips of a video. Items without a label (-1) do not count.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.FineTune(encoder, nn.CrossEntropyLoss(), views, torch.optim.Adam, classes=10)
    """

    weights_for = None

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        classes: int = 0,
        dropout: float = 0.5,
        head_epochs: int = 5,
        milestones: Sequence[int] = (11, 15, 19),
        decay: float = 0.3,
        linear: bool = False,
        tower: str | None = None,
        frozen_norm: bool = True,
    ):
        """
        Args:
            classes: Number of classes. Default: 0, taken from the data by `rince finetune`.
            dropout: Dropout of the features, in [0, 1). Default: 0.5.
            head_epochs: Number of first epochs that train the classifier only. Default: 5.
            milestones: Epochs, counted from the start, after which the learning rate is reduced.
            decay: Factor by which it is reduced. Default: 0.3.
            linear: Train the classifier only, in all epochs. Default: False.
            tower: Encoder and views of a cross-modal run, "a" or "b".
            frozen_norm: Batch norm of a frozen encoder uses its running statistics (default). False: the statistics of
                the batch, updating the running ones, as in AVID's code.

        Raises:
            UsageError: If dropout is not in [0, 1).
        """
        super().__init__(encoder, loss, single_view(views, tower), optimizer)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout must be in [0, 1), got {dropout}")
        self.head_epochs, self.milestones, self.decay = head_epochs, tuple(milestones), decay
        self.linear, self.tower, self.classes, self.frozen_norm = linear, tower, classes, frozen_norm
        self.dropout = nn.Dropout(dropout)
        if classes:
            self.head = nn.Linear(width_of(encoder), classes)
        encoder.requires_grad_(not linear)
        self.votes: Votes | None = None  # of the last test
        self.view_accuracy = 0.0  # of the last test, of single views
        self.unlabeled = 0  # items of the last test without a label
        self._tested: list[tuple[Tensor, Tensor, Tensor]] = []
        self._frozen = False  # whether the encoder is frozen in the current step

    def check(self) -> None:
        if not self.classes:
            raise UsageError(
                f"method.classes must be set to the number of classes for {type(self).__name__}, got 0; rince finetune "
                "RUN takes it from the data"
            )

    @property
    def encoder_frozen(self) -> bool:
        """Whether only the classifier is trained in this step."""
        batches = self.trainer.num_training_batches  # not the trainer's epoch, which lags behind after some resumes
        epoch = self.batches_seen() // max(1, int(batches)) if math.isfinite(batches) else self.current_epoch
        return self.linear or epoch < self.head_epochs

    def batch_loss(self, batch: Any) -> Tensor:
        items, labels = self.items(batch), batch.labels
        if labels.device.type == "cpu" and not -1 <= int(labels.min()) <= int(labels.max()) < self.classes:
            raise UsageError(
                f"labels must be in [0, {self.classes - 1}], got {int(labels.min())} to {int(labels.max())}: set "
                "method.classes, or omit it; -1 stands for no label"
            )
        views = self.views(items, self.draw(len(items)), cropped=batch.cropped)
        views = views[0] if isinstance(views, tuple) else views
        frozen = self._frozen = self.encoder_frozen
        self.encoder.train(not (frozen and self.frozen_norm))
        with torch.set_grad_enabled(not frozen):
            features = self.encoder(views)
        logits = self.head(self.dropout(features))
        if frozen and not self.linear and self.trainer.world_size > 1:
            # DDP waits for a gradient of every weight; these are zero and dropped in on_before_optimizer_step.
            logits = logits + 0 * sum(p.sum() for p in self.encoder.parameters() if p.requires_grad)
        labeled = labels >= 0
        hits = (logits.argmax(1) == labels)[labeled].float()
        self.log("train_accuracy", hits.mean() if len(hits) else hits.sum(), prog_bar=True, sync_dist=True)
        return self.loss(logits[labeled], labels[labeled]) if len(hits) else 0 * logits.sum()

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        if self._frozen:  # a gradient of zero would still move a weight by momentum or weight decay
            for parameter in self.encoder.parameters():
                parameter.grad = None

    def items(self, batch: Any) -> Tensor:
        """Items to classify: the tower's field of the batch if it has one, its first field otherwise."""
        if self.tower is not None and self.tower in getattr(batch, "_fields", ()):
            return getattr(batch, self.tower)
        return batch[0]

    def embed(self, batch: Any) -> Tensor:
        return self.encoder(self.plain(self.items(batch)))

    def lr_share(self, step: int, total: int) -> float:
        epochs = step / self.steps_per_epoch(total)
        return self.decay ** sum(epochs >= milestone for milestone in self.milestones)

    def on_test_start(self) -> None:
        self._tested = []

    def test_step(self, batch: Any, batch_idx: int) -> None:
        if self.tested_elsewhere(batch_idx):
            return
        scores = self.project(self.embed(batch)).float().softmax(1)
        self._tested.append((batch.ids.cpu(), scores.cpu(), batch.labels.cpu()))

    def tested_elsewhere(self, batch_idx: int) -> bool:
        """Whether another rank tests this batch. Ranks take turns unless the data are sharded."""
        data: Any = self.trainer.datamodule
        return not getattr(data, "sharded_tests", False) and batch_idx % self.trainer.world_size != self.global_rank

    def test_result(self) -> dict[str, Any]:
        """Accuracies of the last test in percent, of items and of their single views."""
        assert self.votes is not None
        without = {"test_items_without_label": self.unlabeled} if self.unlabeled else {}
        return {
            "accuracy": 100 * self.votes.accuracy,
            "accuracy_of_single_views": 100 * self.view_accuracy,
            "test_items": len(self.votes.ids),
            **without,
        }

    def on_test_epoch_end(self) -> None:
        parts = self._tested
        if self.trainer.world_size > 1:
            gathered: list[Any] = [None] * self.trainer.world_size
            dist.all_gather_object(gathered, parts)
            parts = [part for own in gathered for part in own]
        self._tested = []
        if not parts:
            raise UsageError("nothing to test: the test part is empty")
        ids, scores, labels = (torch.cat(column) for column in zip(*parts, strict=True))
        labeled = labels >= 0
        self.unlabeled = len(ids[~labeled].unique())
        if not labeled.any():
            raise UsageError("nothing to test: the test part has no labels")
        ids, scores, labels = ids[labeled], scores[labeled], labels[labeled]
        self.votes = vote(ids, scores, labels)
        self.view_accuracy = float((scores.argmax(1) == labels).double().mean())


def single_view(views: nn.Module, tower: str | None) -> nn.Module:
    """Views of one side of pairs, or the first of two views; other views unchanged."""
    for name in (tower, "first"):
        if name and isinstance(found := getattr(views, name, None), nn.Module):
            return found
    if not hasattr(views, "plain"):
        raise UsageError(f"{type(views).__name__} does not make a single view to classify: set views, such as Recipe")
    return views


class LinearEvaluation(FineTune):
    """Linear classifier on a frozen encoder, trained on augmented crops; top-1 and top-5 accuracy.

    A method of ``rince finetune``, as in ``rince finetune RUN imagenet/linear --trainer.devices 8``. It keeps one batch
    in memory.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.LinearEvaluation(encoder, nn.CrossEntropyLoss(), views, torch.optim.SGD, classes=10)
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        classes: int = 0,
        lr_schedule: Literal["cosine", "constant", "steps"] = "cosine",
        tower: str | None = None,
    ):
        """
        Args:
            classes: Number of classes. Default: 0, taken from the data by `rince finetune`.
            lr_schedule: Cosine decay to 0 (default), constant, or divided by ten after 60 % and 80 % of the training.
            tower: Encoder and views of a cross-modal run, "a" or "b".
        """
        super().__init__(encoder, loss, views, optimizer, classes, dropout=0.0, head_epochs=0, linear=True, tower=tower)
        self.lr_schedule = lr_schedule
        self.register_buffer("hits", torch.zeros(3, dtype=torch.long), persistent=False)  # top 1, top 5, tested
        if classes:
            assert isinstance(self.head, nn.Linear)
            nn.init.normal_(self.head.weight, std=0.01)
            nn.init.zeros_(self.head.bias)

    hits: Tensor

    def lr_share(self, step: int, total: int) -> float:
        return Method.lr_share(self, step, total)

    def on_test_start(self) -> None:
        self.hits.zero_()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        if self.tested_elsewhere(batch_idx):
            return
        labeled = batch.labels >= 0
        logits, labels = self.project(self.embed(batch))[labeled], batch.labels[labeled]
        best = logits.topk(min(5, self.classes), dim=1).indices == labels[:, None]
        self.hits += torch.stack([best[:, 0].sum(), best.sum(), labeled.sum()])

    def on_test_epoch_end(self) -> None:
        if self.trainer.world_size > 1:
            dist.all_reduce(self.hits)
        if not int(self.hits[2]):
            raise UsageError("nothing to test: the test part is empty or has no labels")

    def test_result(self) -> dict[str, Any]:
        first, five, tested = self.hits.tolist()
        return {"accuracy": 100 * first / tested, "top5": 100 * five / tested, "test_items": tested}
