"""The former place of ``rince.audit.result`` and ``rince.audit.run``; kept for one version."""

from rince.audit.result import Audit, as_record
from rince.audit.run import audit, judge

__all__ = ["Audit", "as_record", "audit", "judge"]
