"""Two modalities, each with its own encoder: clips and sounds, images and texts, two tables."""

from typing import Any, Literal

from torch import Tensor, nn

from rince.encoders.heads import Towers, mlp
from rince.errors import UsageError
from rince.losses import CrossView, TwoView
from rince.methods.method import Method, OptimizerFactory, width_of
from rince.views.pair import PairViews
from rince.views.views import PairBatch

Side = Literal["a", "b"]


class CrossModal(Method):
    """Two modalities with an encoder and a head each, such as clips and sounds, or images and texts.

    N pairs are 2N anchors. Their negatives are the N - 1 other items of the other side (``negatives="other_side"``, as
    in AVID), or all 2N - 2 other items of both sides (``"both_sides"``). The online probe is trained on the features of
    side a.

    Example:
        >>> from rince.encoders import MLP, Towers
        >>> from rince.views import PairViews, Unchanged
        >>> towers, views = Towers(MLP([40, 32]), MLP([24, 32])), PairViews(Unchanged(), Unchanged())
        >>> method = rince.methods.CrossModal(towers, rince.RINCE(lam="balanced"), views, torch.optim.Adam)
    """

    encoder: Towers
    views: PairViews

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        hidden: int = 512,
        width: int = 128,
        layers: int = 3,
        head_norm: bool = False,
        negatives: Literal["other_side", "both_sides"] = "other_side",
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the hidden layers of the heads. Default: 512.
            width: Width of the embeddings; 0 for no heads, which needs encoders of equal width. Default: 128.
            layers: Number of linear layers in a head. Default: 3.
            head_norm: Batch norm in the heads. Default: False.
            negatives: Items of the other side only (default), or of both sides.

        Raises:
            UsageError: If encoder or views do not have two sides, or a head has no layers.
        """
        for what, part, kind in (("encoder", encoder, Towers), ("views", views, PairViews)):
            if not all(isinstance(getattr(part, side, None), nn.Module) for side in "ab"):
                raise UsageError(
                    f"CrossModal needs {what} with two sides a and b, such as {kind.__module__}.{kind.__name__}, "
                    f"got {type(part).__name__}"
                )
        super().__init__(encoder, loss, views, optimizer, **schedules)
        self.compare_by(CrossView() if negatives == "other_side" else TwoView())
        if layers < 1:
            raise UsageError(f"layers must be at least 1, got {layers}")
        features = [width_of(self.encoder.a), width_of(self.encoder.b)]
        if not width and features[0] != features[1]:
            raise UsageError(
                f"width=0 needs encoders with the same number of features, got {features[0]} and {features[1]}"
            )
        for side, before in zip("ab", features, strict=True):
            head = mlp([before, *[hidden] * (layers - 1), width], norm=head_norm) if width else nn.Identity()
            self.add_module(f"head_{side}", head)

    def batch_loss(self, batch: PairBatch) -> Tensor:
        views = self.views(batch.a, batch.b, self.draw(len(batch.a)), batch.cropped)
        features = self.encoder(*views)
        a, b = self.project(features)
        self.note(features[0], batch.labels)
        self.note_similarity(a, b)
        return self.compare_pairs(a, b, batch)

    def embed(self, batch: PairBatch) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Features of both sides, without augmentation."""
        return self.embed_side("a", batch.a), self.embed_side("b", batch.b)

    def pair_embeddings(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        return self.project(self.embed(batch))

    def has_partners(self, batch: PairBatch) -> bool:
        return True

    def project(self, features: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Embeddings of both sides, in the common space of the loss."""
        return self.project_side("a", features[0]), self.project_side("b", features[1])

    def embed_side(self, side: Side, items: Tensor) -> Tensor:
        """Features of items of one side, without augmentation."""
        recipe: Any = self.views.get_submodule(side)
        return self.encoder.get_submodule(side)(recipe.plain(items))

    def project_side(self, side: Side, features: Tensor) -> Tensor:
        """Embeddings of features of one side."""
        return self.get_submodule(f"head_{side}")(features)
