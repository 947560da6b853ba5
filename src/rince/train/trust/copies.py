"""Weights by copies of the model (``--trust copies``): each copy scores the pairs that only the others learn from.

The pairs are split into folds. For each fold a copy of the model trains on the other pairs, as a run of its own below
``RUN/trust``, and scores the pairs of the fold and mismatched pairs made from them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from jsonargparse import Namespace
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from rince._support.atomic_files import written_whole
from rince._support.step_seeds import generator
from rince.audit.null import Scored, share_right_by_chance
from rince.errors import UsageError
from rince.pairs.matrix import FEWEST
from rince.train.run import Job, WeightSource, run
from rince.train.run_folder import RunFolder
from rince.train.trust.sources import say
from rince.trust.cross_fitted import MISMATCHED, fold_scores, label_scores

if TYPE_CHECKING:
    from rince.audit.result import Audit

REPLACED_LOSSES = ("InfoNCE", "RINCE")
FIRST_Q = 0.7  # of GCE; it grows to 1
SHORT_RUN = 20  # epochs; in shorter runs, copies of half the length learn too little
MANY_PAIRS = 2000  # of which half are enough to learn from: longer copies are then worth more than larger folds
SCORES = "scores.npz"


class Estimate(NamedTuple):
    """The audit of a step, and what it cost.

    Attributes:
        step: "features", "warm-up" or "copies".
        audit: The audit that weights come from.
        steps: Training steps it took.
        seconds: Time it took in this process.
    """

    step: str
    audit: "Audit"
    steps: int
    seconds: float

    @property
    def cannot_tell(self) -> bool:
        return bool(self.audit.uninformative or self.audit.cannot_tell)


def cross_fit(job: Job, place: Path) -> Estimate:
    """Train the copies, each resumed where it was, and judge their scores together."""
    started, config, pairs = time.perf_counter(), job.config, int(job.parts.data.training_pairs)
    folds = config.trust.folds or default_folds(config.trainer.max_epochs, pairs)
    if folds * FEWEST > pairs:
        raise _too_few(folds, pairs // folds)
    folders = [RunFolder(place / f"fold-{k + 1}") for k in range(folds)]
    for k, folder in enumerate(folders):
        if not folder.result.exists():
            copy = FoldRun(k, folds, config.seed)
            run(job.parser, fold_config(config, folds), folder.path, conclude=copy.conclude, weights=copy)
    if dist.is_initialized():
        dist.barrier()
    steps = sum(int(folder.read_result()["steps"]) for folder in folders)
    return Estimate("copies", _judged(folders, config.seed), steps, time.perf_counter() - started)


def default_folds(epochs: int | None, pairs: int) -> int:
    """2, or 3 in long runs on few pairs.

    Two copies learn from half of the pairs for as many epochs as the run; three learn from two thirds in half of the
    epochs, which is better where half of the pairs are too few, and worse where models need their time.
    """
    return 2 if pairs >= MANY_PAIRS or (epochs is not None and 0 < epochs < SHORT_RUN) else 3


def fold_config(config: Any, folds: int) -> Any:
    """The configuration of one copy: all copies together take as many steps as the run."""
    fold = config.clone()
    for name in ("source", "features", "folds", "epochs", "loss"):
        fold.trust[name] = None
    fold.probe, fold.trainer.logger = False, None
    if config.trust.loss != "same":
        use_gce(fold)
    epochs, steps = config.trainer.max_epochs, config.trainer.max_steps
    if config.trust.epochs is not None:
        fold.trainer.max_epochs, fold.trainer.max_steps = config.trust.epochs, -1
        return fold
    # In an epoch a copy sees (folds - 1) / folds of the pairs, and there are as many copies as folds.
    if epochs is not None and epochs > 0:
        fold.trainer.max_epochs = max(1, epochs // (folds - 1))
    if steps is not None and steps > 0:
        fold.trainer.max_steps = max(1, steps // folds)
    return fold


def use_gce(config: Any) -> None:
    """Replace InfoNCE and RINCE by GCE at their temperature, with a q that grows to 1; any other loss stays.

    A run with weights can afford a loss that listens to all pairs; models that estimate the weights cannot. With q = 1
    from the start, encoders from scratch hardly learn: pairs with a low p do not pull. With a q near 0 for long, wrong
    pairs are memorized.
    """
    path = config.loss.class_path
    if not path.startswith("rince.") or path.rpartition(".")[2] not in REPLACED_LOSSES:
        return
    temperature = config.loss.init_args.get("temperature")
    arguments = {"q": 1.0} if temperature is None else {"q": 1.0, "temperature": temperature}
    config.loss = Namespace(class_path="rince.GCE", init_args=Namespace(**arguments))
    if "q_schedule" in config.method.get("init_args", {}):
        config.method.init_args.q_schedule, config.method.init_args.q_start = "linear", FIRST_Q


class FoldRun(WeightSource):
    """A run on all pairs but those of one fold, which it scores at its end."""

    def __init__(self, number: int, folds: int, seed: int):
        self.number, self.folds, self.seed = number, folds, seed
        self.held_out = torch.empty(0, dtype=torch.int64)

    def prepare(self, data: Any, method: Any) -> None:
        fold = fold_of(data.training_pairs, self.folds, self.seed, data.equal_pairs())
        self.held_out = (fold == self.number).nonzero()[:, 0]
        if len(self.held_out) < FEWEST:
            raise _too_few(self.folds, len(self.held_out))
        data.weights, data.among = None, (fold != self.number).nonzero()[:, 0]
        say(f"trust: copy {self.number + 1} of {self.folds}, {len(data.among):,} of {len(fold):,} pairs")

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Write scores of the held-out pairs and of mismatched pairs made from them beside the run."""
        labels = method.weights_for == "labels"
        found = gathered(trainer, method, data, self.held_out, _labeled_embeddings if labels else _pair_embeddings)
        if trainer.is_global_zero:
            scored = self._label_scores(found) if labels else self._pair_scores(method, found)
            content = {name: value for name, value in scored._asdict().items() if value is not None}
            content |= {"rows": found["ids"].numpy(), "pairs": np.array(data.training_pairs)}
            if (equal := data.equal_pairs()) is not None:
                content["equal"] = equal
            with written_whole(Path(trainer.default_root_dir) / SCORES) as beside, open(beside, "wb") as file:
                np.savez(file, **content)
        return {}

    def _pair_scores(self, method: Any, found: dict[str, Tensor]) -> Scored:
        temperature = float(method.temperature(otherwise=0.1))
        share = MISMATCHED // self.folds
        return fold_scores(found["a"], found["b"], [], temperature, (self.seed, self.number), share)

    def _label_scores(self, found: dict[str, Tensor]) -> Scored:
        labels, known, z = found["b"], found["b"] >= 0, normalize(found["a"], dim=1)
        own, null, other_class_better = label_scores(z[known], labels[known], int(labels.max()) + 1)
        scores = torch.full((len(z),), float(null.max()) + 1)  # the only item of its label, or no label
        scores[known] = torch.where(torch.isnan(own), scores[known], own)
        by_accident = share_right_by_chance(labels[known].numpy())
        share = other_class_better * float(known.float().mean())
        return Scored(scores.numpy(), null.numpy(), None, by_accident, share)


