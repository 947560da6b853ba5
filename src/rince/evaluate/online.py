"""Online linear probe."""

from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn


class OnlineProbe(Callback):
    """Train a linear classifier alongside the encoder and log its accuracy as ``probe``.

    It learns from the training views and labels, including noise. The encoder gets no gradient from it.

    Args:
        classes: Number of classes.
        lr: Learning rate of Adam.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(callbacks=[rince.evaluate.OnlineProbe(classes=10)], logger=False, accelerator="cpu")
    """

    def __init__(self, classes: int, lr: float = 1e-3):
        self.classes, self.lr = classes, lr
        self.layer: nn.Linear | None = None
        self._state: dict[str, Any] | None = None

    def _start(self, features: torch.Tensor) -> nn.Linear:
        layer = nn.Linear(features.shape[1], self.classes, device=features.device)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        self.layer, self.optimizer = layer, torch.optim.Adam(layer.parameters(), lr=self.lr)
        if self._state is not None:
            layer.load_state_dict(self._state["layer"])
            self.optimizer.load_state_dict(self._state["optimizer"])
            self._state = None
        return layer

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        last: Any = getattr(pl_module, "last_features", None)
        if last is None or last[1] is None:
            return
        features, labels = last[0].float(), last[1]
        pl_module.last_features = None
        labels = labels.repeat(len(features) // len(labels)).clamp_min(-1)
        known = labels >= 0
        layer = self.layer or self._start(features)
        with torch.enable_grad():
            logits = layer(features)
            loss = nn.functional.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
            loss = loss / known.sum().clamp_min(1)
        self.optimizer.zero_grad()
        loss.backward()
        if trainer.world_size > 1:
            for parameter in layer.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= trainer.world_size
        self.optimizer.step()
        accuracy = (logits.argmax(1) == labels).sum() / known.sum().clamp_min(1)
        pl_module.log("probe", accuracy, prog_bar=True, sync_dist=True)

    def state_dict(self) -> dict[str, Any]:
        if self.layer is None:
            return {} if self._state is None else self._state
        return {"layer": self.layer.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.layer, self._state = None, state_dict or None
