"""What users do to a loss in SentenceTransformerTrainer besides what it was made for."""

import subprocess
import sys

import pytest
import torch

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed: make test-peers")

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from rince.errors import UsageError
from rince.integrations import sentence_transformers as ours

WORDS = ("dog", "runs", "over", "green", "field", "two", "men", "look", "red", "car")


@pytest.fixture
def model():
    vocabulary = {word: i for i, word in enumerate(("[UNK]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


def texts(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [" ".join(WORDS[int(i)] for i in torch.randint(0, len(WORDS), (3,), generator=g)) for _ in range(n)]


def pairs(n, **more):
    return Dataset.from_dict({"anchor": texts(n), "positive": texts(n, 1), **more})


def train(model, data, loss, folder, **options):
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, learning_rate=0.05, num_train_epochs=1, use_cpu=True,
        save_strategy="no", logging_steps=1, report_to=[], disable_tqdm=True, **options,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


LOSSES = (ours.RINCELoss, ours.GCELoss, ours.InfoNCELoss)


@pytest.mark.parametrize("make", LOSSES)
def test_a_last_batch_of_one_pair_does_no_harm(make, model, tmp_path):
    """It has no negatives: the gradient is zero or pulls the pair together, and nothing becomes NaN."""
    seen = train(model, pairs(17), make(model), tmp_path, seed=1)
    assert len(seen) == 3 and all(map(torch.tensor(seen).isfinite().tolist().__getitem__, range(3)))
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("make", LOSSES)
def test_bfloat16_autocast_trains(make, model, tmp_path):
    seen = train(model, pairs(24), make(model), tmp_path, bf16=True)
    assert torch.tensor(seen).isfinite().all()


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("make", LOSSES)
def test_half_precision_embeddings_give_a_float32_loss(make, dtype):
    g = torch.Generator().manual_seed(0)
    full = [torch.randn(32, 16, generator=g) for _ in range(3)]
    loss = make(None)
    half = [z.to(dtype).requires_grad_() for z in full]
    value = loss.compute_loss_from_embeddings(half)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(loss.compute_loss_from_embeddings(full).item(), rel=0.02)
    assert all(g.dtype == dtype and g.isfinite().all() for g in torch.autograd.grad(value, half))


def test_loss_accepts_hard_negatives_and_prompts(model, tmp_path):
    data = {"pairs": pairs(16), "triplets": pairs(16, negative=texts(16, 2), harder=texts(16, 3))}
    prompts = {"pairs": {"anchor": "red "}, "triplets": {"anchor": "two "}}
    loss = MatryoshkaLoss(model, ours.RINCELoss(model), [16, 8])
    seen = train(model, data, loss, tmp_path, prompts=prompts, batch_sampler="no_duplicates")
    assert len(seen) >= 4 and torch.tensor(seen).isfinite().all()


def test_every_pair_the_same_leaves_a_finite_loss(model, tmp_path):
    same = Dataset.from_dict({"anchor": ["dog runs"] * 16, "positive": ["dog runs"] * 16})
    assert torch.tensor(train(model, same, ours.GCELoss(model), tmp_path)).isfinite().all()


def test_texts_without_a_known_word_and_empty_ones_leave_a_finite_loss(model, tmp_path):
    odd = Dataset.from_dict({"anchor": ["", "xyz", "dog", "red car"] * 4, "positive": ["dog", "", "xyz", "car"] * 4})
    assert torch.tensor(train(model, odd, ours.RINCELoss(model), tmp_path)).isfinite().all()
    assert all(p.isfinite().all() for p in model.parameters())


def test_columns_that_do_not_fit_are_named(model, tmp_path):
    with pytest.raises(UsageError, match=r"\(anchor, positive\), got 1"):
        train(model, Dataset.from_dict({"text": texts(8), "label": [1] * 8}), ours.RINCELoss(model), tmp_path)
    with pytest.raises(UsageError, match="takes no labels"):
        train(model, pairs(8, label=[0, 1] * 4), ours.RINCELoss(model), tmp_path)
    with pytest.raises(UsageError, match=r"weights .* got -1"):
        train(model, pairs(8, score=[-1.0] * 8), ours.RINCELoss(model, weighted=True), tmp_path)
    with pytest.raises(UsageError, match="needs a weight per pair"):
        train(model, pairs(8), ours.RINCELoss(model, weighted=True), tmp_path)


def test_labels_that_the_library_fills_in_are_no_error(model):
    features = [model.preprocess(texts(8, seed)) for seed in (0, 1)]
    expected = MultipleNegativesRankingLoss(model)(features, torch.zeros(8, dtype=torch.int64))
    assert torch.allclose(ours.InfoNCELoss(model)(features, torch.zeros(8, dtype=torch.int64)), expected, rtol=1e-5)


def test_missing_library_is_named_with_its_install_command():
    code = (
        "import sys; sys.modules['sentence_transformers'] = None\n"
        "try:\n    import rince.integrations.sentence_transformers\n"
        "except ImportError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install" in ran.stdout and "sentence-transformers" in ran.stdout
