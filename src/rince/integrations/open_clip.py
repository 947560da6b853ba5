"""Losses with the signature of open_clip's ``ClipLoss`` and ``SigLipLoss``, with memory linear in the batch size.

    from rince.integrations.open_clip import GCEClipLoss
    loss = GCEClipLoss(local_loss=True, gather_with_grad=True, rank=args.rank, world_size=args.world_size)
    losses = loss(image_features, text_features, logit_scale, output_dict=True)

open_clip is not imported. Features must be normalized, as open_clip's models return them.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import softplus

from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, diagonal_scores, rince_objective, small
from rince.losses import GCE, ContrastiveLoss, InfoNCE, Objective, Scores
from rince.losses.blocks import DENSE
from rince.losses.inputs import check_pair, check_weights, full_precision, transformed
from rince.losses.logsumexp import negative_scores, negative_scores_both, score_dtype
from rince.losses.ranks import alone, gather, total


class ClipLoss(nn.Module):
    """open_clip's ``ClipLoss``: images against texts and texts against images.

    Args:
        local_loss: Return the loss of the pairs of this rank instead of all pairs. Default: False.
        gather_with_grad: Propagate gradients to candidates of other ranks. Default: False.
        cache_labels: Ignored.
        rank: Ignored.
        world_size: Number of ranks; nothing is gathered for 1.
        use_horovod: Not supported.

    Raises:
        UsageError: If use_horovod is set.

    Example:
        >>> from rince.integrations.open_clip import ClipLoss
        >>> images, texts = nn.functional.normalize(torch.randn(2, 8, 16), dim=-1)
        >>> ClipLoss()(images, texts, logit_scale=torch.tensor(10.0)).shape
        torch.Size([])
    """

    def __init__(
        self,
        local_loss: bool = False,
        gather_with_grad: bool = False,
        cache_labels: bool = False,
        rank: int = 0,
        world_size: int = 1,
        use_horovod: bool = False,
    ):
        super().__init__()
        if use_horovod:
            raise UsageError("use_horovod=True is not supported: start the processes with torchrun")
        self.local_loss, self.gather_with_grad, self.world_size = local_loss, gather_with_grad, world_size
        self.contrastive: ContrastiveLoss = InfoNCE()  # its temperature is replaced by 1 / logit_scale
        self.temperature: float | None = None

    def objective(self, logit_scale: Tensor | float) -> Objective:
        """Objective at temperature 1 / logit_scale."""
        return self.contrastive.objective(1 / logit_scale)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        weights: Tensor | None = None,
    ) -> Any:
        """The loss.

        Args:
            image_features: (n, d) normalized embeddings of the images.
            text_features: (n, d) normalized embeddings of the texts.
            logit_scale: Inverse temperature; not used by a loss with a temperature of its own.
            logit_bias: Ignored, since it cancels in a softmax.
            output_dict: Return a dictionary. Default: False.
            weights: (n,) weights for a weighted mean. Default: None, all equal.
        """
        check_pair(image_features, text_features)
        weights = check_weights(weights, image_features)
        _check_processes(self.world_size)
        with full_precision(image_features), alone(self.world_size == 1):
            dtype = score_dtype(image_features, text_features)
            image, text = image_features.to(dtype), text_features.to(dtype)
            scale = logit_scale if self.temperature is None else 1 / self.temperature
            loss = self._loss(image, text, scale, weights)
        unused = (logit_bias,) if self.temperature is None else (logit_bias, logit_scale)
        for parameter in unused:
            if isinstance(parameter, Tensor) and parameter.requires_grad:
                loss = loss + 0 * parameter.sum()  # DistributedDataParallel fails without a gradient
        return {"contrastive_loss": loss} if output_dict else loss

    def _loss(self, image: Tensor, text: Tensor, logit_scale: Tensor | float, weights: Tensor | None) -> Tensor:
        objective = self.objective(logit_scale)
        if self.world_size == 1:
            image = image * logit_scale
            number = image.new_full((len(image),), len(image) - 1)
            if small(image, text):
                positive, *both = diagonal_scores(image, text, both=True)
            else:
                keys = torch.arange(len(image), device=image.device)
                positive = (image * text).sum(1)
                both = [side.lse for side in negative_scores_both(image, text, keys, keys)]
            return self._mean(torch.stack([objective(Scores(positive, side, number)) for side in both]), weights)
        if not (self.local_loss or self.gather_with_grad):
            # As in open_clip: each rank gets the gradient of its own features once, not once per rank.
            image, text = (_ScaledGradient.apply(z, 1 / self.world_size) for z in (image, text))
        detached = self.local_loss and not self.gather_with_grad
        sides = [text.detach(), image.detach()] if detached else [text, image]
        gathered, *_, start = gather(sides)
        index = torch.arange(len(gathered[0]), device=image.device)
        keys = index[start : start + len(image)]
        number = image.new_full((len(image),), len(index) - 1)
        losses = []
        for own, partner, others in zip((image, text), sides, gathered, strict=True):
            own = own * logit_scale
            negatives = negative_scores(own, others, keys, index).lse
            losses.append(objective(Scores((own * partner).sum(1), negatives, number)))
        loss = self._mean(torch.stack(losses), weights)
        if self.local_loss:
            return loss
        return loss + (total(loss) / self.world_size - loss).detach()

    def _mean(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Mean over directions and pairs of this rank; if weighted, the share of this rank in the mean over all."""
        if weights is None:
            return losses.mean()
        weights = weights.to(losses)
        weight_sum = total(weights.sum())
        return (losses.mean(0) * (weights / torch.where(weight_sum == 0, 1, weight_sum))).sum() * self.world_size


