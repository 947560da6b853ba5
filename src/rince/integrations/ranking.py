"""In-batch ranking as text embedding libraries do it: a query, its document, and hard negatives for everybody.

The candidates of a query are the documents of all queries and all hard negatives; further directions add queries as
candidates, or documents as anchors. Every choice ends in the two numbers of an anchor, so any objective applies.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.integrations.small_batches import diagonal_scores, quick_unit, small
from rince.losses.contrast import Objective, Scores
from rince.losses.contrast.contrast import precision
from rince.losses.contrast.gather import gather
from rince.losses.contrast.kernel import negative_scores, negative_scores_both

Direction = Literal["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"]
DIRECTIONS = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
Partition = Literal["joint", "per_direction"]
Hardness = Literal["in_batch_negatives", "hard_negatives", "all_negatives"] | None
HARDNESS = (None, "in_batch_negatives", "hard_negatives", "all_negatives")


class Ranking(NamedTuple):
    """Who is compared with whom, and how."""

    temperature: float
    cosine: bool = True
    directions: tuple[Direction, ...] = ("query_to_doc",)
    partition: Partition = "joint"
    hardness: Hardness = None
    strength: float = 0.0
    across_devices: bool = False

    def losses(self, objective: Objective, columns: Sequence[Tensor]) -> Tensor:
        """The loss of every pair of this process, from the embeddings of (anchor, positive, negative_1, ...)."""
        batch = _Batch(self, columns)
        parts = batch.parts()
        if len(parts) == 1:
            return objective(Scores(batch.positive, *parts[0]))
        if self.partition == "per_direction":
            return torch.stack([objective(Scores(batch.positive, *part)) for part in parts]).mean(0)
        negatives = torch.stack([part[0] for part in parts]).logsumexp(0)
        return objective(Scores(batch.positive, negatives, torch.stack([part[1] for part in parts]).sum(0)))


def check_ranking(ranking: Ranking) -> Ranking:
    """The settings, or one sentence about what is wrong with them."""
    wrong = [d for d in ranking.directions if d not in DIRECTIONS]
    if wrong:
        raise UsageError(f"directions must be out of {', '.join(DIRECTIONS)}, got {wrong[0]!r}")
    if "query_to_doc" not in ranking.directions:
        raise UsageError("directions must contain 'query_to_doc', which holds the positive pair")
    if ranking.partition not in ("joint", "per_direction"):
        raise UsageError(f"partition_mode must be 'joint' or 'per_direction', got {ranking.partition!r}")
    if ranking.partition == "per_direction" and set(ranking.directions) & {"query_to_query", "doc_to_doc"}:
        raise UsageError(
            "partition_mode 'per_direction' needs the positive pair in every direction, which 'query_to_query' and "
            "'doc_to_doc' do not hold: use partition_mode='joint'"
        )
    if ranking.hardness not in HARDNESS:
        raise UsageError(f"hardness_mode must be one of {HARDNESS}, got {ranking.hardness!r}")
    if not ranking.strength >= 0:
        raise UsageError(f"hardness_strength must not be negative, got {ranking.strength!r}")
    return ranking


class _Batch:
    """The embeddings of a batch, scaled so that products are scores, here and on all processes."""

    def __init__(self, ranking: Ranking, columns: Sequence[Tensor]):
        self.ranking = ranking
        dtype = precision(*columns)
        columns = [quick_unit(z, dtype) if ranking.cosine else z.to(dtype) for z in columns]
        if set(ranking.directions) <= {"query_to_doc", "doc_to_query"} and not self._penalised(None):
            columns[0] = columns[0] / ranking.temperature  # one side of every product
        else:
            columns = [z * ranking.temperature**-0.5 for z in columns]
        self.query, self.doc, self.hard = columns[0], columns[1], list(columns[2:])
        everything, *_, start = (list(columns), 0) if not ranking.across_devices else gather(list(columns))
        self.queries, self.docs = everything[0], everything[1:]
        self.count, self.start = self.queries.shape[0], start
        self.quick = self._quick()
        self.positive = (self.query * self.doc).sum(1) if self.quick is None else self.quick[0]

    @cached_property
    def everyone(self) -> Tensor:
        return torch.arange(self.count, device=self.query.device)

    @cached_property
    def candidates(self) -> Tensor:
        return self.docs[0] if len(self.docs) == 1 else torch.cat(self.docs)

    @property
    def keys(self) -> Tensor:
        return self.everyone[self.start : self.start + self.query.shape[0]]

    def _quick(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """The scores of a small batch by the direct way, where every candidate but one's own is a plain negative."""
        if self._penalised(None):
            return None
        if not small(self.query, self.candidates):
            return None
        return diagonal_scores(self.query, self.candidates, self.start, self._both())

    def _both(self) -> bool:
        wanted = set(self.ranking.directions) == {"query_to_doc", "doc_to_query"}
        return wanted and self._one_matrix_serves_both()

    def parts(self) -> list[tuple[Tensor, Tensor]]:
        """For every direction the log-sum-exp over its negatives, and how many they are."""
        directions = [d for d in DIRECTIONS if d in self.ranking.directions]
        if self._both():
            if self.quick is not None:
                there, back = self.quick[1:]
            else:
                there, back = (side.lse for side in negative_scores_both(self.query, self.doc, self.keys, self.keys))
            number = self._number(self.count - 1)
            return [(there, number), self._way_back(back, number)]
        return [getattr(self, f"_{direction}")() for direction in directions]

    def _one_matrix_serves_both(self) -> bool:
        return not self.hard and self.count == self.query.shape[0] and not self._penalised("in_batch_negatives")

    def _query_to_doc(self) -> tuple[Tensor, Tensor]:
        number = self._number(len(self.docs) * self.count - 1)
        if self.quick is not None:
            return self.quick[1], number
        if not self._penalised(None):  # hard negatives are candidates like any other, and nobody's positive
            nobody = self.everyone.new_full((self.count * (len(self.docs) - 1),), -1)
            others = negative_scores(self.query, self.candidates, self.keys, torch.cat([self.everyone, nobody]))
            return others.lse, number
        rows, columns = self.query, self.candidates
        if self._penalised("in_batch_negatives"):
            rows, columns = self._with_penalty(rows), self._with_penalty(columns)
        owners = self.everyone.repeat(len(self.docs))
        parts = [negative_scores(rows, columns, self.keys, owners).lse]
        for hard in self.hard:
            score = (self.query * hard).sum(1)
            extra = self._penalty(score) if self._penalised("hard_negatives") else 0
            parts.append(score + extra)
        return torch.stack(parts).logsumexp(0), number

    def _query_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.query, self.queries, self.keys, self.everyone).lse
        return others, self._number(self.count - 1)

    def _doc_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.doc, self.queries, self.keys, self.everyone).lse
        return self._way_back(others, self._number(self.count - 1))

    def _doc_to_doc(self) -> tuple[Tensor, Tensor]:
        owners = self.everyone.repeat(len(self.docs))
        others = negative_scores(self.doc, self.candidates, self.keys, owners).lse
        return others, self._number(len(self.docs) * (self.count - 1))

    def _way_back(self, others: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """In a joint partition the pair stands once more among the candidates of its document, as published."""
        if self.ranking.partition == "joint":
            return torch.logaddexp(others, self.positive), number + 1
        return others, number

    def _number(self, count: int) -> Tensor:
        return self.positive.new_full(self.positive.shape, count)

    def _penalised(self, kind: str | None) -> bool:
        mode = self.ranking.hardness
        return mode is not None and self.ranking.strength > 0 and (kind is None or mode in (kind, "all_negatives"))

    def _penalty(self, score: Tensor) -> Tensor:
        return score.detach() * (self.ranking.strength * self.ranking.temperature)

    def _with_penalty(self, rows: Tensor) -> Tensor:
        """Wider rows whose products are scores plus their penalty, which has no gradient."""
        return torch.cat([rows, rows.detach() * (self.ranking.strength * self.ranking.temperature) ** 0.5], 1)
