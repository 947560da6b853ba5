"""Weights of the training pairs of a run (``--trust``): from a table, or estimated before the run.

Estimates use the cheapest step that distinguishes right from wrong pairs:

1. *Features*: cross-fitted CCA of the inputs of both sides, or of given features. Seconds, no training steps.
2. *Warm-up*: the model trains with GCE for at most 15 % of the run; then cross-fitted CCA of its hidden features. The
   run itself then starts from scratch, with the weights.
3. *Copies*, on request (``--trust copies``): the pairs are split into folds. For each fold a copy of the model trains
   on the other pairs and scores the pairs of the fold and mismatched pairs made from them.

If no step is conclusive, the weights follow the best guess of the step whose scores separate pairs best. Everything is
kept below ``RUN/trust``; the warm-up and the copies are separate runs there, so an interrupted command resumes wherever
it was.
"""

import csv
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from jsonargparse import Namespace
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from rince._support.atomic_files import write_text, written_whole
from rince._support.csv_cells import CsvWriter
from rince._support.progress import note
from rince._support.step_seeds import generator
from rince.audit.null import Scored, share_right_by_chance
from rince.encoders import Towers
from rince.errors import UsageError
from rince.pairs.matrix import MIN_PAIRS
from rince.train.run import Job, RunHooks, prepared, run, train
from rince.train.run_folder import RunFolder
from rince.trust.cross_fitted import MISMATCHED, fold_scores, label_scores
from rince.trust.table import read_weights
from rince.trust.weights import describe_weights, judge_features
from rince.views import ImageBatch, PairBatch, SoundRecipe

if TYPE_CHECKING:
    from rince.audit.result import Audit

AUTO, COPIES = "auto", "copies"
TABLE, FEATURES, SCORES = "trust.csv", "features.npz", "scores.npz"
LARGE_FILES = ("last.ckpt", "previous.ckpt", "encoder.safetensors", FEATURES, SCORES)

WARM_UP = 0.15  # of the epochs and steps of the run
MAX_NUMBERS = 4096  # of a picture, clip or sound that become features; larger ones are averaged down
REPLACED_LOSSES = ("InfoNCE", "RINCE")
FIRST_Q = 0.7  # of GCE; it grows to 1
SHORT_RUN = 20  # epochs; in shorter runs, copies of half the length learn too little
MANY_PAIRS = 2000  # of which half are enough to learn from: longer copies are then worth more than larger folds


def train_with_weights(parser: Any, config: Any) -> dict[str, Any] | None:
    """Train a configuration with pair weights, which are estimated first if requested."""
    with prepared(parser, config) as job:
        return train(job, weights_of_run(job))


def weights_of_run(job: Job) -> RunHooks:
    """Weights as the configuration says. "auto" and "copies" estimate them here, before the run."""
    settings = job.config.get("trust")
    source = None if settings is None else settings.source
    if settings is not None:
        _check_settings(settings)
    if source is None:
        return RunHooks()
    if source not in (AUTO, COPIES):
        return PairWeights(job.folder, source)
    place = job.folder.path / "trust"
    record = place / "trust.json"
    if record.exists():
        details = json.loads(record.read_text(encoding="utf-8"))
        return PairWeights(job.folder, source, saved_weights(job.folder.path / TABLE), details)
    if place.exists():
        job.folder.check_same(job.settings)
    elif rank_zero_only.rank == 0:
        write_text(job.folder.config, job.text)
    details, weights = _estimate(job, place, record)
    return PairWeights(job.folder, source, weights, details)


def _check_settings(settings: Any) -> None:
    for name, source in (("features", AUTO), ("folds", COPIES), ("epochs", COPIES), ("loss", COPIES)):
        if settings[name] is not None and settings.source != source:
            raise UsageError(f"trust.{name} is for --trust {source}: add that, or leave trust.{name} out")
    if settings.folds is not None and settings.folds < 2:
        raise UsageError(f"trust.folds must be at least 2, got {settings.folds}")
    if settings.epochs is not None and settings.epochs < 1:
        raise UsageError(f"trust.epochs must be at least 1, got {settings.epochs}")


# --- weights in a run folder ------------------------------------------------------------------------------------------


