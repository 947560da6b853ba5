"""What an audit of partitions found: what every audit finds, and nothing that is as long as the data."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.places import Counts
from rince.audit.findings import Findings, findings_record
from rince.audit.output.groups import GroupRate
from rince.audit.partitions.flags import list_end


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedAudit(Findings):
    """What an audit of partitions found. The verdict on every single pair is in the table that was written.

    Attributes:
        pairs: How many pairs were judged.
        dropped: How many were left out.
        partitions: How many partitions there were.
        fdr: The share of false alarms to expect among the flagged pairs of the table.
        flagged: How many pairs are flagged there.
        groups: The noise rate by group; None where there are no groups.
        table: The folder of the table, with one Parquet file per partition; None if none was written.
        counts: How many pairs have each place among the mismatched ones.
        place_chance: The lower end of the 80 % interval of the probability to be wrong at each of these places.

    All others, such as ``verdict``, ``noise_rate`` and ``interval``, are those of :class:`rince.audit.Findings`.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> np.save("a.npy", a)
        >>> np.save("b.npy", a + 0.3 * random.normal(size=a.shape))
        >>> found = rince.audit.audit_partitions(rince.audit.array_partitions("a.npy", "b.npy"), out="audit")
        >>> found.table, found.pairs, found.flagged
        ('audit/audit.parquet', 500, 0)
    """

    pairs: int
    partitions: int
    fdr: float
    flagged: int
    dropped: int = 0
    groups: list[GroupRate] | None = None
    table: str | None = None
    counts: Counts = field(repr=False)
    place_chance: NDArray[np.float32] = field(repr=False)

    @property
    def judged_pairs(self) -> int:
        """How many pairs were judged."""
        return self.pairs

    def flagged_pairs(self, fdr: float) -> int:
        """How many pairs would be flagged at this share of false alarms."""
        end = list_end(self.counts, self.place_chance, fdr) if self.noise_found else None
        return 0 if end is None else end.total


def partitioned_record(result: PartitionedAudit) -> dict[str, Any]:
    """What ``audit.json`` holds of an audit of partitions."""
    return {**findings_record(result, result.fdr), "dropped": result.dropped, "partitions": result.partitions}
