"""Weights estimated before a run, by the cheapest step that can tell (``--trust auto``), or by copies of the model.

1. *Features*: cross-fitted CCA of the inputs of both sides, or of given features. Seconds, no training steps.
2. *Warm-up*: the model trains with GCE for 15 % of the run; then cross-fitted CCA of its hidden features. The run
   itself starts afresh, with the weights.
3. *Copies*, on request (``--trust copies``): see ``rince.train.trust.copies``.

The next step is taken where a step cannot tell right from wrong pairs. If none can, the weights follow the best guess
of the step whose scores separate pairs best. Everything is kept below ``RUN/trust``, and
the warm-up and the copies are runs of their own there, so an interrupted command resumes wherever it was.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.utilities import rank_zero_only
from numpy.typing import NDArray
from torch import Tensor

from rince._support.atomic_files import write_text, written_whole
from rince.encoders import Towers
from rince.errors import UsageError
from rince.train.run import Job, WeightSource, prepared, run, train
from rince.train.run_folder import RunFolder
from rince.train.trust.copies import SCORES, Estimate, cross_fit, gathered, use_gce
from rince.train.trust.sources import TABLE, EstimatedWeights, TableWeights, check_use, read_weights, say, write_weights
from rince.trust.weights import judge_features, weights_of
from rince.views import ImageBatch, PairBatch

AUTO, COPIES = "auto", "copies"
WARM_UP = 0.15  # of the epochs or steps of the run
MAX_NUMBERS = 4096  # of an input that become features; larger ones are averaged down
FEATURES = "features.npz"
LARGE_FILES = ("last.ckpt", "previous.ckpt", "encoder.safetensors", FEATURES, SCORES)


def train_with_weights(parser: Any, config: Any) -> dict[str, Any] | None:
    """Train a configuration with the weights of pairs that it asks for; they are estimated first."""
    with prepared(parser, config) as job:
        return train(job, weights=weight_source(job))


def weight_source(job: Job) -> WeightSource:
    """Weights as the configuration says. "auto" and "copies" estimate them here, before the run."""
    settings = job.config.get("trust")
    source = None if settings is None else settings.source
    if settings is not None:
        _check_settings(settings)
    if source is None:
        return WeightSource()
    if source not in (AUTO, COPIES):
        return TableWeights(job.folder, source)
    place = job.folder.path / "trust"
    record = place / "trust.json"
    if record.exists():
        details = json.loads(record.read_text(encoding="utf-8"))
        return EstimatedWeights(job.folder, source, details, read_weights(job.folder.path / TABLE))
    if place.exists():
        job.folder.check_same(job.settings)
    elif rank_zero_only.rank == 0:
        write_text(job.folder.config, job.text)
    details, weights = _estimate(job, place, record)
    return EstimatedWeights(job.folder, source, details, weights)


def _check_settings(settings: Any) -> None:
    for name, source in (("features", AUTO), ("folds", COPIES), ("epochs", COPIES), ("loss", COPIES)):
        if settings[name] is not None and settings.source != source:
            raise UsageError(f"trust.{name} is for --trust {source}: add that, or leave trust.{name} out")
    if settings.folds is not None and settings.folds < 2:
        raise UsageError(f"trust.folds must be at least 2, got {settings.folds}")
    if settings.epochs is not None and settings.epochs < 1:
        raise UsageError(f"trust.epochs must be at least 1, got {settings.epochs}")


def _estimate(job: Job, place: Path, record: Path) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Take the steps, and write weights, audit and record. Every rank computes the same weights."""
    method, data, _ = job.parts
    check_use(method)
    data.folder = job.folder.path
    data.prepare_data()
    data.setup("fit")
    _check_pairs(data, method)
    if job.config.trust.source == COPIES or method.weights_for == "labels":
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
                say("trust: neither step can tell; the weights are those of step 1, whose scores separate pairs better")
        else:
            result = cheapest
    audit, weights = result.audit, weights_of(result.audit)
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
        write_weights(job.folder.path / TABLE, weights, names, score=audit.scores, p_wrong=audit.p_wrong)
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
    audit, (low, high) = result.audit, result.audit.interval
    if result.cannot_tell:
        verdict = f"cannot tell whether pairs are wrong (up to {high:.0%} may be); "
        equal = bool((weights_of(audit) == 1).all())
        verdict += "all weights are 1" if equal else f"weights follow the best guess of {audit.best_guess:.0%}"
    elif audit.noise_found:
        verdict = f"about {audit.noise_rate:.1%} of the pairs are wrong (95 % interval {low:.1%} to {high:.1%})"
    else:
        verdict = f"no wrong pairs found (at most {max(high, 0.001):.1%}); all weights are 1"
    return f"{verdict}; {audit.scorer}; {result.steps:,} steps, {result.seconds:.1f} s"


