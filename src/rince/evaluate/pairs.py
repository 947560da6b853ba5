"""Retrieval, and evaluation of two-tower models on pairs."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from rince._support.optional_imports import require
from rince._support.progress import track
from rince.errors import UsageError
from rince.evaluate.features import Space
from rince.evaluate.probes import DECAYS, fit_linear
from rince.views.views import PairBatch


def recall_at(
    query: Tensor, query_keys: Tensor, gallery: Tensor, gallery_keys: Tensor, ks: tuple[int, ...] = (1, 10)
) -> dict[int, float]:
    """R@k: share of queries with an item of the same key (class or partner) among the ``k`` nearest by cosine.

    Args:
        query: (n, width) embeddings.
        query_keys: (n,) keys of the queries.
        gallery: (m, width) embeddings to search.
        gallery_keys: (m,) keys of the gallery.
        ks: Ranks to report.

    Returns:
        Rank to share in [0, 1].

    Raises:
        UsageError: If queries or gallery are empty.

    Example:
        >>> partner = torch.arange(3)
        >>> rince.evaluate.recall_at(torch.eye(3), partner, torch.eye(3), partner, ks=(1,))
        {1: 1.0}
    """
    if not len(query) or not len(gallery):
        raise UsageError(f"retrieval needs queries and a gallery, got {len(query)} and {len(gallery)} items")
    query, gallery = normalize(query.float(), dim=1), normalize(gallery.float(), dim=1)
    depth = min(max(ks), len(gallery))
    matches = []
    for part, keys in zip(query.split(1024), query_keys.split(1024), strict=True):
        nearest = (part @ gallery.T).topk(depth, dim=1).indices
        matches.append(gallery_keys[nearest] == keys[:, None])
    hits = torch.cat(matches)
    return {k: float(hits[:, :k].any(1).double().mean()) for k in ks}


class PairFeatures(NamedTuple):
    """Features and embeddings of both sides of pairs.

    Attributes:
        features: (n, width) outputs of the two encoders.
        embeddings: (n, width) outputs of the two projection heads.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the pairs.

    Example:
        >>> a, b = torch.randn(2, 4, 8)
        >>> features = rince.evaluate.PairFeatures((a, b), (a, b), torch.full((4,), -1), torch.arange(4))
    """

    features: tuple[Tensor, Tensor]
    embeddings: tuple[Tensor, Tensor]
    labels: Tensor
    ids: Tensor


@torch.no_grad()
def pair_features(method: Any, batches: Iterable[PairBatch]) -> PairFeatures:
    """Features and embeddings of all pairs, in evaluation mode.

    Args:
        method: A ``rince.methods.CrossModal``.
        batches: Batches of pairs, such as ``data.pair_batches("test")``.

    Returns:
        Features and embeddings of both sides, labels and ids.

    Raises:
        UsageError: If the batches are empty.

    Example:
        >>> from rince.encoders import MLP, Towers
        >>> from rince.methods import CrossModal
        >>> views = rince.views.PairViews(rince.views.Unchanged(), rince.views.Unchanged())
        >>> method = CrossModal(Towers(MLP([8, 16]), MLP([6, 16])), rince.RINCE(), views, torch.optim.Adam, width=4)
        >>> batch = rince.views.PairBatch(torch.randn(4, 8), torch.randn(4, 6), torch.full((4,), -1), torch.arange(4))
        >>> rince.evaluate.pair_features(method, [batch]).embeddings[0].shape
        torch.Size([4, 4])
    """
    was_training = method.training
    method.eval()
    rows: list[tuple[Tensor, ...]] = []
    for batch in track(batches, "features"):
        features = method.embed(batch._replace(a=batch.a.to(method.device), b=batch.b.to(method.device)))
        embeddings = method.project(features)
        numbers = [x.float().cpu() for x in (*features, *embeddings)]
        rows.append((*numbers, batch.labels.cpu(), batch.ids.cpu()))
    method.train(was_training)
    if not rows:
        raise UsageError("there are no pairs to evaluate")
    fa, fb, za, zb, labels, ids = (torch.cat(column) for column in zip(*rows, strict=True))
    return PairFeatures((fa, fb), (za, zb), labels, ids)


def retrieval(a: Tensor, b: Tensor, labels: Tensor | None = None, ks: tuple[int, ...] = (1, 10)) -> dict[str, float]:
    """R@k in percent in both directions.

    Args:
        a: (n, width) embeddings of the first side.
        b: (n, width) embeddings of the second side.
        labels: (n,) classes. If all are known, ``class`` is the share of items with a nearest item of their class.
        ks: Ranks to report.

    Returns:
        Percentages by name, such as ``"a to b recall@1"``.

    Raises:
        UsageError: If the shapes of the two sides differ.

    Example:
        >>> from rince.evaluate.pairs import retrieval
        >>> retrieval(torch.eye(3), torch.eye(3), ks=(1,))
        {'a to b recall@1': 100.0, 'b to a recall@1': 100.0}
    """
    if a.shape != b.shape:
        raise UsageError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    partner = torch.arange(len(a))
    result = {}
    for way, query, gallery in (("a to b", a, b), ("b to a", b, a)):
        for k, share in recall_at(query, partner, gallery, partner, ks).items():
            result[f"{way} recall@{k}"] = 100 * share
        if labels is not None and bool((labels >= 0).all()):
            result[f"{way} class"] = 100 * recall_at(query, labels, gallery, labels, (1,))[1]
    return result


def wrong_pairs_auc(a: Tensor, b: Tensor, wrong: Any) -> float | None:
    """AUC in percent of separating right from wrong pairs by the cosine.

    Args:
        a: (n, width) embeddings of the first side.
        b: (n, width) embeddings of the second side.
        wrong: (n,) mask of the wrong pairs.

    Returns:
        AUC in [0, 100]; None if all pairs are right or all are wrong.

    Raises:
        UsageError: If ``wrong`` does not have one value per pair.

    Example:
        >>> a = torch.eye(4)
        >>> rince.evaluate.wrong_pairs_auc(a, a[[0, 1, 3, 2]], [False, False, True, True])
        100.0
    """
    wrong = torch.as_tensor(wrong)
    if wrong.shape != a.shape[:1]:
        raise UsageError(f"wrong must have the shape ({len(a)},), got {tuple(wrong.shape)}")
    if not wrong.any() or wrong.all():
        return None
    score = cosine_similarity(a.double(), b.double()).numpy()
    return 100 * float(require("sklearn.metrics", "train").roc_auc_score(~wrong.numpy(), score))


def evaluate_pairs(
    method: Any, data: Any, space: Space = "encoder", part: str = "test", decay: float | Sequence[float] = DECAYS
) -> dict[str, float]:
    """Retrieval, linear probes of each side and, if noise was added, the AUC of the wrong training pairs.

    Args:
        method: A ``rince.methods.CrossModal``.
        data: Data set with ``pair_batches`` and, if noise was added, ``noise_record()["partner_hit"]``.
        space: Features of the probes: ``"encoder"``, or ``"projection"`` for the outputs of the heads.
        part: Split to evaluate on.
        decay: Weight decay of the probes, or several to choose from.

    Returns:
        Percentages by name.

    Example:
        >>> from rince.data.pairs import Pairs, Part
        >>> from rince.encoders import MLP, Towers
        >>> from rince.methods import CrossModal
        >>> parts = {"train": slice(40), "test": slice(40, 60)}
        >>> class Copies(Pairs):
        ...     def read(self):
        ...         x = torch.randn(60, 8)
        ...         unknown = torch.full((60,), -1)
        ...         return {part: Part(x[rows], x[rows], unknown[rows]) for part, rows in parts.items()}
        >>> data = Copies(batch_size=20)
        >>> data.setup()
        >>> views = rince.views.PairViews(rince.views.Unchanged(), rince.views.Unchanged())
        >>> method = CrossModal(Towers(MLP([8, 16]), MLP([8, 16])), rince.RINCE(), views, torch.optim.Adam, width=0)
        >>> sorted(rince.evaluate.evaluate_pairs(method, data))
        ['a to b recall@1', 'a to b recall@10', 'b to a recall@1', 'b to a recall@10']
    """
    held_out = pair_features(method, data.pair_batches(part))
    result = retrieval(*held_out.embeddings, held_out.labels)
    result |= _probes(pair_features(method, data.pair_batches("train")), held_out, space, decay)
    hit = data.noise_record().get("partner_hit")
    if hit is not None:
        trained_on = pair_features(method, data.pair_batches("train", noisy=True))
        auc = wrong_pairs_auc(*trained_on.embeddings, torch.as_tensor(hit)[trained_on.ids])
        result |= {} if auc is None else {"wrong pairs AUC": auc}
    return result


def _probes(
    train: PairFeatures, held_out: PairFeatures, space: Space, decay: float | Sequence[float]
) -> dict[str, float]:
    """Accuracy of a linear probe on each side, for items with a known class."""
    result: dict[str, float] = {}
    known, tested = train.labels >= 0, held_out.labels >= 0
    if len(train.labels[known].unique()) < 2 or not tested.any():
        return result
    for i, side in enumerate("ab"):
        x, y = (p.features[i] if space == "encoder" else p.embeddings[i] for p in (train, held_out))
        probe = fit_linear(x[known], train.labels[known], decay)
        result[f"{side} linear"] = 100 * probe.accuracy(y[tested], held_out.labels[tested])
    return result


def table(result: dict[str, dict[str, float]]) -> str:
    """Table with one line per direction."""
    columns = ("recall@1", "recall@10", "class", "linear")
    names = {"class": "same class", "linear": "linear probe"}
    present = [c for c in columns if any(key.endswith(c) for row in result.values() for key in row)]
    width = max(len(name) for name in result) + 8
    lines = [f"{'':<{width}}" + "".join(f"{names.get(c, c):>14}" for c in present)]
    for name, row in result.items():
        for way, side in (("a to b", "a"), ("b to a", "b")):
            values = [row.get(f"{side} linear" if c == "linear" else f"{way} {c}") for c in present]
            cells = "".join(f"{'-' if value is None else f'{value:.1f}':>14}" for value in values)
            lines.append(f"{f'{name} {way}':<{width}}{cells}")
        if "wrong pairs AUC" in row:
            lines.append(f"{name}: AUC of finding the wrong training pairs {row['wrong pairs AUC']:.1f}")
    return "\n".join(lines)
