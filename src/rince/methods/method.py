"""Base class of training methods: step counter, schedules, logging, and a warning on collapse."""

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn

from rince._support.step_seeds import Draws, generator, number, seed_globally
from rince.errors import UsageError
from rince.losses import Contrast, ContrastiveLoss, schedules
from rince.losses.temperature import in_use
from rince.optimizers import warmup_cosine
from rince.views.image import check_two_views
from rince.views.views import ImageBatch, PairBatch

OptimizerFactory = Callable[[Iterable[Any]], torch.optim.Optimizer]


class Method(LightningModule):
    """Base class of training methods. A subclass implements ``batch_loss``.

    It may set ``head``, the projection from features to embeddings, and override ``embed``, which maps a batch to
    features. The first four arguments are the same for all methods: encoder, loss, views and optimizer.

    Random numbers of a step depend on the seed and the step only. Draw them from ``self.draw(items)``; the global
    generators of torch, numpy and Python are seeded at the start of every step.

    Example:
        >>> class Plain(rince.methods.Method):
        ...     def batch_loss(self, batch):
        ...         first, second = self.views(batch.images, self.draw(len(batch.images)))
        ...         return self.loss(self.encoder(first), self.encoder(second))
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = Plain(rince.encoders.ConvNet(width=8), rince.RINCE(), views, torch.optim.Adam)
    """

    seed: int = 0
    pairing: Literal["self", "label"] = "self"
    weights_for: Literal["pairs", "labels"] | None = "pairs"
    """What weights refer to: pairs, or the labels that form pairs. None if the method does not use weights."""

    two_views_each: bool = False
    """Whether the views must return two views of every image."""

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        warmup_epochs: float = 0.0,
        lr_schedule: Literal["cosine", "constant", "steps"] = "cosine",
        q_schedule: Literal["constant", "linear", "cosine"] = "constant",
        q_start: float = 0.01,
    ):
        """
        Args:
            encoder: Module that maps a view to features. Its attribute ``features`` is their number.
            loss: Loss of the embeddings of both views.
            views: Module that makes two random views of every item of a batch.
            optimizer: Function of the parameters that returns an optimizer.
            warmup_epochs: Epochs of linear warmup of the learning rate. Default: 0.
            lr_schedule: Learning rate after the warmup: cosine decay to 0 (default), constant, or divided by ten after
                60 % and 80 % of the training (MoCo v1).
            q_schedule: Schedule of q of the loss, from ``q_start`` to its own value. Default: constant.
            q_start: First value of q under a schedule. Default: 0.01.

        Raises:
            UsageError: If warmup_epochs is negative.
        """
        super().__init__()
        if warmup_epochs < 0:
            raise UsageError(f"warmup_epochs must not be negative, got {warmup_epochs}")
        self.encoder, self.loss, self.views, self.optimizer = encoder, loss, views, optimizer
        self.head: nn.Module = nn.Identity()
        self.warmup_epochs, self.lr_schedule = warmup_epochs, lr_schedule
        self.q_of = self._q_schedule(q_schedule, q_start)
        self._batches = 0  # a plain number: reading a tensor on a GPU would synchronize
        self.last_features: tuple[Tensor, Tensor | None] | None = None
        self._similarity: list[Tensor] = []
        self._was_flat = False

    def check(self) -> None:
        """Raise a ``UsageError`` before the run if its parts do not fit together."""
        if self.two_views_each:
            check_two_views(type(self).__name__, self.views)

    def compare_by(self, contrast: Contrast) -> None:
        """Set the contrast of this method, which its loss is called with.

        Raises:
            UsageError: If the loss was constructed with another contrast or its own queue.
        """
        own_contrast = (
            self.loss.contrast if isinstance(self.loss, ContrastiveLoss) and self.loss.chose_contrast else None
        )
        if own_contrast is not None and (
            repr(own_contrast) != repr(contrast) or any(True for _ in own_contrast.buffers())
        ):
            raise UsageError(
                f"{type(self).__name__} uses the contrast {contrast!r}, but the loss was constructed with "
                f"{own_contrast!r}: omit contrast= in {type(self.loss).__name__}(...)"
            )
        self.contrast = contrast

    def contrastive(self, a: Tensor, b: Tensor, **kwargs: Tensor) -> Tensor:
        """Loss of embeddings under this method's contrast. Losses of other libraries are called without one."""
        if isinstance(self.loss, ContrastiveLoss):
            return self.loss(a, b, contrast=self.contrast, **kwargs)
        return self.loss(a, b, **kwargs)

    def compare_pairs(self, a: Tensor, b: Tensor, batch: Any, **kwargs: Tensor) -> Tensor:
        """Loss of two views, row by row, weighted if the batch has weights."""
        weights = self.pair_weights(batch)
        return (
            self.contrastive(a, b, **kwargs) if weights is None else self.contrastive(a, b, weights=weights, **kwargs)
        )

    def pair_weights(self, batch: Any) -> Tensor | None:
        """(items,) weights of the pairs of a batch, or None.

        Override it for batches with weights that are neither ``ImageBatch`` nor ``PairBatch``.
        """
        return batch.weights if isinstance(batch, ImageBatch | PairBatch) else None

    def has_partners(self, batch: Any) -> bool:
        """Whether items are paired with other items, so that pairs can be mismatched."""
        return batch.partners is not None

    def temperature(self, otherwise: float) -> float | Tensor:
        """Temperature of the loss; ``otherwise`` for a loss that is not a ``ContrastiveLoss``."""
        return in_use(self.loss.temperature) if isinstance(self.loss, ContrastiveLoss) else otherwise

    def two_views(self, batch: Any) -> tuple[Any, Any]:
        """Two random views of every item of a batch. Default: of its images."""
        return self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)

    def batch_loss(self, batch: Any) -> Tensor:
        """Loss of a batch. Subclasses implement it."""
        raise NotImplementedError

    def embed(self, batch: Any) -> Tensor:
        """Features of a batch for evaluation. Default: of its images."""
        return self.encoder(self.plain(batch.images))

    def project(self, features: Tensor) -> Tensor:
        """Projection of features into the space of the loss; the identity without a head."""
        return self.head(features)

    def plain(self, items: Tensor) -> Tensor:
        """Items for evaluation: normalized, without random augmentation."""
        views: Any = self.views
        if not hasattr(views, "plain"):
            raise UsageError(f"{type(views).__name__} has no method plain(items), which evaluation needs")
        return views.plain(items)

    def batches_seen(self) -> int:
        """Number of training batches so far. A resumed run continues the data order from here."""
        return self._batches

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["batches_seen"] = self._batches

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._batches = int(checkpoint["batches_seen"])

    @property
    def progress(self) -> float:
        """0 at the first batch, 1 at the last."""
        return self.batches_seen() / max(1, self._all_batches() - 1)

    def _all_batches(self) -> int:
        """Total number of training batches. The last step of an epoch may accumulate fewer batches."""
        steps, accumulated = int(self.trainer.estimated_stepping_batches), self.trainer.accumulate_grad_batches
        batches = self.trainer.num_training_batches
        if not math.isfinite(batches):
            return steps * accumulated
        epochs, rest = divmod(steps, math.ceil(batches / accumulated))
        return int(epochs * batches + rest * accumulated)

    def steps_per_epoch(self, total: int) -> float:
        """Optimizer steps per epoch; ``total`` divided by the epochs if the data have no length."""
        if self.trainer.train_dataloader is None:  # as Lightning itself does where it counts steps
            self.trainer.fit_loop.setup_data()
        batches = self.trainer.num_training_batches
        if math.isfinite(batches):
            return math.ceil(batches / self.trainer.accumulate_grad_batches) or 1
        return total / max(1, self.trainer.max_epochs or 1)

    def draw(self, items: int, stream: int = 0) -> Draws:
        """Random numbers of this step for ``items`` of this process."""
        source = generator(self.seed, self.batches_seen(), 10 + stream)
        return Draws(source, items, self.global_rank, self.trainer.world_size)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        seed_globally(number(self.seed, self.batches_seen(), self.global_rank, 4), self.device)
        if self.q_of is not None:
            self.loss.q = self.q_of(self.progress)  # type: ignore[assignment]
        loss = self.batch_loss(batch)
        if (loss.device.type == "cpu" or self._batches % 100 == 0) and not torch.isfinite(loss):
            raise UsageError(
                f"the loss became {float(loss.detach())} at step {self.batches_seen()}: "
                "lower the learning rate, or raise the temperature"
            )
        self.log("loss", loss.detach(), prog_bar=True, on_step=True, on_epoch=False, sync_dist=True)
        if self.q_of is not None:
            self.log("q", self.q_of(self.progress))
        self._batches += 1
        return loss

    def pair_embeddings(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Embeddings of both sides of the pairs of a batch without augmentation, one pair per row."""
        first = self.project(self.embed(batch))
        return first, first if batch.partners is None else self.project(
            self.embed(batch._replace(images=batch.partners))
        )

    def note(self, features: Tensor, labels: Tensor | None) -> None:
        """Store the features and labels of this step for callbacks such as the online probe."""
        self.last_features = (features.detach(), labels)

    def note_similarity(self, a: Tensor, b: Tensor) -> None:
        """Log the mean cosine of positive pairs and of mismatched ones, from embeddings of both views."""
        with torch.no_grad():
            a, b = nn.functional.normalize(a.float(), dim=1), nn.functional.normalize(b.float(), dim=1)
            positive, negative = (a * b).sum(1).mean(), (a * b.roll(1, 0)).sum(1).mean()
        self.log_dict({"positive": positive, "negative": negative}, sync_dist=True)
        self._similarity.append(positive - negative)

    def on_train_epoch_end(self) -> None:
        gap, self._similarity = self._similarity, []
        flat = bool(gap) and float(torch.stack(gap).mean()) <= 1e-4
        if flat and self._was_flat:  # a single such epoch can be the start of training
            warnings.warn(
                f"epoch {self.current_epoch}: positive pairs are not more similar than mismatched ones; the "
                "embeddings have collapsed. Lower lam ('balanced' is safe) or the learning rate."
            )
        self._was_flat = flat

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer([p for p in self.parameters() if p.requires_grad])
        total = self.trainer.estimated_stepping_batches
        if not 0 <= total < math.inf:
            raise UsageError(
                "training needs an end for its schedules, and neither epochs nor batches give one: set "
                "trainer.max_steps, or trainer.max_epochs for data of a known length"
            )
        total = int(total)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.lr_share(step, total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def lr_share(self, step: int, total: int) -> float:
        """Factor of the learning rate at a step of ``total``."""
        warmup = round(self.warmup_epochs * self.steps_per_epoch(total)) if self.warmup_epochs else 0
        if self.lr_schedule != "cosine":
            falls = sum(step >= share * total for share in (0.6, 0.8)) if self.lr_schedule == "steps" else 0
            return 0.1**falls * (min(1.0, (step + 1) / warmup) if warmup else 1.0)
        return warmup_cosine(step, total, warmup)

    def _q_schedule(self, kind: str, start: float) -> Callable[[float], float] | None:
        if kind == "constant":
            return None
        end = getattr(self.loss, "q", None)
        if end is None:
            raise UsageError(f"q_schedule is '{kind}', but {type(self.loss).__name__} has no q: set it to constant")
        return schedules.linear(start, float(end)) if kind == "linear" else schedules.cosine(start, float(end))


def width_of(encoder: nn.Module) -> int:
    """Number of features of an encoder."""
    features = getattr(encoder, "features", None)
    if not isinstance(features, int):  # timm's name; some of its models have a module called features
        features = getattr(encoder, "num_features", None)
    if not isinstance(features, int):
        raise UsageError(f"the number of features of {type(encoder).__name__} is unknown: set its attribute 'features'")
    return features
