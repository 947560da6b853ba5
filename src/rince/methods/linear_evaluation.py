"""Linear evaluation of a frozen encoder on augmented images, as is usual for ImageNet."""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince.errors import UsageError
from rince.methods.finetune import FineTune
from rince.methods.method import Method, OptimiserFactory


class LinearEvaluation(FineTune):
    """A linear classifier on the features of a frozen encoder, trained on augmented crops, tested by top-1 and top-5.

    Only one batch is in memory at a time, training resumes after an interruption, and several processes share the work.
    It is a method of ``rince finetune``, as in ``rince finetune RUN imagenet/linear --trainer.devices 8``.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.LinearEvaluation(encoder, nn.CrossEntropyLoss(), views, torch.optim.SGD, classes=10)
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimiser: OptimiserFactory,
        classes: int = 0,
        lr_schedule: Literal["cosine", "constant", "steps"] = "cosine",
        tower: str | None = None,
    ):
        """
        Args:
            classes: Number of classes; 0 to take it from the data (`rince finetune`).
            lr_schedule: A cosine to 0, a constant rate, or a tenth after 60 % and again after 80 % of training.
            tower: Of a cross-modal run: which of the two encoders, "a" or "b", and which of the two views.
        """
        super().__init__(encoder, loss, views, optimiser, classes, dropout=0.0, head_epochs=0, linear=True, tower=tower)
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
        if self.elsewhere(batch_idx):
            return
        known = batch.labels >= 0
        logits, labels = self.project(self.embed(batch))[known], batch.labels[known]
        best = logits.topk(min(5, self.classes), dim=1).indices == labels[:, None]
        self.hits += torch.stack([best[:, 0].sum(), best.sum(), known.sum()])

    def on_test_epoch_end(self) -> None:
        if self.trainer.world_size > 1:
            dist.all_reduce(self.hits)
        if not int(self.hits[2]):
            raise UsageError("there is nothing to test on: the test part is empty or has no labels")

    def test_result(self) -> dict[str, Any]:
        first, five, tested = self.hits.tolist()
        return {"accuracy": 100 * first / tested, "top5": 100 * five / tested, "test_items": tested}
