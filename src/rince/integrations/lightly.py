"""Drop-in losses for lightly: the same arguments and the same call.

    from rince.integrations.lightly import GCELoss   # instead of: from lightly.loss import NTXentLoss
    criterion = GCELoss()
    loss = criterion(out0, out1)

lightly is not imported.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, rince_objective, weighted_mean
from rince.losses import DCL, GCE, ContrastiveLoss, InfoNCE, Queue, Supervised, TwoView, objectives
from rince.losses.contrasts import unit
from rince.losses.inputs import check_pair
from rince.losses.ranks import alone
from rince.losses.temperature import Temperature, number_of

WeightFunction = Callable[[Tensor, Tensor], Tensor]


class _TwoViewLoss(nn.Module):
    """Loss of two views, optionally with a memory bank and candidates of all ranks."""

    def __init__(
        self, contrastive: ContrastiveLoss, gather_distributed: bool, memory_bank_size: int | Sequence[int] = 0
    ):
        super().__init__()
        if gather_distributed and not dist.is_available():
            raise UsageError("gather_distributed is True but torch.distributed is not available: set it to False")
        self.contrastive, self.gather_distributed = contrastive, gather_distributed
        size = (memory_bank_size,) if isinstance(memory_bank_size, int) else tuple(memory_bank_size)
        if len(size) not in (1, 2) or size[0] < 0:
            raise UsageError(f"memory_bank_size must be a number of at least 0 or (number, width), got {size}")
        self.memory_bank_size = size[0]
        if self.memory_bank_size and len(size) == 2:
            self._remember(size[1])

    def _remember(self, width: int) -> None:
        self.contrastive.contrast = Queue(width, self.memory_bank_size)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        keys = state_dict.get(f"{prefix}contrastive.contrast.keys")
        if self.memory_bank_size and keys is not None and not isinstance(self.contrastive.contrast, Queue):
            self._remember(keys.shape[1])  # otherwise the first batch sets the width
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _refuse(self, labels: Tensor | None) -> None:
        if labels is not None:
            raise UsageError(f"{type(self).__name__} does not accept labels: use SupConLoss")

    @property
    def temperature(self) -> float:
        return number_of(self.contrastive.temperature)

    def forward(
        self, out0: Tensor, out1: Tensor, labels: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Loss of two views; ``weights`` (n,) for a weighted mean."""
        self._refuse(labels)
        if self.memory_bank_size and not isinstance(self.contrastive.contrast, Queue):
            check_pair(out0, out1)
            self._remember(out0.shape[1])
            self.contrastive.contrast.to(out0.device)
        contrast = self.contrastive.contrast
        if isinstance(contrast, Queue):
            contrast.train(out0.requires_grad)  # as in lightly: only training batches enter the bank
        with alone(not self.gather_distributed):
            return self.contrastive(out0, out1, weights=weights)


class NTXentLoss(_TwoViewLoss):
    """lightly's ``NTXentLoss`` with memory linear in the batch size.

    Args:
        temperature: Softmax temperature.
        memory_bank_size: Size of the memory bank, as a number or (number, width). The keys in it are then the only
            negatives. Default: 0, no bank.
        gather_distributed: Use candidates of all ranks. Default: False.

    Example:
        >>> from rince.integrations.lightly import NTXentLoss
        >>> criterion = NTXentLoss(temperature=0.1)
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: Temperature = 0.5,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
    ):
        super().__init__(InfoNCE(temperature=temperature, contrast=TwoView()), gather_distributed, memory_bank_size)


class RINCELoss(WithQ, _TwoViewLoss):
    """RINCE for mismatched views.

    Args:
        temperature: Softmax temperature.
        memory_bank_size: Size of the memory bank, as a number or (number, width). The keys in it are then the only
            negatives. Default: 0, no bank.
        gather_distributed: Use candidates of all ranks. Default: False.
        q: Robustness in [0, 1]; 0 is ``NTXentLoss``; may be changed between steps.
        lam: Weight of the negatives: a float, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Divide the loss by exp(q / temperature), to keep the learning rate of InfoNCE. Default: True.

    Example:
        >>> from rince.integrations.lightly import RINCELoss
        >>> criterion = RINCELoss()
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: Temperature = 0.2,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        q: float = 0.5,
        lam: Lam = DEFAULT_LAM,
        unit: bool = True,
    ):
        super().__init__(rince_objective(q, lam, temperature, unit), gather_distributed, memory_bank_size)


