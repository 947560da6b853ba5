"""Which pairs are wrong, how many, how sure, and what q follows from it."""

from rince.audit.cluster.arrays import array_partitions
from rince.audit.cluster.tables import table_partitions
from rince.audit.encode.from_table import audit_table
from rince.audit.estimate.rate import noise_rate, p_values, storey
from rince.audit.findings import Findings
from rince.audit.mismatched import Scored
from rince.audit.output.groups import GroupRate, group_rates
from rince.audit.partitions.partition import Partition
from rince.audit.partitions.result import PartitionedAudit
from rince.audit.partitions.run import audit_partitions
from rince.audit.recommend import Recommendation, recommend
from rince.audit.result import Audit
from rince.audit.run import audit, judge

__all__ = [
    "Audit",
    "Findings",
    "GroupRate",
    "Partition",
    "PartitionedAudit",
    "Recommendation",
    "Scored",
    "array_partitions",
    "audit",
    "audit_partitions",
    "audit_table",
    "group_rates",
    "judge",
    "noise_rate",
    "p_values",
    "recommend",
    "storey",
    "table_partitions",
]
