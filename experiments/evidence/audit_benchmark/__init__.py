"""Audit benchmark: coverage and false alarms of the audit on many kinds of real pairings."""