class PairWeights(RunHooks):
    """Weights of the pairs of a run. They are kept in its folder and must not change when it is resumed.

    Args:
        folder: The run folder.
        source: The table that weights are read from, "auto" or "copies".
        weights: (pairs,) estimated weights. Default: None, read from the table.
        details: Entries for result.json about the estimate: the step, the noise rate, the steps and seconds it took.
    """

    def __init__(
        self,
        folder: RunFolder,
        source: str,
        weights: NDArray[np.float32] | None = None,
        details: dict[str, Any] | None = None,
    ):
        self.folder, self.source, self.estimated, self.details = folder, source, weights, details or {}

    def prepare(self, method: Any, data: Any) -> None:
        check_use(method)
        if (weights := self.estimated) is None:
            weights = read_weights(self.source, data.training_pairs, data.pair_names())
        self.weights = weights
        kept = self.folder.path / TABLE
        if self.folder.begun and kept.exists():
            before = saved_weights(kept)
            if not np.array_equal(before, self.weights):
                raise UsageError(
                    f"{self.folder.path} was started with other weights than those of {self.source}: restore the old "
                    "table to resume, or choose another --name"
                )
        elif rank_zero_only.rank == 0 and not kept.exists():
            save_weights(kept, self.weights, data.pair_names())
        data.weights = torch.from_numpy(self.weights)

    def summary(self) -> dict[str, float]:
        below = int((self.weights < 0.5).sum())
        return {"mean": float(self.weights.mean(dtype=np.float64)), "below_half": below}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log a summary of the weights before the first step."""
        rate = {"noise_rate": self.details["noise_rate"]} if "noise_rate" in self.details else {}
        if trainer.global_step == 0 and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics({f"trust/{name}": value for name, value in (rate | self.summary()).items()}, step=0)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Reject batches without weights."""
        if pl_module.pair_weights(batch) is None:
            data = type(trainer.datamodule).__name__
            raise UsageError(f"{data} gives batches without weights: its loader must pass weights_of(ids)")

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        record = {"source": self.source, "pairs": len(self.weights), **self.details, **self.summary()}
        if self.details:
            record["cost"] = (self.details["steps"] + trainer.global_step) / max(1, trainer.global_step)
        return {"trust": record}


def check_use(method: Any) -> None:
    if method.weights_for is None:
        raise UsageError(f"{type(method).__name__} learns labels, not pairs, and cannot use weights: leave out --trust")


