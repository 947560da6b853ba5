"""Retrieval: is something of the right kind among the nearest?"""

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
    """The share of queries with an item of equal key (class, or partner) among the ``k`` nearest by cosine.

    Args:
        query: (n, width) embeddings.
        query_keys: (n,) the class or the id of the partner of each query.
        gallery: (m, width) embeddings that are searched.
        gallery_keys: (m,) the class or the id of each item of the gallery.
        ks: The ranks to report.

    Returns:
        Rank -> share from 0 to 1.

    Raises:
        UsageError: If a rank is below 1, or there are no queries or no gallery.

    Example:
        >>> partner = torch.arange(3)
        >>> rince.evaluate.recall_at(torch.eye(3), partner, torch.eye(3), partner, ks=(1,))
        {1: 1.0}
    """
    if not ks or min(ks) < 1:
        raise UsageError(f"ranks must be at least 1, got {ks}")
    if not len(query) or not len(gallery):
        raise UsageError(f"retrieval needs queries and a gallery, got {len(query)} and {len(gallery)} items")
    query, gallery = normalize(query.float(), dim=1), normalize(gallery.float(), dim=1)
    depth = min(max(ks), len(gallery))
    found = []
    for part, keys in zip(query.split(1024), query_keys.split(1024), strict=True):
        nearest = (part @ gallery.T).topk(depth, dim=1).indices
        found.append(gallery_keys[nearest] == keys[:, None])
    hits = torch.cat(found)
    return {k: float(hits[:, :k].any(1).double().mean()) for k in ks}


class PairFeatures(NamedTuple):
    """Both sides of N pairs: features, embeddings, labels and ids.

    Attributes:
        features: Features of the two encoders.
        embeddings: The outputs of the projection heads, in one space.
        labels: Classes, -1 where unknown.
        ids: Numbers of the pairs.

    Example:
        >>> a, b = torch.randn(2, 4, 8)
        >>> found = rince.evaluate.PairFeatures((a, b), (a, b), torch.full((4,), -1), torch.arange(4))
    """

    features: tuple[Tensor, Tensor]
    embeddings: tuple[Tensor, Tensor]
    labels: Tensor
    ids: Tensor


