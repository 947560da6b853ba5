"""Which pairs are wrong, how many, how sure, and what q follows from it."""

from rince.audit.encode.from_table import audit_table
from rince.audit.estimate.rate import noise_rate, p_values, storey
from rince.audit.mismatched import Scored
from rince.audit.output.groups import GroupRate, group_rates
from rince.audit.recommend import Recommendation, recommend
from rince.audit.result import Audit
from rince.audit.run import audit, judge

__all__ = [
    "Audit",
    "GroupRate",
    "Recommendation",
    "Scored",
    "audit",
    "audit_table",
    "group_rates",
    "judge",
    "noise_rate",
    "p_values",
    "recommend",
    "storey",
]
