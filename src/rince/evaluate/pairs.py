"""What two trained towers are worth: do the right things find each other, and do wrong pairs stand out?"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from rince._support.optional_imports import require
from rince._support.progress import track
from rince.errors import UsageError
from rince.evaluate.features import Space
from rince.evaluate.linear import DECAYS, fit_linear
from rince.evaluate.retrieval import recall_at
from rince.views.batch import PairBatch


class PairFeatures(NamedTuple):
    """Both sides of N pairs: features of the encoders, embeddings behind the heads, and what is known of the pairs."""

    features: tuple[Tensor, Tensor]
    embeddings: tuple[Tensor, Tensor]
    labels: Tensor
    ids: Tensor


@torch.no_grad()
def pair_features(method: Any, batches: Iterable[PairBatch]) -> PairFeatures:
    """Everything that evaluation needs of a method such as CrossModal, in evaluation mode, batch by batch."""
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

    ``class``, where labels are known, is how often the nearest item of the other side is of the same class.
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
    """How well the cosine of a pair tells right pairs from wrong ones, in percent; nothing if there is but one kind."""
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

    ``data.pair_batches(part)`` gives right pairs; ``pair_batches("train", noisy=True)`` gives what was trained on,
    of which ``data.noise_record()["partner_hit"]`` tells by number (``ids``) which are wrong. ``decay`` is that of the
    linear probes, the best of several by default.
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
    known, asked = train.labels >= 0, held_out.labels >= 0
    if len(train.labels[known].unique()) < 2 or not asked.any():
        return result
    for i, side in enumerate("ab"):
        x, y = (p.features[i] if space == "encoder" else p.embeddings[i] for p in (train, held_out))
        probe = fit_linear(x[known], train.labels[known], decay)
        result[f"{side} linear"] = 100 * probe.accuracy(y[asked], held_out.labels[asked])
    return result


def table(result: dict[str, dict[str, float]]) -> str:
    """A line for each way and kind of features."""
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
