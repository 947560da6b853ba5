"""A Lightning callback that monitors the pairs during training, from the inputs of the loss."""

import warnings
from collections import deque
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from rince.audit.rate import p_values, storey
from rince.errors import UsageError
from rince.losses import ContrastiveLoss
from rince.losses.contrasts import Contrast, unit

COLLAPSE = (
    "collapse: after {step} steps pairs score {positive:.3f} and mismatched pairs {negative:.3f} on average, so the "
    "embedding tells nothing apart. Ways out: lam='balanced', a q that grows from near 0 (rince.schedules.linear), a "
    "lower learning rate, or larger batches; if the pairs themselves may be wrong, run `rince audit --fit` on their "
    "features"
)


class PairMonitor(Callback):
    """Logs the mean cosine of pairs and of mismatched pairs, and a running estimate of the share of wrong pairs.

    It looks at the embeddings that every rince loss of the model gets, and compares each item with its partner and with
    the partner of its neighbor in the batch: no extra forward pass, and no score matrix. Logged at the trainer's
    ``log_every_n_steps``: ``pairs/positive``, ``pairs/negative`` and ``pairs/noise_rate`` (Storey's estimate over the
    last ``window`` batches).

    The noise rate is that of pairs the model is trained on, so it falls as wrong pairs are memorized, which
    InfoNCE does and RINCE with q >= 0.5 hardly; ``rince audit --fit`` judges every pair by models that never saw it.

    Args:
        window: Number of recent batches that the figures are computed over.
        grace: Steps before a collapse is reported; at the start of training all pairs score alike.
        margin: How much higher than mismatched pairs the pairs must score on average not to count as collapsed.

    Raises:
        UsageError: If window is below 1 or grace below 0.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> from rince.audit.callback import PairMonitor
        >>> trainer = Trainer(callbacks=[PairMonitor(window=8)], logger=False, accelerator="cpu")
    """

    def __init__(self, window: int = 8, grace: int = 200, margin: float = 0.01):
        if window < 1 or grace < 0:
            raise UsageError(f"window must be at least 1 and grace at least 0, got {window} and {grace}")
        self.grace, self.margin = grace, margin
        self.positive: deque[Tensor] = deque(maxlen=window)
        self.negative: deque[Tensor] = deque(maxlen=window)
        self.warned = False
        self._handles: list[Any] = []
        self._training = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        losses = [module for module in pl_module.modules() if isinstance(module, ContrastiveLoss)]
        # Losses call the contrasts themselves.
        contrasts = [] if losses else [module for module in pl_module.modules() if isinstance(module, Contrast)]
        if not losses and not contrasts:
            warnings.warn("PairMonitor found no rince loss in the model: keep the loss as an attribute of the module")
        self._handles = [module.register_forward_hook(self._see, with_kwargs=True) for module in (*losses, *contrasts)]

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._training = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._training = False
        if not self.positive or trainer.global_step % trainer.log_every_n_steps:
            return
        positive, negative = torch.cat(tuple(self.positive)).cpu(), torch.cat(tuple(self.negative)).cpu()
        figures = {
            "pairs/positive": float(positive.mean()),
            "pairs/negative": float(negative.mean()),
            "pairs/noise_rate": storey(p_values(positive.numpy(), negative.numpy())),
        }
        pl_module.log_dict(figures, on_step=True, on_epoch=False, batch_size=len(positive))
        self._warn(trainer.global_step, figures["pairs/positive"], figures["pairs/negative"])

    def _warn(self, step: int, positive: float, negative: float) -> None:
        if self.warned or step < self.grace or positive > negative + self.margin:
            return
        self.warned = True
        warnings.warn(COLLAPSE.format(step=step, positive=positive, negative=negative))

    @torch.no_grad()
    def _see(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        names = ("a", "b", "temperature", "labels", "ids")  # a loss takes the last two by name
        inputs = dict(zip(names, arguments, strict=False)) | named
        a, b = inputs.get("a"), inputs.get("b")
        if not self._training or a is None or b is None or len(a) < 2:
            return
        left, right = unit(a.detach()), unit(b.detach())
        mismatched = torch.ones(len(a), dtype=torch.bool, device=a.device)
        for key in (inputs.get("ids"), inputs.get("labels")):
            if key is not None:  # a neighbor of the same id or class makes no mismatched pair
                mismatched &= (key != key.roll(1)).to(a.device)
        if mismatched.any():
            self.positive.append((left * right).sum(1).float())
            self.negative.append((left * right.roll(1, 0)).sum(1)[mismatched].float())
