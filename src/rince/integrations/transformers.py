"""rince with transformers: a loss for its Trainer, and its image models as encoders.

from rince.integrations.transformers import DualEncoderLoss
trainer = Trainer(model=clip, args=args, train_dataset=pairs, compute_loss_func=DualEncoderLoss(loss))
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor, nn

from rince._support.optional_imports import import_library
from rince.errors import UsageError


class DualEncoderLoss:
    """A ``compute_loss_func`` for two-tower models, such as CLIP, SigLIP and VisionTextDualEncoder.

    Args:
        loss: Loss of both embeddings, such as ``rince.GCE(contrast=rince.CrossView())``.
        first: Name or index of the model output with the embeddings of the first side.
        second: Name or index of the output of the second side.
        gradient_accumulation_steps: Value of the training arguments. The Trainer expects the function to divide by it,
            but does not pass it.
        takes_labels: Pass the labels of a batch to the loss. Default: False, labels raise an error.
        weighted: Pass the labels of a batch to the loss as ``weights``. Default: False.

    Raises:
        UsageError: If gradient_accumulation_steps is below 1, or both takes_labels and weighted are set.

    Example:
        >>> from rince.integrations.transformers import DualEncoderLoss
        >>> func = DualEncoderLoss(rince.GCE(contrast=rince.CrossView()))
        >>> func({"image_embeds": torch.randn(8, 16), "text_embeds": torch.randn(8, 16)}).shape
        torch.Size([])

    Give it to a Trainer as ``Trainer(model=model, args=args, train_dataset=pairs, compute_loss_func=func)``.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor],
        first: str | int = "image_embeds",
        second: str | int = "text_embeds",
        gradient_accumulation_steps: int = 1,
        takes_labels: bool = False,
        weighted: bool = False,
    ):
        if gradient_accumulation_steps < 1:
            raise UsageError(f"gradient_accumulation_steps must be at least 1, got {gradient_accumulation_steps}")
        self.loss, self.first, self.second = loss, first, second
        if takes_labels and weighted:
            raise UsageError("takes_labels and weighted must not both be set: a batch has one column of labels")
        self.steps, self.takes_labels, self.weighted = gradient_accumulation_steps, takes_labels, weighted

    def __call__(self, outputs: Any, labels: Tensor | None = None, num_items_in_batch: Any = None) -> Tensor:
        """The loss of a batch. ``num_items_in_batch`` is ignored: it counts tokens."""
        uses_labels = self.takes_labels or self.weighted
        if labels is not None and not uses_labels:
            raise UsageError("the batch has labels: drop them, or set takes_labels of DualEncoderLoss")
        if labels is None and uses_labels:
            option = "weighted" if self.weighted else "takes_labels"
            raise UsageError(
                f"DualEncoderLoss({option}=True) got no labels: name the column 'labels', and set "
                "remove_unused_columns=False in the training arguments if the model does not accept labels"
            )
        options = {"weights" if self.weighted else "labels": labels} if uses_labels else {}
        return self.loss(self._side(outputs, self.first), self._side(outputs, self.second), **options) / self.steps

    @staticmethod
    def _side(outputs: Any, name: str | int) -> Tensor:
        if isinstance(name, int):
            values = list(outputs.values() if isinstance(outputs, Mapping) else outputs)
            value = values[name] if -len(values) <= name < len(values) else None
        else:
            value = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
        if not isinstance(value, Tensor):
            names = outputs if isinstance(outputs, Mapping) else (type(outputs).__name__,)
            raise UsageError(
                f"the model has no output {name!r}, only {', '.join(map(str, names))}: set first and second"
            )
        return value


class ImageEncoder(nn.Module):
    """Image model of transformers as an encoder of ``rince train``: images to features (n, features).

    Args:
        model: Name or folder for ``AutoModel.from_pretrained``; with ``config``, a model type such as ``vit``, with
            random weights.
        pooling: ``pooler`` for the pooler of the model, ``cls`` for the first token, ``mean`` over all tokens.
        config: Settings of a model with random weights, such as ``{"hidden_size": 64, "image_size": 32}``.

    Example:
        >>> from rince.integrations.transformers import ImageEncoder
        >>> small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        >>> encoder = ImageEncoder("vit", config={**small, "image_size": 32})  # needs transformers
        >>> encoder(torch.rand(2, 3, 32, 32)).shape  # needs transformers
        torch.Size([2, 32])
    """

    def __init__(
        self,
        model: str,
        pooling: Literal["pooler", "cls", "mean"] = "mean",
        config: dict[str, Any] | None = None,
    ):
        super().__init__()
        library: Any = import_library("transformers", "transformers")
        if config is None:
            self.model = library.AutoModel.from_pretrained(model)
        else:
            self.model = library.AutoModel.from_config(library.AutoConfig.for_model(model, **config))
        settings: Any = self.model.config
        sizes = getattr(settings, "hidden_sizes", None)
        self.features = int(sizes[-1] if sizes else settings.hidden_size)
        self.pooling = pooling

    def forward(self, images: Tensor) -> Tensor:
        output = self.model(pixel_values=images)
        if self.pooling == "pooler":
            pooled = getattr(output, "pooler_output", None)
            if pooled is None:
                raise UsageError(f"{type(self.model).__name__} has no pooler: set pooling to cls or mean")
            return pooled.flatten(1)
        hidden = output.last_hidden_state
        if hidden.dim() == 4:  # a feature map instead of tokens
            return hidden.mean((2, 3))
        return hidden[:, 0] if self.pooling == "cls" else hidden.mean(1)
