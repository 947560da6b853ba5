"""What the paper says about RINCE and InfoNCE, as functions of small discrete distributions that can be checked.

:mod:`experiments.paper.theory.statements` lists every statement and counts the random cases that contradict it.
"""
