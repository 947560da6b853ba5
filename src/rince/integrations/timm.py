"""timm models as encoders of ``rince train``.

encoder:
  class_path: rince.integrations.timm.TimmEncoder
  init_args: {model_name: resnet18}
"""

from typing import Any

from torch import Tensor, nn

from rince._support.optional_imports import import_library


class TimmEncoder(nn.Module):
    """``timm.create_model`` without the classifier: images to features (n, features).

    Args:
        model_name: Name from ``timm.list_models()``.
        pretrained: Download pretrained weights. Default: False.
        in_chans: Number of image channels.
        options: Other arguments of ``timm.create_model``.

    Example:
        >>> from rince.integrations.timm import TimmEncoder
        >>> encoder = TimmEncoder("resnet18")  # needs timm, # needs torchvision
        >>> encoder.features  # needs timm
        512
    """

    def __init__(
        self, model_name: str, pretrained: bool = False, in_chans: int = 3, options: dict[str, Any] | None = None
    ):
        super().__init__()
        library: Any = import_library("timm", "timm")
        self.model = library.create_model(
            model_name, pretrained=pretrained, in_chans=in_chans, num_classes=0, **(options or {})
        )
        # Some models have a layer between their features and the classifier, which stays.
        self.features = int(getattr(self.model, "head_hidden_size", None) or self.model.num_features)

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)