class GCELoss(WithQ, _TwoViewLoss):
    """Generalized cross-entropy for mismatched views.

    Args:
        temperature: Softmax temperature.
        memory_bank_size: Size of the memory bank, as a number or (number, width). The keys in it are then the only
            negatives. Default: 0, no bank.
        gather_distributed: Use candidates of all ranks. Default: False.
        q: Robustness in [0, 1]; 0 is ``NTXentLoss``; may be changed between steps.

    Example:
        >>> from rince.integrations.lightly import GCELoss
        >>> criterion = GCELoss()
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: Temperature = 0.2,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        q: float = 1.0,
    ):
        super().__init__(GCE(q=q, temperature=temperature, contrast=TwoView()), gather_distributed, memory_bank_size)


class SupConLoss(_TwoViewLoss):
    """lightly's ``SupConLoss``: positives are views of the same label.

    Args:
        temperature: Softmax temperature.
        gather_distributed: Use candidates of all ranks. Default: False.
        rescale: Multiply the loss by the temperature, as lightly does. Default: True.
        objective: Another loss, such as ``rince.RINCE(q=0.5, temperature=0.1)``, with its own temperature.

    Example:
        >>> from rince.integrations.lightly import SupConLoss
        >>> criterion = SupConLoss(temperature=0.1)
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16), labels=torch.arange(8) % 4).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: Temperature = 0.1,
        gather_distributed: bool = False,
        rescale: bool = True,
        objective: ContrastiveLoss | None = None,
    ):
        contrastive = InfoNCE(temperature=temperature) if objective is None else objective
        contrastive.contrast = Supervised()
        super().__init__(contrastive, gather_distributed)
        self.rescale = rescale

    def forward(
        self, out0: Tensor, out1: Tensor, labels: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Loss of two views. Without labels, the positive of an item is its other view."""
        if labels is None:
            count = out0.shape[0]
            first = (
                dist.get_rank() << 32 if self.gather_distributed and dist.is_initialized() else 0
            )  # in any batch size
            labels = torch.arange(first, first + count, device=out0.device)
        with alone(not self.gather_distributed):
            loss = self.contrastive(out0, out1, labels=labels.long(), weights=weights)
        return loss * self.temperature if self.rescale else loss


class DCLLoss(_TwoViewLoss):
    """lightly's ``DCLLoss``: InfoNCE without the positive in the denominator.

    Args:
        temperature: Softmax temperature.
        weight_fn: Maps both normalized views to (n,) weights of the positive scores.
        gather_distributed: Use candidates of all ranks. Default: False.

    Example:
        >>> from rince.integrations.lightly import DCLLoss
        >>> criterion = DCLLoss()
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    def __init__(
        self, temperature: Temperature = 0.1, weight_fn: WeightFunction | None = None, gather_distributed: bool = False
    ):
        super().__init__(DCL(temperature=temperature, contrast=TwoView()), gather_distributed)
        self.weight_fn = weight_fn

    def forward(
        self, out0: Tensor, out1: Tensor, labels: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        self._refuse(labels)
        if self.weight_fn is None:
            return super().forward(out0, out1, weights=weights)
        views = unit(out0), unit(check_pair(out0, out1))
        pulls = torch.cat([self.weight_fn(*views), self.weight_fn(*views[::-1])])
        with alone(not self.gather_distributed):
            positive, negatives = self.contrastive.scores(out0, out1)
        losses = objectives.dcl(pulls * positive, negatives)
        return losses.mean() if weights is None else weighted_mean(losses.view(2, -1).mean(0), weights)


class DCLWLoss(DCLLoss):
    """lightly's ``DCLWLoss``: negative von Mises-Fisher weights, lower for close pairs.

    Args:
        temperature: Softmax temperature.
        sigma: Temperature of the weights.
        gather_distributed: Use candidates of all ranks. Default: False.

    Example:
        >>> from rince.integrations.lightly import DCLWLoss
        >>> criterion = DCLWLoss()
        >>> criterion(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    def __init__(self, temperature: Temperature = 0.1, sigma: float = 0.5, gather_distributed: bool = False):
        super().__init__(temperature, self._weights, gather_distributed)
        self.sigma = sigma

    def _weights(self, out0: Tensor, out1: Tensor) -> Tensor:
        similarity = (out0 * out1).sum(1).detach() / self.sigma
        return 2 - len(out0) * similarity.softmax(0)
