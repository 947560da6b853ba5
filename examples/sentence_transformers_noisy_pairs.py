"""sentence-transformers on translations of which 40% are mismatched: MultipleNegativesRankingLoss and GCELoss.

pip install 'rince[text]' datasets accelerate. Runs offline: the model starts from random word vectors.
"""

import itertools
import random

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from rince.integrations.sentence_transformers import GCELoss, InfoNCELoss
from rince.noise.pairs import wrong_pairs

WORDS = [
    "dog Hund, man Mann, girl Maedchen, woman Frau, cat Katze, boy Junge, nurse Schwester, cook Koch",
    "sees sieht, carries traegt, paints malt, finds findet, wants will, buys kauft, shows zeigt, hides versteckt",
    "red roten, green gruenen, old alten, small kleinen, heavy schweren, new neuen, blue blauen, empty leeren",
    "ball Ball, coat Mantel, table Tisch, hat Hut, boat Kahn, chair Stuhl, box Kasten, stone Stein",
]


def sentences():
    """All 4,096 sentences of four words, in two languages, in random order."""
    choices = [[word.split() for word in line.split(", ")] for line in WORDS]
    every = [tuple(map(" ".join, zip(*four, strict=True))) for four in itertools.product(*choices)]
    return random.Random(0).sample(every, len(every))


def model(texts):
    names = ["[UNK]", *sorted({word for text in texts for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=32)], device="cpu")


english, german = sides = [list(side) for side in zip(*sentences(), strict=True)]
partner, _ = wrong_pairs(1500, 0.4, seed=0)
train = Dataset.from_dict({"anchor": english[:1500], "positive": [german[i] for i in partner]})
arguments = SentenceTransformerTrainingArguments(
    output_dir="trained", num_train_epochs=3, per_device_train_batch_size=64, learning_rate=0.02, use_cpu=True,
    save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
)  # fmt: skip
losses = {
    "MultipleNegativesRankingLoss": MultipleNegativesRankingLoss,
    "the same at temperature 0.2": lambda encoder: InfoNCELoss(encoder, temperature=0.2),
    "GCELoss": GCELoss,  # at temperature 0.2, too
}
for name, loss_of in losses.items():
    encoder = model(english + german)
    SentenceTransformerTrainer(encoder, arguments, train_dataset=train, loss=loss_of(encoder)).train()
    a, b = (encoder.encode(side[-1000:], convert_to_tensor=True, normalize_embeddings=True) for side in sides)
    right = ((a @ b.T).argmax(1) == torch.arange(len(a))).float().mean()
    print(f"{name}: {right:.1%} of 1,000 new sentences find their translation")
