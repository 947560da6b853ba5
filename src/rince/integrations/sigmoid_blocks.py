"""SigLIP's loss of a large batch, block by block of images, in memory that grows with the batch.

The loss is one number, so its gradient is known up to a factor as soon as a block is: it is taken in the forward pass,
and no block has to be computed again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.losses.contrast.tiles import DENSE


def sigmoid_loss(images: Tensor, texts: Tensor, bias: Tensor, start: int = 0) -> Tensor:
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