class RINCEClipLoss(WithQ, ClipLoss):
    """RINCE for mismatched images and texts.

    Args:
        q: Robustness in [0, 1]; 0 is ``ClipLoss``; may be changed between steps.
        lam: Weight of the negatives: a float, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Divide the loss by exp(q / temperature), required for a learned temperature. Default: True.
        temperature: Fixed softmax temperature. Default: 0.2. None: that of the model's ``logit_scale``, which training
            lowers, so that the loss loses its robustness.
        **options: Options of ``ClipLoss``.

    Example:
        >>> from rince.integrations.open_clip import RINCEClipLoss
        >>> images, texts = nn.functional.normalize(torch.randn(2, 8, 16), dim=-1)
        >>> RINCEClipLoss(q=0.5)(images, texts, logit_scale=torch.tensor(10.0)).shape
        torch.Size([])
    """

    def __init__(
        self,
        *args: Any,
        q: float = 0.5,
        lam: Lam = DEFAULT_LAM,
        unit: bool = True,
        temperature: float | None = 0.2,
        **options: Any,
    ):
        super().__init__(*args, **options)
        self.contrastive = rince_objective(q, lam, 0.5, unit)
        self.temperature = temperature


class GCEClipLoss(WithQ, ClipLoss):
    """Generalized cross-entropy for mismatched images and texts.

    Args:
        q: Robustness in [0, 1]; 0 is ``ClipLoss``; may be changed between steps.
        temperature: Fixed softmax temperature. Default: 0.2. None: that of the model's ``logit_scale``, which training
            lowers, so that the loss loses its robustness.
        **options: Options of ``ClipLoss``.

    Example:
        >>> from rince.integrations.open_clip import GCEClipLoss
        >>> images, texts = nn.functional.normalize(torch.randn(2, 8, 16), dim=-1)
        >>> GCEClipLoss()(images, texts, logit_scale=torch.tensor(10.0)).shape
        torch.Size([])
    """

    def __init__(self, *args: Any, q: float = 1.0, temperature: float | None = 0.2, **options: Any):
        super().__init__(*args, **options)
        self.contrastive = GCE(q=q)
        self.temperature = temperature