def _pair_embeddings(method: Any, batch: Any) -> tuple[Tensor, Tensor]:
    a, b = method.pair_embeddings(batch)
    return a.float(), b.float()


def _labeled_embeddings(method: Any, batch: Any) -> tuple[Tensor, Tensor]:
    return method.project(method.embed(batch)).float(), batch.labels


@torch.no_grad()
def gathered(
    trainer: Any, method: Any, data: Any, ids: Tensor, embed: Callable[[Any, Any], tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """``embed(method, batch)`` of the given pairs as "a" and "b", shared out among ranks, in the order of "ids"."""
    device, was_training = trainer.strategy.root_device, method.training
    method.to(device).eval()
    rows = []
    for batch in data.noisy_batches(ids[trainer.global_rank :: trainer.world_size]):
        batch = trainer.strategy.batch_to_device(batch, device)
        a, b = embed(method, batch)
        rows.append({"ids": batch.ids.cpu(), "a": a.cpu(), "b": b.cpu()})
    method.cpu().train(was_training)
    if trainer.world_size > 1:
        every: list[Any] = [None] * trainer.world_size
        dist.all_gather_object(every, rows)
        rows = [row for of_rank in every for row in of_rank]
    joined = {name: torch.cat([row[name] for row in rows]) for name in ("ids", "a", "b")}
    order = joined["ids"].argsort()
    return {name: values[order] for name, values in joined.items()}


def fold_of(pairs: int, folds: int, seed: int, equal: NDArray[np.int64] | None = None) -> Tensor:
    """A random fold for every pair; equal pairs share one (see ``DataModule.equal_pairs``)."""
    unit = np.arange(pairs) if equal is None else np.unique(equal, return_inverse=True)[1].reshape(-1)
    fold = torch.randperm(int(unit.max(initial=-1)) + 1, generator=generator(seed, 31)) % folds
    return fold[torch.from_numpy(unit)]


def _judged(folders: list[RunFolder], seed: int) -> "Audit":
    """The audit of the scores of all folds."""
    from rince.audit.api import judge
    from rince.audit.result import kept_rows, with_gaps

    parts = []
    for folder in folders:
        with np.load(folder.path / SCORES, allow_pickle=False) as file:
            parts.append({name: file[name] for name in file.files})
    n = int(parts[0]["pairs"])
    scores = np.full(n, np.nan, dtype=np.float32)
    for part in parts:
        scores[part["rows"]] = part["scores"]
    missing = np.flatnonzero(np.isnan(scores))
    kept = kept_rows(n, missing)
    equal = parts[0].get("equal")
    clusters = None if equal is None else np.unique(equal[kept], return_inverse=True)[1].reshape(-1)
    sizes = [len(part["rows"]) for part in parts]
    names = ("right_by_chance", "other_class_better")
    shares = [float(np.average([part[name] for part in parts], weights=sizes)) for name in names]
    scored = Scored(scores[kept], np.concatenate([part["null"] for part in parts]), clusters, *shares)
    audit = judge(scored, seed=seed, fitted=True, scorer="copies of the model that never saw the pair")
    return with_gaps(audit, n, missing) if len(missing) else audit


def _too_few(folds: int, got: int) -> UsageError:
    return UsageError(f"--trust copies needs at least {FEWEST} pairs per fold, got {got} in {folds} folds: use fewer")
