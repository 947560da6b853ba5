"""Every statement of the theory, with the number of random cases that contradict it.

Example:
    >>> from rince.theory.statements import STATEMENTS
    >>> [statement.violations(cases=100) for statement in STATEMENTS if statement.topic == "Lemma 1"][0]
    0
"""

from rince.theory.statements import dependency, flipped_labels, information, limit, symmetry
from rince.theory.statements.statement import Statement

STATEMENTS: list[Statement] = [
    *limit.STATEMENTS,
    *symmetry.STATEMENTS,
    *flipped_labels.STATEMENTS,
    *information.STATEMENTS,
    *dependency.STATEMENTS,
]

__all__ = ["STATEMENTS", "Statement"]
