"""What the paper says about RINCE and InfoNCE, as functions of small discrete distributions that can be checked.

:mod:`experiments.paper.theory.statements` lists every statement and counts the random cases that contradict it.
"""

from experiments.paper.theory.dependency import (
    dependency_constant,
    effective_lam,
    least_lam,
    lipschitz,
    noisy_weights,
    pair_distances,
    printed_least_lam,
    printed_noisy_weights,
    symmetric_rince,
    wasserstein,
    wasserstein_dependency,
)
from experiments.paper.theory.distributions import (
    best_scores,
    expected_loss,
    independent,
    information_bound,
    mutual_information,
    noisy,
    sampled_loss,
)
from experiments.paper.theory.flipped_labels import (
    exponential_loss,
    logistic_loss,
    risk,
    risk_bound,
    sigmoid_loss,
    useless_from,
)
from experiments.paper.theory.gradients import (
    candidate_sum,
    entanglement,
    info_nce_derivatives,
    limit_error,
    limit_gradient_error,
    printed_derivatives,
    printed_proof_derivatives,
    pull_over_push,
)

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