class SigLipLoss(nn.Module):
    """open_clip's ``SigLipLoss``: binary classification of all pairs of images and texts.

    Args:
        cache_labels: Ignored.
        rank: Ignored.
        world_size: Number of ranks; nothing is gathered for 1.
        dist_impl: Ignored: texts are always gathered.
        chunk_size: Ignored: large batches are always computed in blocks.

    Example:
        >>> from rince.integrations.open_clip import SigLipLoss
        >>> images, texts = nn.functional.normalize(torch.randn(2, 8, 16), dim=-1)
        >>> SigLipLoss()(images, texts, logit_scale=torch.tensor(10.0)).shape
        torch.Size([])
    """

    def __init__(
        self,
        cache_labels: bool = False,
        rank: int = 0,
        world_size: int = 1,
        dist_impl: str | None = None,
        chunk_size: int = 0,
    ):
        super().__init__()
        self.world_size = world_size

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
    ) -> Any:
        """Loss of the images of this rank with the texts of all ranks."""
        check_pair(image_features, text_features)
        _check_processes(self.world_size)
        with full_precision(image_features), alone(self.world_size == 1):
            dtype = score_dtype(image_features, text_features)
            image, text = image_features.to(dtype), text_features.to(dtype)
            (texts,), *_, start = gather([text])
            bias = torch.as_tensor(0.0 if logit_bias is None else logit_bias, dtype=dtype, device=image.device)
            bias = bias.reshape(())
            images, plain = image * logit_scale, torch.compiler.is_compiling() or transformed()
            total_loss = _dense_sigmoid_loss if plain or small(image, texts) else _SigmoidLoss.apply
            loss = total_loss(images, texts, bias, start) / len(image)
        return {"contrastive_loss": loss} if output_dict else loss


def _check_processes(world_size: int) -> None:
    """Reject a world_size that differs from torch.distributed, which would scale the loss."""
    num_ranks = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if world_size not in (1, num_ranks):
        raise UsageError(
            f"world_size is {world_size}, but torch.distributed runs {num_ranks}: start them with torchrun"
        )


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def _dense_sigmoid_loss(images: Tensor, texts: Tensor, bias: Tensor, start: int) -> Tensor:
    """Sum of the sigmoid losses of all pairs of images and texts; text ``start + i`` is the positive of image i."""
    scores = torch.addmm(bias, images, texts.T)
    scores.diagonal(start)[: len(images)].neg_()
    return softplus(scores, threshold=40).sum()


class _SigmoidLoss(torch.autograd.Function):
    """``_dense_sigmoid_loss`` in blocks of images."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, texts: Tensor, bias: Tensor, start: int) -> Tensor:
        need_gradient = any(ctx.needs_input_grad)
        total, d_bias = (images.new_zeros((), dtype=torch.float64) for _ in range(2))
        d_images, d_texts = (torch.zeros_like(z if need_gradient else z[:0]) for z in (images, texts))
        height = max(1, DENSE // max(1, len(texts)))
        for first in range(0, len(images), height):
            block = images[first : first + height]
            scores = torch.addmm(bias, block, texts.T)
            own = scores.diagonal(start + first)
            own.neg_()
            total += softplus(scores, threshold=40).sum(dtype=torch.float64)
            if need_gradient:
                slopes = scores.sigmoid_()
                own.neg_()
                torch.mm(slopes, texts, out=d_images[first : first + height])
                d_texts.addmm_(slopes.T, block)
                d_bias += slopes.sum(dtype=torch.float64)
        ctx.start = start
        ctx.save_for_backward(images, texts, bias, d_images, d_texts, d_bias.to(bias.dtype))
        return total.to(images.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, texts, bias, *gradients = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph=True: the whole matrix, in operations that can be differentiated
            inputs = [z for z, need in zip((images, texts, bias), needs, strict=True) if need]
            value = _dense_sigmoid_loss(images, texts, bias, ctx.start)
            results = iter(torch.autograd.grad(value, inputs, gradient, create_graph=True))
            return *(next(results) if need else None for need in needs), None
        return *(gradient * d if need else None for d, need in zip(gradients, needs, strict=True)), None
