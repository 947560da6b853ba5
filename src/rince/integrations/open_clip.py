"""Losses with the signature of open_clip's ``ClipLoss`` and ``SigLipLoss``, in memory that grows with the batch.

    from rince.integrations.open_clip import GCEClipLoss
    loss = GCEClipLoss(local_loss=True, gather_with_grad=True, rank=args.rank, world_size=args.world_size)
    losses = loss(image_features, text_features, logit_scale, output_dict=True)

open_clip itself is not imported: these are plain modules. Features are used as they are: open_clip's models
normalize them.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, diagonal_scores, rince_objective, small
from rince.losses import GCE, ContrastiveLoss, ExtraReduction, InfoNCE, Objective, Scores
from rince.losses.blocks import DENSE
from rince.losses.contrasts import check_pair
from rince.losses.logsumexp import negative_scores, negative_scores_both, precision, transformed
from rince.losses.loss import _check_weights, _full_precision
from rince.losses.ranks import alone, gather, total


class ClipLoss(nn.Module):
    """open_clip's ``ClipLoss``: images against texts and texts against images.

    Args:
        local_loss: Whether every process returns the loss of its own pairs instead of that of all pairs.
        gather_with_grad: Whether the gradient reaches the candidates of other processes.
        cache_labels: Accepted for compatibility: there are no labels to cache.
        rank: Accepted for compatibility: it is taken from torch.distributed.
        world_size: Number of processes; with 1 nothing is gathered.
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
        self.contrastive: ContrastiveLoss = InfoNCE()  # its temperature is the inverse of what the model learns
        self.temperature: float | None = None

    def objective(self, logit_scale: Tensor | float) -> Objective:
        """The objective at this scale of the logits."""
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
            image_features: Normalized embeddings of the images.
            text_features: Normalized embeddings of the texts.
            logit_scale: Inverse temperature; not used by a loss with a temperature of its own.
            logit_bias: Accepted for compatibility: it cancels in a softmax.
            output_dict: Whether to return a dictionary.
            weights: One weight per pair, for a weighted mean. Default: None, all equal.
        """
        check_pair(image_features, text_features)
        weights = _check_weights(weights, image_features)
        _check_processes(self.world_size)
        with _full_precision(image_features), alone(self.world_size == 1):
            dtype = precision(image_features, text_features)
            image, text = image_features.to(dtype), text_features.to(dtype)
            scale = logit_scale if self.temperature is None else 1 / self.temperature
            loss = self._loss(image, text, scale, weights)
        unused = (logit_bias,) if self.temperature is None else (logit_bias, logit_scale)
        for parameter in unused:
            if isinstance(parameter, Tensor) and parameter.requires_grad:
                loss = loss + 0 * parameter.sum()  # a parameter without gradient would stop DistributedDataParallel
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
            # Gathered without gradient, the loss of all pairs gives a process the gradient of its own features once,
            # not once per process as an exact gather does.
            image, text = (_ScaledGradient.apply(z, 1 / self.world_size) for z in (image, text))
        detached = self.local_loss and not self.gather_with_grad
        sides = [text.detach(), image.detach()] if detached else [text, image]
        everything, *_, start = gather(sides)
        everyone = torch.arange(len(everything[0]), device=image.device)
        keys = everyone[start : start + len(image)]
        number = image.new_full((len(image),), len(everyone) - 1)
        losses = []
        for own, partner, others in zip((image, text), sides, everything, strict=True):
            own = own * logit_scale
            negatives = negative_scores(own, others, keys, everyone).lse
            losses.append(objective(Scores((own * partner).sum(1), negatives, number)))
        loss = self._mean(torch.stack(losses), weights)
        if self.local_loss:
            return loss
        return loss + (total(loss) / self.world_size - loss).detach()

    def _mean(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Over both directions and all pairs of this rank; if weighted, its part of the mean over all ranks."""
        if weights is None:
            return losses.mean()
        weights = weights.to(losses)
        everything = total(weights.sum())
        return (losses.mean(0) * (weights / torch.where(everything == 0, 1, everything))).sum() * self.world_size


