"""The audit, partition by partition: what every partition adds, and how the parts become one verdict."""
