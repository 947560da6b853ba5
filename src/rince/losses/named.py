"""A loss from the name of its class and plain values, as tables and configurations keep them."""

from collections.abc import Mapping
from typing import Any

from rince.losses.contrast import Contrast
from rince.losses.loss import ContrastiveLoss
from rince.losses.rince import DensityRatio


def named_loss(
    kind: str, arguments: Mapping[str, Any], temperature: float, contrast: Contrast | None = None
) -> ContrastiveLoss:
    """The loss of that class.

    Args:
        kind: A class of ``rince.losses``, such as ``"GCE"``.
        arguments: Its arguments beside temperature and contrast; a ``lam`` that is a ``DensityRatio`` may be written as
            a configuration writes it, ``{"class_path": "rince.DensityRatio", "init_args": {"r": 2.5}}``.
        temperature: Of the scores.
        contrast: Who is compared with whom; the loss's own default if ``None``.

    Example:
        >>> named_loss("GCE", {"q": 1.0}, 0.2)
    """
    import rince.losses

    values = dict(arguments)
    if isinstance(lam := values.get("lam"), Mapping):
        values["lam"] = DensityRatio(**lam["init_args"])
    loss: ContrastiveLoss = getattr(rince.losses, kind)(**values, temperature=temperature, contrast=contrast)
    return loss
