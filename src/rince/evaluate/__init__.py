"""Evaluation of frozen features: linear probes, nearest neighbors, retrieval, votes."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.evaluate.features import Votes, labeled_features, vote
    from rince.evaluate.online import OnlineProbe
    from rince.evaluate.pairs import PairFeatures, evaluate_pairs, pair_features, recall_at, wrong_pairs_auc
    from rince.evaluate.probes import LinearProbe, fit_adam, fit_linear, knn_accuracy, knn_predict
    from rince.evaluate.svm import SVMResult, evaluate_graphs, linear_accuracy, svm_accuracy

__all__ = [
    "LinearProbe",
    "OnlineProbe",
    "PairFeatures",
    "SVMResult",
    "Votes",
    "evaluate_graphs",
    "evaluate_pairs",
    "fit_adam",
    "fit_linear",
    "knn_accuracy",
    "knn_predict",
    "labeled_features",
    "linear_accuracy",
    "pair_features",
    "recall_at",
    "svm_accuracy",
    "vote",
    "wrong_pairs_auc",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
