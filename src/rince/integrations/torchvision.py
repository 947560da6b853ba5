"""torchvision models as encoders of ``rince train``.

encoder:
  class_path: rince.integrations.torchvision.TorchvisionEncoder
  init_args: {name: resnet18}
"""

from typing import Any

from torch import Tensor, nn

from rince._support.optional_imports import import_library
from rince.errors import UsageError

CLASSIFIERS = ("fc", "classifier", "heads", "head")


class TorchvisionEncoder(nn.Module):
    """``torchvision.models.get_model`` without the classifier: images to features (n, features).

    Args:
        name: Name from ``torchvision.models.list_models()``.
        weights: Name of pretrained weights, such as ``DEFAULT``. Default: None, random weights.
        options: Other arguments of ``get_model``.

    Raises:
        UsageError: If the model has no classifier to remove.

    Example:
        >>> from rince.integrations.torchvision import TorchvisionEncoder
        >>> encoder = TorchvisionEncoder("resnet18")  # needs torchvision
        >>> encoder.features  # needs torchvision
        512
    """

    def __init__(self, name: str, weights: str | None = None, options: dict[str, Any] | None = None):
        super().__init__()
        library: Any = import_library("torchvision.models", "torchvision")
        self.model = library.get_model(name, weights=weights, **(options or {}))
        for attribute in CLASSIFIERS:
            part = getattr(self.model, attribute, None)
            layers = [] if part is None else [m for m in part.modules() if isinstance(m, nn.Linear)]
            if layers:
                self.features = layers[0].in_features
                setattr(self.model, attribute, nn.Identity())
                return
        raise UsageError(f"torchvision's {name} has no classifier: choose a classification model")

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).flatten(1)