def save_weights(path: Path, weights: NDArray[np.float32], names: Sequence[Any] | None, **columns: Any) -> None:
    """A table of ids and weights from which the very same weights can be read, with further columns."""
    with written_whole(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = CsvWriter(file)
        writer.writerow(["id", "weight", *columns])
        ids = range(len(weights)) if names is None else names
        values = [weights, *columns.values()]
        for name, *row in zip(ids, *values, strict=True):
            writer.writerow([name, *("" if np.isnan(x) else f"{x:.9g}" for x in row)])


def saved_weights(path: Path) -> NDArray[np.float32]:
    with open(path, newline="", encoding="utf-8") as file:
        return np.array([float(row["weight"]) for row in csv.DictReader(file)], dtype=np.float32)


# --- estimates, cheapest first ----------------------------------------------------------------------------------------


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


def _estimate(job: Job, place: Path, record: Path) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Take the steps, and write weights, audit and record. Every rank computes the same weights."""
    method, data, _ = job.parts
    check_use(method)
    data.folder = job.folder.path
    data.prepare_data()
    data.setup("fit")
    _check_pairs(data, method)
    if job.config.trust.source == COPIES or method.weights_for == "labels":
        if job.config.trust.source == AUTO:
            say("trust: weights of labels are estimated by copies of the model, which take as many steps as the run")
        result = cross_fit(job, place)
        say(f"trust: {_sentence(result)}")
    else:
        cheapest = _from_inputs(job)
        if cheapest is not None:
            say(f"trust, step 1: {_sentence(cheapest)}")
        if cheapest is None or cheapest.cannot_tell:
            result = _from_warm_up(job, place)
            say(f"trust, step 2: {_sentence(result)}")
            if result.cannot_tell and cheapest is not None and _outscored(cheapest) >= _outscored(result):
                result = cheapest._replace(steps=result.steps, seconds=cheapest.seconds + result.seconds)
                say(
                    "trust: neither step is conclusive; using the weights of step 1, whose scores separate pairs better"
                )
        else:
            result = cheapest
    audit, weights = result.audit, result.audit.weights
    details = {
        "step": result.step,
        "noise_rate": audit.noise_rate,
        "noise_found": audit.noise_found,
        "steps": result.steps,
        "seconds": result.seconds,
    }
    if rank_zero_only.rank == 0:
        truth = data.noise_record().get("hit" if method.weights_for == "labels" else "partner_hit")
        names = None if (given := data.pair_names()) is None else [str(name) for name in given]
        audit.save(place, ids=names, truth=truth, title=f"{job.folder.path.name}: weights of pairs", force=True)
        save_weights(job.folder.path / TABLE, weights, names, score=audit.scores, p_wrong=audit.p_wrong)
        write_text(record, json.dumps(details) + "\n")  # last: its presence means that all is there
        for folder in filter(Path.is_dir, list(place.iterdir())):
            for name in LARGE_FILES:
                (folder / name).unlink(missing_ok=True)
    if result.cannot_tell and job.config.trust.source == AUTO:
        say("trust: GCE (--loss GCE) is robust without weights; --trust copies scores pairs by copies of the model")
    if dist.is_initialized():
        dist.barrier()
    return details, weights


def _outscored(result: Estimate) -> float:
    """Mean share of mismatched pairs that a pair outscores, whatever the share of wrong pairs may be."""
    return 1 - float(np.nanmean(result.audit.p_values))


def _sentence(result: Estimate) -> str:
    return f"{describe_weights(result.audit)}; {result.audit.scorer}; {result.steps:,} steps, {result.seconds:.1f} s"


def _check_pairs(data: Any, method: Any) -> None:
    """Reject data whose pairs cannot be wrong."""
    batch = next(iter(data.noisy_batches(torch.arange(1))))
    if method.weights_for == "pairs" and not method.has_partners(batch):
        raise UsageError(
            f"--trust estimates which pairs are wrong, but {type(data).__name__} pairs every item with itself: leave "
            "out --trust"
        )


def say(text: str) -> None:
    """Print one line of progress on rank 0."""
    if rank_zero_only.rank == 0:
        note(text)


# --- step 1: features of the inputs -----------------------------------------------------------------------------------


def _from_inputs(job: Job) -> Estimate | None:
    """Cross-fitted CCA of given features or of the inputs; None for inputs that are not tensors."""
    start, data = time.perf_counter(), job.parts.data
    if job.config.trust.features is not None:
        a, b = _given_features(job.config.trust.features, data.training_pairs)
        scorer = "CCA of the given features"
    else:
        rows: dict[str, list[Tensor]] = {"ids": [], "a": [], "b": []}
        for batch in data.noisy_batches(torch.arange(data.training_pairs)):
            sides = _sides(job.parts.method, batch)
            if sides is None:
                return None
            for name, values in zip(rows, (batch.ids, *map(_averaged, sides)), strict=True):
                rows[name].append(values)
        order = torch.cat(rows["ids"]).argsort()
        a, b = (torch.cat(rows[side])[order].numpy() for side in "ab")
        scorer = "CCA of the inputs"
    audit = judge_features(a, b, data.equal_pairs(), seed=job.config.seed, scorer=scorer)
    return Estimate("features", audit, 0, time.perf_counter() - start)


def _sides(method: Any, batch: Any) -> tuple[Tensor, Tensor] | None:
    """Both sides of a batch as in evaluation, sounds as in an audit; ``None`` if they are not tensors."""
    if isinstance(batch, PairBatch):
        views = method.views
        return _features(views.get_submodule("a"), batch.a), _features(views.get_submodule("b"), batch.b)
    if isinstance(batch, ImageBatch) and batch.partners is not None:
        return method.plain(batch.images), method.plain(batch.partners)
    return None


def _features(view: Any, items: Any) -> Tensor:
    """One side of a batch of pairs."""
    if not isinstance(view, SoundRecipe):
        return view.plain(items)
    from rince.audit.encode.encoders import SAMPLE_RATE, Spectrogram

    length = round(items.shape[1] * SAMPLE_RATE / view.sample_rate)
    sounds = [*interpolate(items[:, None], length, mode="linear")[:, 0].numpy()]
    return torch.from_numpy(Spectrogram().encode(sounds))


def _averaged(x: Tensor) -> Tensor:
    """(items, numbers): rows of numbers as they are; pictures, clips and sounds averaged down to ``MAX_NUMBERS``.

    Neighbors along the longest axis are averaged, and an odd last one is left out, until an item fits.
    """
    x = x.float()
    while x.dim() > 2 and x[0].numel() > MAX_NUMBERS:
        axis = max(range(1, x.dim()), key=lambda k: x.shape[k])
        half = x.shape[axis] // 2
        x = x.narrow(axis, 0, 2 * half).unflatten(axis, (half, 2)).mean(axis + 1)
    return x.flatten(1)


def _given_features(path: str, pairs: int) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            a, b = file["a"], file["b"]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"trust.features must be an .npz file with the arrays a and b, got {path}: {error}") from error
    if len(a) != pairs or len(b) != pairs:
        raise UsageError(f"{path} must have one row per training pair ({pairs:,}), got {len(a):,} and {len(b):,}")
    return a, b


# --- step 2: hidden features after a warm-up --------------------------------------------------------------------------


def _from_warm_up(job: Job, place: Path) -> Estimate:
    start, folder = time.perf_counter(), RunFolder(place / "warm-up")
    if not folder.result.exists():
        run(job.parser, warm_up_config(job.config), folder.path, WarmUp())
        if dist.is_initialized():
            dist.barrier()
    with np.load(folder.path / FEATURES, allow_pickle=False) as file:
        a, b = file["a"], file["b"]
    scorer = "CCA of the model's hidden features after a warm-up"
    audit = judge_features(a, b, job.parts.data.equal_pairs(), seed=job.config.seed, scorer=scorer)
    steps = int(folder.read_result()["steps"])
    return Estimate("warm-up", audit, steps, time.perf_counter() - start)


def warm_up_config(config: Any) -> Any:
    """The configuration of the warm-up: GCE, and ``WARM_UP`` of the epochs and of the steps, if both are given."""
    warm_up = auxiliary_config(config)
    trainer, options = warm_up.trainer, config.trainer
    if options.max_steps is not None and options.max_steps > 0:
        trainer.max_steps = max(1, int(WARM_UP * options.max_steps))
    if options.max_epochs is not None and options.max_epochs > 0:
        trainer.max_epochs = math.ceil(WARM_UP * options.max_epochs)
        share = WARM_UP * options.max_epochs / trainer.max_epochs
        limit = options.limit_train_batches
        if isinstance(limit, int):
            trainer.limit_train_batches = max(1, int(share * limit))
        else:
            trainer.limit_train_batches = share * (1.0 if limit is None else limit)
    return warm_up


def auxiliary_config(config: Any) -> Any:
    """The configuration of a run that weights are estimated from: GCE unless told otherwise, and nothing logged."""
    auxiliary = config.clone()
    for name in vars(auxiliary.trust):
        auxiliary.trust[name] = None
    auxiliary.probe, auxiliary.trainer.logger = False, None
    if config.trust.loss != "same":
        use_gce(auxiliary)
    return auxiliary


def use_gce(config: Any) -> None:
    """Replace InfoNCE and RINCE by GCE at their temperature, with a q that grows to 1; any other loss stays.

    A run with weights can use a loss that learns from all pairs; models that estimate the weights cannot. With q = 1
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


class WarmUp(RunHooks):
    """A short run that ends with the hidden features of all pairs."""

    def prepare(self, method: Any, data: Any) -> None:
        data.weights = None

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Write the features of all pairs beside the run."""
        features = gathered(trainer, method, data, torch.arange(data.training_pairs), hidden_features)
        if trainer.is_global_zero:
            with written_whole(Path(trainer.default_root_dir) / FEATURES) as beside, open(beside, "wb") as file:
                np.savez(file, a=features["a"].numpy(), b=features["b"].numpy())
        return {}


def hidden_features(method: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """Encoder outputs for both sides of the pairs of a batch, before any projection head."""
    encoder = method.encoder
    modules = [encoder.a, encoder.b] if isinstance(encoder, Towers) else [encoder]
    outputs: list[Tensor] = []
    hooks = [module.register_forward_hook(lambda _, __, out: outputs.append(out)) for module in modules]
    try:
        method.pair_embeddings(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return outputs[0].flatten(1), outputs[1].flatten(1)


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
        rank_rows: list[Any] = [None] * trainer.world_size
        dist.all_gather_object(rank_rows, rows)
        rows = [row for own_rows in rank_rows for row in own_rows]
    joined = {name: torch.cat([row[name] for row in rows]) for name in ("ids", "a", "b")}
    order = joined["ids"].argsort()
    return {name: values[order] for name, values in joined.items()}


# --- step 3: copies of the model --------------------------------------------------------------------------------------


def cross_fit(job: Job, place: Path) -> Estimate:
    """Train or resume the copies, and audit their scores together."""
    start, config, pairs = time.perf_counter(), job.config, int(job.parts.data.training_pairs)
    folds = config.trust.folds or default_folds(config.trainer.max_epochs, pairs)
    if folds * MIN_PAIRS > pairs:
        raise _too_few(folds, pairs // folds)
    folders = [RunFolder(place / f"fold-{k + 1}") for k in range(folds)]
    for k, folder in enumerate(folders):
        if not folder.result.exists():
            copy = FoldRun(k, folds, config.seed)
            run(job.parser, fold_config(config, folds), folder.path, copy)
    if dist.is_initialized():
        dist.barrier()
    steps = sum(int(folder.read_result()["steps"]) for folder in folders)
    return Estimate("copies", _audit_scores(folders, config.seed), steps, time.perf_counter() - start)


def default_folds(epochs: int | None, pairs: int) -> int:
    """2, or 3 in long runs on few pairs.

    Two copies learn from half of the pairs for as many epochs as the run; three learn from two thirds in half of the
    epochs, which is better where half of the pairs are too few, and worse where models need more epochs.
    """
    return 2 if pairs >= MANY_PAIRS or (epochs is not None and 0 < epochs < SHORT_RUN) else 3


def fold_config(config: Any, folds: int) -> Any:
    """The configuration of one copy: all copies together take as many steps as the run."""
    fold = auxiliary_config(config)
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


class FoldRun(RunHooks):
    """A run on all pairs but those of one fold, which it scores at its end."""

    def __init__(self, number: int, folds: int, seed: int):
        self.number, self.folds, self.seed = number, folds, seed
        self.held_out = torch.empty(0, dtype=torch.int64)

    def prepare(self, method: Any, data: Any) -> None:
        fold = fold_of(data.training_pairs, self.folds, self.seed, data.equal_pairs())
        self.held_out = (fold == self.number).nonzero()[:, 0]
        if len(self.held_out) < MIN_PAIRS:
            raise _too_few(self.folds, len(self.held_out))
        data.weights, data.among = None, (fold != self.number).nonzero()[:, 0]
        say(f"trust: copy {self.number + 1} of {self.folds}, {len(data.among):,} of {len(fold):,} pairs")

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Write scores of the held-out pairs and of mismatched pairs made from them beside the run."""
        labels = method.weights_for == "labels"
        rows = gathered(trainer, method, data, self.held_out, _labeled if labels else type(method).pair_embeddings)
        if trainer.is_global_zero:
            if labels:
                scored = _label_scores(rows)
            else:
                temperature, share = float(method.temperature(otherwise=0.1)), MISMATCHED // self.folds
                key = self.seed, self.number
                scored = fold_scores(rows["a"].float(), rows["b"].float(), [], temperature, key, share)
            content = {name: value for name, value in scored._asdict().items() if value is not None}
            content |= {"rows": rows["ids"].numpy(), "pairs": np.array(data.training_pairs)}
            if (equal := data.equal_pairs()) is not None:
                content["equal"] = equal
            with written_whole(Path(trainer.default_root_dir) / SCORES) as beside, open(beside, "wb") as file:
                np.savez(file, **content)
        return {}


def _labeled(method: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """Embeddings and labels."""
    return method.project(method.embed(batch)), batch.labels


def _label_scores(rows: dict[str, Tensor]) -> Scored:
    """Scores of labels "b" by embeddings "a"."""
    labels, labeled, z = rows["b"], rows["b"] >= 0, normalize(rows["a"].float(), dim=1)
    own, null, other_class_better = label_scores(z[labeled], labels[labeled], int(labels.max()) + 1)
    scores = torch.full((len(z),), float(null.max()) + 1)  # the only item of its label, or no label
    scores[labeled] = torch.where(torch.isnan(own), scores[labeled], own)
    by_accident = share_right_by_chance(labels[labeled].numpy())
    share = other_class_better * float(labeled.float().mean())
    return Scored(scores.numpy(), null.numpy(), None, by_accident, share)


def fold_of(pairs: int, folds: int, seed: int, equal: NDArray[np.int64] | None = None) -> Tensor:
    """A random fold for every pair; equal pairs share one (see ``DataModule.equal_pairs``)."""
    unit = np.arange(pairs) if equal is None else np.unique(equal, return_inverse=True)[1].reshape(-1)
    fold = torch.randperm(int(unit.max(initial=-1)) + 1, generator=generator(seed, 31)) % folds
    return fold[torch.from_numpy(unit)]


def _audit_scores(folders: list[RunFolder], seed: int) -> "Audit":
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
    return UsageError(
        f"--trust copies needs at least {MIN_PAIRS} pairs per fold, got {got} in {folds} folds: use fewer"
    )
