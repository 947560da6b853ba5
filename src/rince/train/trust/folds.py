"""Trust found on the way: one copy of the model per fold, trained on the other pairs, and what they say together."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.utilities import rank_zero_only
from numpy.typing import NDArray
from torch import Tensor

from rince._support.atomic_files import write_text, written_whole
from rince.audit.classes import share_hit_by_accident
from rince.audit.columns import FEWEST
from rince.audit.mismatched import Scored
from rince.errors import UsageError
from rince.train.folder import RunFolder
from rince.train.trust.copies import fold_config, usual_folds
from rince.train.trust.phase import AUTO, TABLE, Phase, Trusted, check_use, fold_of, read_weights, say

if TYPE_CHECKING:
    from rince.audit.result import Audit

SCORES = "scores.npz"
LARGE = ("last.ckpt", "previous.ckpt", "encoder.safetensors", SCORES)


class FoundTrust(Trusted):
    """``--trust auto``: runs of the folds first, each resumed where it was, and then a run with what they found."""

    def __init__(self, parser: Any, config: Any, folder: RunFolder, text: str, data: Any):
        super().__init__(folder, AUTO)
        self.place = folder.path / "trust"
        if config.trust.folds is not None and config.trust.folds < 2:
            raise UsageError(
                f"trust.folds must be at least 2, so that a model can leave one out, got {config.trust.folds}"
            )
        if config.trust.epochs is not None and config.trust.epochs < 1:
            raise UsageError(f"trust.epochs must be at least 1, got {config.trust.epochs}")
        pairs = pairs_of(data, folder)
        self.folds = config.trust.folds or usual_folds(config.trainer.max_epochs, pairs)
        if self.folds * FEWEST > pairs:
            raise too_few(self.folds, pairs // self.folds)
        self.record_file = self.place / "trust.json"
        if not self.record_file.exists():
            self._find(parser, config, text)
        self._forget_models()
        record = json.loads(self.record_file.read_text(encoding="utf-8"))
        self.steps = int(record.pop("steps"))
        self.facts = record

    def find(self, data: Any) -> NDArray[np.float32]:
        return read_weights(self.folder.path / TABLE)

    def write(self, data: Any) -> None:
        """It was written when it was found."""

    def record(self, steps: int) -> dict[str, Any]:
        found = super().record(steps)["trust"]
        cost = (self.steps + steps) / max(1, steps)
        return {"trust": {**found, "folds": self.folds, "steps": self.steps, "cost": cost}}

    def _find(self, parser: Any, config: Any, text: str) -> None:
        if self.place.exists():
            self.folder.check_same(_values(text))
        elif rank_zero_only.rank == 0:
            write_text(self.folder.config, text)
        held = [HoldOut(number, self.folds, config.seed) for number in range(self.folds)]
        for fold in held:
            self._run(parser, fold_config(config, self.folds), fold)
        if rank_zero_only.rank == 0:
            self._conclude(config)
        if dist.is_initialized():
            dist.barrier()

    def _run(self, parser: Any, config: Any, fold: "HoldOut") -> None:
        from rince.train.run import run

        path = self._path(fold.number)
        if RunFolder(path).result.exists():
            return
        run(parser, config, path, conclude=fold.conclude, phase=fold)

    def _path(self, number: int) -> Path:
        return self.place / f"fold-{number + 1}"

    def _conclude(self, config: Any) -> None:
        """The weights of all pairs out of the scores of the folds."""
        from rince.trust.weights import trust_of

        found, about, steps = self._judged(config.seed)
        weights = trust_of(found)
        title = f"{self.folder.path.name}: trust"
        found.save(self.place, ids=about["names"], truth=about["wrong"], title=title, force=True)
        _write_table(self.folder.path / TABLE, found, weights, about["names"])
        record = {"noise_rate": found.noise_rate, "noise_found": found.noise_found, "steps": steps}
        write_text(self.record_file, json.dumps(record) + "\n")  # the last, so that all is there if it is
        say(_sentence(found, weights, self.folder.path) + _way_out(found, config, self.folds))

    @rank_zero_only
    def _forget_models(self) -> None:
        for number in range(self.folds):
            for name in LARGE:
                (self._path(number) / name).unlink(missing_ok=True)

    def _judged(self, seed: int) -> tuple["Audit", dict[str, Any], int]:
        from rince.audit.run import judge
        from rince.audit.unusable import kept_rows, with_gaps

        parts, steps = [], 0
        for number in range(self.folds):
            with np.load(self._path(number) / SCORES, allow_pickle=False) as file:
                parts.append({name: file[name] for name in file.files})
            steps += int(json.loads(RunFolder(self._path(number)).result.read_text())["steps"])
        n = int(parts[0]["pairs"])
        scores = np.full(n, np.nan, dtype=np.float32)
        for part in parts:
            scores[part["rows"]] = part["scores"]
        missing = np.flatnonzero(np.isnan(scores))
        kept = kept_rows(n, missing)
        null = np.concatenate([part["null"] for part in parts])
        equal = parts[0].get("equal")
        clusters = None if equal is None else np.unique(equal[kept], return_inverse=True)[1].reshape(-1)
        of_labels = [[part[name] for part in parts] for name in ("hit_by_accident", "with_rival")]
        weights = [len(part["rows"]) for part in parts]
        scored = Scored(scores[kept], null, clusters, *(float(np.average(x, weights=weights)) for x in of_labels))
        found = judge(scored, seed=seed, fitted=True, scorer="copies of the model that never saw the pair")
        about = {name: parts[0].get(name) for name in ("names", "wrong")}
        return with_gaps(found, n, missing) if len(missing) else found, about, steps


class HoldOut(Phase):
    """A run on all pairs but those of one fold, which it scores at its end."""

    def __init__(self, number: int, folds: int, seed: int):
        self.number, self.folds, self.seed = number, folds, seed
        self.held = torch.empty(0, dtype=torch.int64)

    def prepare(self, data: Any, method: Any) -> None:
        check_use(method)
        fold = fold_of(data.training_pairs, self.folds, self.seed, data.equal_pairs())
        self.held = (fold == self.number).nonzero()[:, 0]
        if len(self.held) < FEWEST:
            raise too_few(self.folds, len(self.held))
        check_pairs(data, method, self.held[:1])
        data.among = (fold != self.number).nonzero()[:, 0]
        say(f"trust: fold {self.number + 1} of {self.folds}, learning from {len(data.among):,} of {len(fold):,} pairs")

    def conclude(self, trainer: Any, method: Any, data: Any) -> dict[str, Any]:
        """Scores of the pairs that were left out, and of mismatched ones made of them, beside the run."""
        found = embeddings(trainer, method, data, self.held)
        if trainer.is_global_zero:
            scored = self._scored(method, found)
            path = Path(trainer.default_root_dir) / SCORES
            about: dict[str, Any] = {"rows": found["ids"].numpy(), "pairs": np.array(data.training_pairs)}
            if (names := data.pair_names()) is not None:
                about["names"] = np.asarray([str(name) for name in names])
            if (wrong := wrong_pairs_of(data, method)) is not None:
                about["wrong"] = wrong
            if (equal := data.equal_pairs()) is not None:
                about["equal"] = equal
            with written_whole(path) as beside, open(beside, "wb") as file:
                np.savez(
                    file, **{name: value for name, value in scored._asdict().items() if value is not None}, **about
                )
        return {}

    def _scored(self, method: Any, found: dict[str, Tensor]) -> Scored:
        from rince.trust.cross_fitted import MISMATCHED, fold_scores
        from rince.trust.labels import label_scores

        if method.trusts == "labels":
            labels, known = found["labels"], found["labels"] >= 0
            z = torch.nn.functional.normalize(found["a"], dim=1)
            own, null, with_rival = label_scores(z[known], labels[known], int(labels.max()) + 1)
            scores = torch.full((len(z),), float(null.max()) + 1)  # nobody to differ from, or no label to doubt
            scores[known] = torch.where(torch.isnan(own), scores[known], own)
            by_accident = share_hit_by_accident(labels[known].numpy())
            return Scored(scores.numpy(), null.numpy(), None, by_accident, with_rival * float(known.float().mean()))
        temperature = float(method.temperature(otherwise=0.1))
        share = MISMATCHED // self.folds
        return fold_scores(found["a"], found["b"], [], temperature, (self.seed, self.number), share)


@torch.no_grad()
def embeddings(trainer: Any, method: Any, data: Any, ids: Tensor) -> dict[str, Tensor]:
    """Both sides of pairs in the space of the loss, by the processes together, in the order of their numbers."""
    device, was_training = trainer.strategy.root_device, method.training
    method.to(device).eval()
    rows = []
    for batch in data.noisy_batches(ids[trainer.global_rank :: trainer.world_size]):
        batch = trainer.strategy.batch_to_device(batch, device)
        if method.trusts == "labels":
            a = b = method.project(method.embed(batch))
            labels = batch.labels
        else:
            a, b = method.pair_embeddings(batch)
            labels = batch.ids  # not asked for
        rows.append({"ids": batch.ids, "a": a.float(), "b": b.float(), "labels": labels})
    method.cpu().train(was_training)
    own = [{name: values.cpu() for name, values in row.items()} for row in rows]
    if trainer.world_size > 1:
        everyone: list[Any] = [None] * trainer.world_size
        dist.all_gather_object(everyone, own)
        own = [row for one in everyone for row in one]
    found = {name: torch.cat([row[name] for row in own]) for name in ("ids", "a", "b", "labels")}
    order = found["ids"].argsort()
    return {name: values[order] for name, values in found.items()}


def too_few(folds: int, got: int) -> UsageError:
    return UsageError(
        f"--trust auto needs at least {FEWEST} pairs in each of its {folds} folds, got {got}: give it fewer folds or "
        "more pairs"
    )


def pairs_of(data: Any, folder: RunFolder) -> int:
    """How many pairs there are to train on."""
    data.folder = folder.path
    data.prepare_data()
    data.setup("fit")
    return int(data.training_pairs)


def check_pairs(data: Any, method: Any, ids: Tensor) -> None:
    """Refuse data in which no pair can be wrong, since every item is its own partner."""
    batch = next(iter(data.noisy_batches(ids)))
    if method.trusts == "pairs" and not method.has_partners(batch):
        raise UsageError(
            f"--trust auto finds wrong pairs, but {type(data).__name__} pairs every item with itself, which is always "
            "right: leave out --trust, or give data with partners"
        )


def wrong_pairs_of(data: Any, method: Any) -> NDArray[np.bool_] | None:
    """Which pairs (or labels) were made wrong on purpose, for the page."""
    record = data.noise_record()
    return record.get("hit" if method.trusts == "labels" else "partner_hit")


def _values(text: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(text)


def _write_table(path: Path, found: "Audit", weights: NDArray[np.float32], names: Any) -> None:
    import csv

    with written_whole(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "trust", "score", "p_wrong"])
        ids = range(len(weights)) if names is None else names.tolist()
        columns = zip(ids, weights.tolist(), found.scores.tolist(), found.p_wrong.tolist(), strict=True)
        writer.writerows((i, f"{w:.9g}", _text(s), _text(p)) for i, w, s, p in columns)


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _way_out(found: "Audit", config: Any, folds: int) -> str:
    """What to try where models of the usual length learned too little."""
    epochs = config.trainer.max_epochs
    if not (found.useless or found.cannot_tell) or config.trust.epochs is not None or epochs is None or epochs < 1:
        return ""
    longer = 2 * epochs if fold_config(config, folds).trainer.max_epochs >= epochs else epochs
    cost = 1 + (folds - 1) * longer / epochs
    fewer = "with --trust.folds 2 they take more steps at the same cost; " if folds > 2 else ""
    return (
        f"\ntrust: the models that judge the pairs may have learned too little; {fewer}with --trust.epochs {longer} "
        f"and another --name they learn longer, and everything takes about {cost:.3g} times the steps of the run alone"
    )


def _sentence(found: "Audit", weights: NDArray[np.float32], folder: Path) -> str:
    low, high = found.interval
    if found.useless:
        said = "the scores tell nothing about the pairs, so all of them weigh 1"
    elif found.cannot_tell:
        said = f"cannot tell whether pairs are wrong, up to {high:.0%} of them may be, so all of them weigh 1"
    elif not found.noise_found:
        said = "no wrong pairs found, so all of them weigh 1"
    else:
        said = (
            f"about {found.noise_rate:.1%} of the pairs are wrong ({low:.1%} to {high:.1%}), mean trust "
            f"{weights.mean():.3f}, {int((weights < 0.5).sum()):,} of {len(weights):,} below 0.5"
        )
    return f"trust: {said}; see {folder / 'trust' / 'audit.html'}"
