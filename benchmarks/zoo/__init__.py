"""The zoo: real pairings of many kinds, on which the audit has to keep what it promises (see ``benchmarks/zoo.py``)."""
