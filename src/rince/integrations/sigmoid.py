"""SigLIP's loss without keeping the matrix of scores."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

SIDE = 512


def sigmoid_loss(
    images: Tensor, texts: Tensor, scale: Tensor | float, bias: Tensor | float, start: int = 0
) -> Tensor:
    """(n, d), (m, d) -> the sum over all pairs of -log sigmoid(label (scale image.text + bias)), over n.

    Args:
        images: Features of the images of this process.
        texts: Features of all texts.
        scale: What products are multiplied with.
        bias: What is added to them.
        start: The text at which those of this process begin: image i belongs to text ``start + i``.
    """
    scale, bias = (torch.as_tensor(x, dtype=images.dtype, device=images.device) for x in (scale, bias))
    if len(images) == 0:  # still part of the graph: other processes wait for it
        return (images.sum() + 0 * texts.sum()) * scale + 0 * bias
    return _Sigmoid.apply(images, texts, scale.reshape(()), bias.reshape(()), start)


class _Sigmoid(torch.autograd.Function):
    """The loss is one number, so its gradients can be summed up tile by tile on the way forward."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, texts: Tensor, scale: Tensor, bias: Tensor, start: int) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        n, m = len(images), len(texts)
        own_texts = texts[start : start + n]
        pairs = (images * own_texts).sum(1)
        positive = torch.addcmul(bias, pairs, scale)
        loss, pull = softplus(-positive).sum(), -torch.sigmoid(-positive)
        to_scale, to_bias = (pull * pairs).sum(), pull.sum()
        to_images = (pull * scale)[:, None] * own_texts if wanted else None
        to_texts = torch.zeros_like(texts) if wanted else None
        if to_texts is not None:
            to_texts[start : start + n] = (pull * scale)[:, None] * images
        side = max(n, m) if n * m <= SIDE * SIDE else SIDE
        for i in range(0, n, side):
            own = images[i : i + side]
            scaled = own * scale
            for j in range(0, m, side):
                others = texts[j : j + side]
                logits = torch.addmm(bias, scaled, others.T)
                diagonal = start + i - j  # the pairs, which have had their part
                if -len(own) < diagonal < len(others):
                    logits.diagonal(diagonal).fill_(-torch.inf)
                loss = loss + softplus(logits).sum()
                if to_images is not None and to_texts is not None:
                    pull = logits.sigmoid_()
                    weighted = pull @ others
                    to_images[i : i + side].addcmul_(weighted, scale)
                    to_texts[j : j + side].addmm_(pull.T, scaled)
                    to_scale = to_scale + (weighted * own).sum()
                    to_bias = to_bias + pull.sum()
        if wanted:
            ctx.save_for_backward(*(g / n for g in (to_images, to_texts, to_scale, to_bias) if g is not None))
        return loss / n

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient * g for g in ctx.saved_tensors), None)