class RINCEClipLoss(WithQ, ClipLoss):
    """``ClipLoss`` on images and texts that may not belong together.

    Args:
        q: From 0 (the same as ``ClipLoss``) to 1 (most robust); it can be set between steps.
        lam: The weight of the negatives: a number, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Whether the loss is divided by exp(q / temperature): needed wherever the temperature is learned.
        temperature: Fixed softmax temperature. Default: 0.2. None: that of the model's ``logit_scale``, which training
            lowers, so that the loss loses its robustness.
        **options: Those of ``ClipLoss``.

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
    """``ClipLoss`` on images and texts that may not belong together, by generalized cross-entropy.

    Args:
        q: From 0 (the same as ``ClipLoss``) to 1 (most robust); it can be set between steps.
        temperature: Fixed softmax temperature. Default: 0.2. None: that of the model's ``logit_scale``, which training
            lowers, so that the loss loses its robustness.
        **options: Those of ``ClipLoss``.

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
    """open_clip's ``SigLipLoss``: a binary decision for every pair of image and text.

    Args:
        cache_labels: Accepted for compatibility.
        rank: Accepted for compatibility.
        world_size: Number of processes; with 1 nothing is gathered.
        dist_impl: Accepted for compatibility: texts are gathered, which gives the same numbers as passing
            them around.
        chunk_size: Accepted for compatibility with newer versions: large batches are always computed in blocks.

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
        """The loss of the images of this process with the texts of all."""
        check_pair(image_features, text_features)
        _check_processes(self.world_size)
        with _full_precision(image_features), alone(self.world_size == 1):
            dtype = precision(image_features, text_features)
            image, text = image_features.to(dtype), text_features.to(dtype)
            (texts,), *_, start = gather([text])
            bias = torch.as_tensor(0.0 if logit_bias is None else logit_bias, dtype=dtype, device=image.device)
            bias = bias.reshape(())
            if small(image, texts):
                logits = torch.addmm(-bias, image * -logit_scale, texts.T)  # as a no wants them
                logits.diagonal(start)[: len(image)].neg_()
                loss = -logsigmoid(logits).sum() / len(image)
            elif not torch.compiler.is_compiling() and not transformed():
                loss = _sigmoid_loss(image * logit_scale, texts, bias, start) / len(image)
            else:
                own = image * logit_scale
                everyone = torch.arange(len(texts), device=image.device)
                keys = everyone[start : start + len(image)]
                others = negative_scores(own, texts, keys, everyone, ExtraReduction("softplus", shift=bias)).extra
                assert others is not None
                loss = (softplus(-(own * text).sum(1) - bias) + others).mean()
        return {"contrastive_loss": loss} if output_dict else loss


def _check_processes(world_size: int) -> None:
    """Complain about processes that are promised but not there: the loss would be wrong by that factor."""
    started = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if world_size not in (1, started):
        raise UsageError(f"world_size is {world_size}, but torch.distributed runs {started}: start them with torchrun")


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def _sigmoid_loss(images: Tensor, texts: Tensor, bias: Tensor, start: int = 0) -> Tensor:
    """(n, d), (m, d) -> (): over all pairs, how far the sigmoid of a score and a bias is from yes or no.

    Args:
        images: Scaled embeddings, so that the product with a text is a score.
        texts: Text ``start + i`` is that of image i, a yes; all others are a no.
        bias: Added to every score.
        start: See ``texts``.

    Returns:
        The sum of the losses of all pairs.
    """
    return _SigmoidLoss.apply(images, texts, bias, start)


class _SigmoidLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, texts: Tensor, bias: Tensor, start: int) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        total, d_bias = (images.new_zeros((), dtype=torch.float64) for _ in range(2))
        d_images, d_texts = (torch.zeros_like(z if wanted else z[:0]) for z in (images, texts))
        height = max(1, DENSE // max(1, len(texts)))
        for first in range(0, len(images), height):
            block = images[first : first + height]
            scores = torch.addmm(bias, block, texts.T)
            own = scores.diagonal(start + first)
            own.neg_()
            total += softplus(scores, threshold=40).sum(dtype=torch.float64)
            if wanted:
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
        images, texts, bias, *found = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph=True: the whole matrix, in operations that can be differentiated
            scores = images @ texts.T + bias
            sign = torch.ones_like(scores.detach())
            sign.diagonal(ctx.start).neg_()
            wanted = [z for z, need in zip((images, texts, bias), needs, strict=True) if need]
            value = softplus(sign * scores, threshold=40).sum()
            again = iter(torch.autograd.grad(value, wanted, gradient, create_graph=True))
            return *(next(again) if need else None for need in needs), None
        return *(gradient * d if need else None for d, need in zip(found, needs, strict=True)), None
