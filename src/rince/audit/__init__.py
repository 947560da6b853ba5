"""Audits of pairs: the share of unrelated pairs with its interval, flags, and other issues."""

import warnings
from typing import Any

from rince.audit.api import audit as audit  # deprecated, as are audit_partitions and the two aliases below
from rince.audit.api import audit_pairs, judge
from rince.audit.checks import Issue
from rince.audit.encode.columns import audit_table
from rince.audit.estimate import Verdict
from rince.audit.groups import GroupRate, group_rates
from rince.audit.null import Scored
from rince.audit.rate import noise_rate, p_values, storey
from rince.audit.recommend import Recommendation, recommend
from rince.audit.result import Audit, Findings, ShardedAudit
from rince.audit.shards.run import audit_partitions as audit_partitions
from rince.audit.shards.run import audit_shards
from rince.pairs.shards import Partition as Partition
from rince.pairs.shards import Shard, file_shards

PartitionedAudit = ShardedAudit  # name of versions before 0.3

__all__ = [
    "Audit",
    "Findings",
    "GroupRate",
    "Issue",
    "Recommendation",
    "Scored",
    "Shard",
    "ShardedAudit",
    "Verdict",
    "audit_pairs",
    "audit_shards",
    "audit_table",
    "file_shards",
    "group_rates",
    "judge",
    "noise_rate",
    "p_values",
    "recommend",
    "storey",
]


def __getattr__(name: str) -> Any:
    if name in ("array_partitions", "table_partitions"):
        warnings.warn(f"rince.audit.{name} is now called file_shards", DeprecationWarning, stacklevel=2)
        return file_shards
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
