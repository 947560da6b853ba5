"""Audit benchmark: real pairings of many kinds, on which the audit has to keep its promises."""