@torch.no_grad()
def pair_features(method: Any, batches: Iterable[PairBatch]) -> PairFeatures:
    """Everything that evaluation needs of a method such as CrossModal, in evaluation mode, batch by batch.

    Args:
        method: A ``rince.methods.CrossModal``.
        batches: Pairs, as ``data.pair_batches("test")`` gives them.

    Returns:
        Features and embeddings of both sides, labels and ids.

    Raises:
        UsageError: If there are no pairs.

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
    found: list[tuple[Tensor, ...]] = []
    for batch in track(batches, "features"):
        features = method.embed(batch._replace(a=batch.a.to(method.device), b=batch.b.to(method.device)))
        embeddings = method.project(features)
        numbers = [x.float().cpu() for x in (*features, *embeddings)]
        found.append((*numbers, batch.labels.cpu(), batch.ids.cpu()))
    method.train(was_training)
    if not found:
        raise UsageError("there are no pairs to evaluate")
    fa, fb, za, zb, labels, ids = (torch.cat(column) for column in zip(*found, strict=True))
    return PairFeatures((fa, fb), (za, zb), labels, ids)


def retrieval(a: Tensor, b: Tensor, labels: Tensor | None = None, ks: tuple[int, ...] = (1, 10)) -> dict[str, float]:
    """From embeddings (n, width) of both sides, how often in percent the partner is among the k nearest, both ways.

    Args:
        a: (n, width) embeddings of the first side.
        b: (n, width) embeddings of their partners.
        labels: (n,) classes, where they are known: ``class`` is then how often the nearest item of the other side is of
            the same class.
        ks: The ranks to report.

    Returns:
        Percentages by name, such as ``"a to b recall@1"``.

    Raises:
        UsageError: If the two sides do not have the same shape.

    Example:
        >>> from rince.evaluate.pairs import retrieval
        >>> retrieval(torch.eye(3), torch.eye(3), ks=(1,))
        {'a to b recall@1': 100.0, 'b to a recall@1': 100.0}
    """
    if a.shape != b.shape:
        raise UsageError(f"both sides must be embeddings of the same pairs, got {tuple(a.shape)} and {tuple(b.shape)}")
    partner = torch.arange(len(a))
    result = {}
    for way, query, gallery in (("a to b", a, b), ("b to a", b, a)):
        for k, share in recall_at(query, partner, gallery, partner, ks).items():
            result[f"{way} recall@{k}"] = 100 * share
        if labels is not None and bool((labels >= 0).all()):
            result[f"{way} class"] = 100 * recall_at(query, labels, gallery, labels, (1,))[1]
    return result


def wrong_pairs_auc(a: Tensor, b: Tensor, wrong: Any) -> float | None:
    """How well the cosine separates right pairs from wrong ones: the AUC in percent.

    Args:
        a: (n, width) embeddings of the first side.
        b: (n, width) embeddings of their partners.
        wrong: (n,) booleans: whether the pair is wrong.

    Returns:
        From 0 to 100, 50 by chance; None if all pairs are right or all are wrong.

    Raises:
        UsageError: If ``wrong`` does not have one value per pair.

    Example:
        >>> a = torch.eye(4)
        >>> rince.evaluate.wrong_pairs_auc(a, a[[0, 1, 3, 2]], [False, False, True, True])
        100.0
    """
    wrong = torch.as_tensor(wrong)
    if wrong.shape != a.shape[:1]:
        raise UsageError(f"wrong must say of every pair whether it is: expected ({len(a)},), got {tuple(wrong.shape)}")
    if not wrong.any() or wrong.all():
        return None
    score = cosine_similarity(a.double(), b.double()).numpy()
    return 100 * float(require("sklearn.metrics", "train").roc_auc_score(~wrong.numpy(), score))


def evaluate_pairs(
    method: Any, data: Any, space: Space = "encoder", part: str = "test", decay: float | Sequence[float] = DECAYS
) -> dict[str, float]:
    """All numbers of a run, in percent: retrieval on a part, linear probes of each side, and the AUC of wrong pairs.

    Args:
        method: A ``rince.methods.CrossModal``.
        data: Pairs: ``data.pair_batches(part)`` gives right ones, ``pair_batches("train", noisy=True)`` what was
            trained on. ``data.noise_record()["partner_hit"]`` tells by number (``ids``) which of those are wrong.
        space: Probes are fitted to the encoders' features (``"encoder"``) or the heads' outputs (``"projection"``).
        part: The part to evaluate on.
        decay: Weight decay of the linear probes; the best of several by default.

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
        found = wrong_pairs_auc(*trained_on.embeddings, torch.as_tensor(hit)[trained_on.ids])
        result |= {} if found is None else {"wrong pairs AUC": found}
    return result


def _probes(
    train: PairFeatures, held_out: PairFeatures, space: Space, decay: float | Sequence[float]
) -> dict[str, float]:
    """Accuracy of a linear classifier on each side, with right labels; of items whose class is known."""
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
    """One line for each direction and kind of features."""
    columns = ("recall@1", "recall@10", "class", "linear")
    names = {"class": "same class", "linear": "linear probe"}
    shown = [c for c in columns if any(key.endswith(c) for row in result.values() for key in row)]
    width = max(len(name) for name in result) + 8
    lines = [f"{'':<{width}}" + "".join(f"{names.get(c, c):>14}" for c in shown)]
    for name, row in result.items():
        for way, side in (("a to b", "a"), ("b to a", "b")):
            values = [row.get(f"{side} linear" if c == "linear" else f"{way} {c}") for c in shown]
            cells = "".join(f"{'-' if value is None else f'{value:.1f}':>14}" for value in values)
            lines.append(f"{f'{name} {way}':<{width}}{cells}")
        if "wrong pairs AUC" in row:
            lines.append(f"{name}: AUC of finding the wrong training pairs {row['wrong pairs AUC']:.1f}")
    return "\n".join(lines)
