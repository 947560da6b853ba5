"""What the paper says about RINCE and InfoNCE, as functions of small discrete distributions that can be checked.

:mod:`rince.theory.statements` lists every statement and counts the random cases that contradict it.
"""

from rince.theory.dependency import (
    dependency_constant,
    effective_lam,
    least_lam,
    noisy_weights,
    printed_least_lam,
    printed_noisy_weights,
    symmetric_rince,
)
from rince.theory.derivatives import info_nce_derivatives, printed_derivatives, printed_proof_derivatives
from rince.theory.distributions import independent, noisy
from rince.theory.expectation import expected_loss, sampled_loss
from rince.theory.flipped_labels import exponential_loss, logistic_loss, risk, risk_bound, sigmoid_loss, useless_from
from rince.theory.information import best_scores, information_bound, mutual_information
from rince.theory.limit import limit_error, limit_gradient_error
from rince.theory.symmetry import candidate_sum, entanglement, pull_over_push
from rince.theory.transport import lipschitz, pair_distances, wasserstein, wasserstein_dependency

__all__ = [
    "best_scores",
    "candidate_sum",
    "dependency_constant",
    "effective_lam",
    "entanglement",
    "expected_loss",
    "exponential_loss",
    "independent",
    "info_nce_derivatives",
    "information_bound",
    "least_lam",
    "limit_error",
    "limit_gradient_error",
    "lipschitz",
    "logistic_loss",
    "mutual_information",
    "noisy",
    "noisy_weights",
    "pair_distances",
    "printed_derivatives",
    "printed_least_lam",
    "printed_noisy_weights",
    "printed_proof_derivatives",
    "pull_over_push",
    "risk",
    "risk_bound",
    "sampled_loss",
    "sigmoid_loss",
    "symmetric_rince",
    "useless_from",
    "wasserstein",
    "wasserstein_dependency",
]
