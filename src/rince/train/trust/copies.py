"""The models that judge the pairs: how many, and their configuration, that of the run with a robust loss."""

from typing import Any

from jsonargparse import Namespace

REPLACED = ("InfoNCE", "RINCE")
FIRST_Q = 0.7  # of GCE; it grows to 1
SHORT = 20  # epochs; in shorter runs, copies of half the length learn too little
MANY = 2000  # pairs, half of which are enough to learn from: longer copies are then worth more than larger folds


def usual_folds(epochs: int | None, pairs: int) -> int:
    """Two, whose models learn from half of the pairs in as many epochs as the run; three in long runs on few pairs.

    Three models learn from two thirds of the pairs in half of the epochs: better where there are too few pairs to do
    with half of them, worse where models need their time.
    """
    return 2 if pairs >= MANY or (epochs is not None and 0 < epochs < SHORT) else 3


def fold_config(config: Any, folds: int) -> Any:
    """The configuration of the model of a fold: all of them together may take as many steps as the run."""
    fold = config.clone()
    fold.trust.source = fold.trust.folds = fold.trust.epochs = fold.trust.loss = None
    fold.probe, fold.trainer.logger = False, None
    if config.trust.loss != "same":
        _use_gce(fold)
    epochs, steps = config.trainer.max_epochs, config.trainer.max_steps
    if config.trust.epochs is not None:
        fold.trainer.max_epochs, fold.trainer.max_steps = config.trust.epochs, -1
        return fold
    # A model of a fold sees (folds - 1) / folds of the pairs in an epoch, and there are as many models as folds.
    if epochs is not None and epochs > 0:
        fold.trainer.max_epochs = max(1, epochs // (folds - 1))
    if steps is not None and steps > 0:
        fold.trainer.max_steps = max(1, steps // folds)
    return fold


def _use_gce(fold: Any) -> None:
    """GCE with a q that grows to 1 in place of InfoNCE and RINCE, at their temperature; any other loss stays.

    The run weighs its pairs and can afford a loss that listens to all of them. The models that find the weights cannot.
    With q = 1 from the start, encoders from scratch learn next to nothing: what is not believed yet does not pull. With
    a q near 0 for long, wrong pairs are memorised.
    """
    path = fold.loss.class_path
    if not path.startswith("rince.") or path.rpartition(".")[2] not in REPLACED:
        return
    temperature = fold.loss.init_args.get("temperature")
    arguments = {"q": 1.0} if temperature is None else {"q": 1.0, "temperature": temperature}
    fold.loss = Namespace(class_path="rince.GCE", init_args=Namespace(**arguments))
    if "q_schedule" in fold.method.get("init_args", {}):
        fold.method.init_args.q_schedule, fold.method.init_args.q_start = "linear", FIRST_Q