def _check_pairs(data: Any, method: Any) -> None:
    """Reject data whose pairs cannot be wrong."""
    batch = next(iter(data.noisy_batches(torch.arange(1))))
    if method.weights_for == "pairs" and not method.has_partners(batch):
        raise UsageError(
            f"--trust estimates which pairs are wrong, but {type(data).__name__} pairs every item with itself: leave "
            "out --trust"
        )


# --- step 1: features of the inputs -----------------------------------------------------------------------------------


def _from_inputs(job: Job) -> Estimate | None:
    """Cross-fitted CCA of given features or of the inputs; None for inputs that are not tensors."""
    started, data = time.perf_counter(), job.parts.data
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
    return Estimate("features", audit, 0, time.perf_counter() - started)


def _sides(method: Any, batch: Any) -> tuple[Tensor, Tensor] | None:
    """Both sides of a batch as evaluation sees them, such as spectrograms of sounds; None if they are not tensors."""
    if isinstance(batch, PairBatch):
        return tuple(method.views.get_submodule(side).plain(items) for side, items in (("a", batch.a), ("b", batch.b)))
    if isinstance(batch, ImageBatch) and batch.partners is not None:
        return method.plain(batch.images), method.plain(batch.partners)
    return None


def _averaged(x: Tensor) -> Tensor:
    """(items, numbers) with at most ``MAX_NUMBERS``: neighbors along the longest axis are averaged until they fit."""
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


def warm_up_config(config: Any) -> Any:
    """The configuration of the warm-up: GCE, a short run, nothing logged elsewhere."""
    warm_up = config.clone()
    for name in ("source", "features", "folds", "epochs", "loss"):
        warm_up.trust[name] = None
    warm_up.probe, warm_up.trainer.logger = False, None
    use_gce(warm_up)
    epochs, steps = config.trainer.max_epochs, config.trainer.max_steps
    if steps is not None and steps > 0:
        warm_up.trainer.max_steps = max(1, round(WARM_UP * steps))
    elif epochs is not None and epochs > 0:
        warm_up.trainer.max_epochs = max(1, round(WARM_UP * epochs))
        if WARM_UP * epochs < 1 and config.trainer.limit_train_batches is None:
            warm_up.trainer.limit_train_batches = WARM_UP * epochs
    return warm_up


class WarmUp(WeightSource):
    """A short run that ends with the hidden features of all pairs."""

    def prepare(self, data: Any, method: Any) -> None:
        data.weights = None

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Write the features of all pairs beside the run."""
        features = gathered(trainer, method, data, torch.arange(data.training_pairs), hidden_features)
        if trainer.is_global_zero:
            with written_whole(Path(trainer.default_root_dir) / FEATURES) as beside, open(beside, "wb") as file:
                np.savez(file, a=features["a"].numpy(), b=features["b"].numpy())
        return {}


def hidden_features(method: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """What the encoder gives for both sides of the pairs of a batch, before any projection head."""
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


def _from_warm_up(job: Job, place: Path) -> Estimate:
    started, folder, warm_up = time.perf_counter(), RunFolder(place / "warm-up"), WarmUp()
    if not folder.result.exists():
        run(job.parser, warm_up_config(job.config), folder.path, conclude=warm_up.conclude, weights=warm_up)
        if dist.is_initialized():
            dist.barrier()
    with np.load(folder.path / FEATURES, allow_pickle=False) as file:
        a, b = file["a"], file["b"]
    scorer = "CCA of the model's hidden features after a warm-up"
    audit = judge_features(a, b, job.parts.data.equal_pairs(), seed=job.config.seed, scorer=scorer)
    steps = int(folder.read_result()["steps"])
    return Estimate("warm-up", audit, steps, time.perf_counter() - started)
