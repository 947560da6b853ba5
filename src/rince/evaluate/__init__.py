"""From scores or features of a frozen encoder to a number: probes, neighbours, retrieval, votes."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.evaluate.features import labelled_features
    from rince.evaluate.graphs import evaluate_graphs
    from rince.evaluate.knn import knn_accuracy, knn_predict
    from rince.evaluate.linear import LinearProbe, fit_adam, fit_linear
    from rince.evaluate.online import OnlineProbe
    from rince.evaluate.pairs import PairFeatures, evaluate_pairs, pair_features, wrong_pairs_auc
    from rince.evaluate.retrieval import recall_at
    from rince.evaluate.svm import SVMResult, linear_accuracy, svm_accuracy
    from rince.evaluate.voting import Votes, vote

HOMES = {  # public name: the module that defines it
    "fit_linear": "linear",
    "fit_adam": "linear",
    "LinearProbe": "linear",
    "knn_predict": "knn",
    "knn_accuracy": "knn",
    "recall_at": "retrieval",
    "evaluate_pairs": "pairs",
    "pair_features": "pairs",
    "PairFeatures": "pairs",
    "wrong_pairs_auc": "pairs",
    "evaluate_graphs": "graphs",
    "svm_accuracy": "svm",
    "SVMResult": "svm",
    "linear_accuracy": "svm",
    "labelled_features": "features",
    "OnlineProbe": "online",
    "vote": "voting",
    "Votes": "voting",
}

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
    "labelled_features",
    "linear_accuracy",
    "pair_features",
    "recall_at",
    "svm_accuracy",
    "vote",
    "wrong_pairs_auc",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
