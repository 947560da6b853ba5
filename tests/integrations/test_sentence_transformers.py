import itertools

import pytest
import torch
import torch.multiprocessing as mp

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed: make test-peers")

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    util,
)
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer

import rince
from integrations.ranking_processes import worker
from rince.errors import UsageError
from rince.integrations import sentence_transformers as ours
from rince.losses import schedules

WORDS = [
    "a",
    "dog",
    "runs",
    "over",
    "the",
    "green",
    "field",
    "while",
    "two",
    "men",
    "look",
    "at",
    "it",
    "from",
    "their",
    "red",
    "car",
]
DIRECTIONS = (
    (("query_to_doc",), "joint"),
    (("query_to_doc", "doc_to_query"), "per_direction"),
    (("query_to_doc", "doc_to_query"), "joint"),
    (("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"), "joint"),
)


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return words


@pytest.fixture
def static():
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer(), embedding_dim=16)], device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny transformer with dropout, as a user would have one on disk."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    place = str(tmp_path_factory.mktemp("bert"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2,
    )  # fmt: skip
    BertModel(config).save_pretrained(place)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer(), pad_token="[PAD]", unk_token="[UNK]").save_pretrained(place)
    return place


@pytest.fixture
def transformer(folder):
    base = Transformer(folder)
    return SentenceTransformer(modules=[base, Pooling(16)], device="cpu")


def sentences(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [" ".join(WORDS[int(i)] for i in torch.randint(0, len(WORDS), (4,), generator=g)) for _ in range(n)]


def columns(model, n=24, hard=0):
    return [model.preprocess(sentences(n, seed)) for seed in range(2 + hard)]


def embeddings(n=33, hard=0, width=8):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(n, width, generator=g).requires_grad_() for _ in range(2 + hard)]


def gradient(model, loss, features, labels=None):
    model.zero_grad()
    loss(features, labels).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("hard", (0, 1, 3))
@pytest.mark.parametrize(("directions", "partition"), DIRECTIONS)
@pytest.mark.parametrize("similarity", (util.cos_sim, util.dot_score))
def test_q_0_is_multiple_negatives_ranking_loss(hard, directions, partition, similarity, equal):
    for mode in (None, "in_batch_negatives", "hard_negatives", "all_negatives"):
        options = {
            "scale": 5.0,
            "similarity_fct": similarity,
            "directions": directions,
            "partition_mode": partition,
            "hardness_mode": mode,
            "hardness_strength": 3.0 if mode else 0.0,
        }
        columns = embeddings(hard=hard)
        expected = theirs.MultipleNegativesRankingLoss(None, **options).compute_loss_from_embeddings(columns, None)
        equal(expected, ours.InfoNCELoss(None, **options).compute_loss_from_embeddings(columns), *columns)
        expected = theirs.MultipleNegativesRankingLoss(None, **options).compute_loss_from_embeddings(columns, None)
        equal(expected, ours.GCELoss(None, q=0.0, **options).compute_loss_from_embeddings(columns), *columns)


def test_pairs_without_options_are_rince_on_cross_view(equal):
    a, b = embeddings()
    for symmetric, directions in ((False, ("query_to_doc",)), (True, ("query_to_doc", "doc_to_query"))):
        plain = rince.RINCE(q=0.5, temperature=0.2, contrast=rince.CrossView(symmetric), scale="unit")(a, b)
        loss = ours.RINCELoss(None, q=0.5, scale=5, directions=directions, partition_mode="per_direction")
        equal(plain, loss.compute_loss_from_embeddings([a, b]), a, b)


def test_hard_negatives_count_for_lam():
    a, b, c = embeddings(hard=1)
    one, two = (ours.RINCELoss(None, lam=lam) for lam in ("balanced", 1 / (2 * len(a))))
    assert one.compute_loss_from_embeddings([a, b, c]).item() == pytest.approx(
        two.compute_loss_from_embeddings([a, b, c]).item(), rel=1e-5
    )


def test_a_weight_per_pair_takes_wrong_pairs_out(equal):
    a, b = embeddings(20)
    loss = ours.RINCELoss(None, weighted=True)
    weights = torch.arange(20) % 3
    each = rince.RINCE(q=0.5, temperature=0.2, contrast=rince.CrossView(False), scale="unit", reduction="none")(a, b)
    equal((each * weights).sum() / weights.sum(), loss.compute_loss_from_embeddings([a, b], weights), a, b)


@pytest.mark.parametrize("make", ("RINCELoss", "GCELoss", "InfoNCELoss"))
@pytest.mark.parametrize("mini_batch", (1, 5, 64))
@pytest.mark.parametrize("hard", (0, 2))
def test_the_cached_loss_has_the_same_value_and_gradient(make, mini_batch, hard, transformer):
    transformer.eval()
    for weights in (None, torch.rand(24)):
        weighted = weights is not None
        plain = getattr(ours, make)(transformer, weighted=weighted)
        cached = getattr(ours, f"Cached{make}")(transformer, mini_batch_size=mini_batch, weighted=weighted)
        true = gradient(transformer, plain, columns(transformer, hard=hard), weights)
        got = gradient(transformer, cached, columns(transformer, hard=hard), weights)
        assert (got - true).norm() <= 1e-5 * true.norm()


def test_the_cached_loss_replays_dropout(transformer):
    transformer.train()
    cached = ours.CachedRINCELoss(transformer, mini_batch_size=24)
    plain = ours.RINCELoss(transformer)
    torch.manual_seed(5)
    got = gradient(transformer, cached, columns(transformer))
    torch.manual_seed(5)
    true = gradient(transformer, plain, columns(transformer))
    assert (got - true).norm() <= 1e-5 * true.norm()


@pytest.mark.parametrize("cached", (False, True))
def test_matryoshka_sums_the_loss_of_shorter_embeddings(cached, transformer):
    transformer.eval()
    loss = ours.CachedRINCELoss(transformer, mini_batch_size=8) if cached else ours.RINCELoss(transformer)
    wrapped = theirs.MatryoshkaLoss(transformer, loss, [16, 4])
    value = wrapped(columns(transformer), None)
    whole = [transformer(c)["sentence_embedding"] for c in columns(transformer)]
    plain = ours.RINCELoss(None)
    expected = sum(plain.compute_loss_from_embeddings([z[:, :d] for z in whole]) for d in (16, 4))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    value.backward()
    assert next(transformer.parameters()).grad is not None


def trainer(model, data, loss, folder, **options):
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, learning_rate=0.05, num_train_epochs=4, use_cpu=True,
        save_strategy="no", logging_steps=1, report_to=[], disable_tqdm=True, batch_sampler="no_duplicates",
        **options.pop("arguments", {}),
    )  # fmt: skip
    return SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss, **options)


def test_the_trainer_trains_schedules_q_and_writes_the_card(static, tmp_path):
    data = Dataset.from_dict({"anchor": sentences(24), "positive": sentences(24, 1), "score": [0.5] * 24})
    loss = ours.RINCELoss(static, q=0.5, weighted=True)
    run = trainer(
        static, data, loss, tmp_path, callbacks=[ours.QScheduleCallback(loss, schedules.linear(0.0, 0.4))],
        arguments={"prompts": {"anchor": "dog "}},
    )  # fmt: skip
    run.train()
    seen = [row["loss"] for row in run.state.log_history if "loss" in row]
    assert seen[-1] < seen[0]
    assert loss.q == pytest.approx(0.4)
    static.save_pretrained(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("RINCELoss", '"lam": "DensityRatio(2.5)"', '"weighted": true', "chuang2022robust"):
        assert part in card, part


def test_weights_before_training_in_three_lines(static, tmp_path):
    """The recipe of docs/trust.md, on texts whose words are the same on both sides."""
    pairs = {"en": sentences(200), "de": [text + " it" for text in sentences(200)]}
    pairs["de"][:60] = pairs["de"][1:60] + pairs["de"][:1]
    data = Dataset.from_dict(pairs)
    weights = rince.estimate_weights(data["en"], data["de"]).weights
    data = data.add_column("score", weights.tolist())
    trainer(static, data, ours.GCELoss(static, weighted=True), tmp_path).train()
    assert weights[:60].mean() < 0.5 < weights[60:].mean()


def test_weights_after_a_warm_up_come_from_the_models_embeddings(static, tmp_path):
    en = sentences(200)
    de = en[1:60] + en[:1] + en[60:]
    data = Dataset.from_dict({"en": en, "de": de, "label": list(range(200))})
    weights = rince.trust.WarmUpWeights(pairs=200, at_step=3)
    loss = ours.GCELoss(static, weighted=weights)
    callbacks = [ours.WarmUpCallback(weights, static, en, de)]
    run = trainer(static, data, loss, tmp_path, callbacks=callbacks)
    assert (weights.weights == 1).all()
    run.train()
    assert weights.estimate is not None and static.training
    assert weights.weights[:60].mean() < 0.5 < weights.weights[60:].mean()
    assert torch.equal(loss.state_dict()["warm_up.weights"], weights.weights)


def test_several_data_sets_take_a_loss_each(static, tmp_path):
    pairs = Dataset.from_dict({"anchor": sentences(16), "positive": sentences(16, 1)})
    triplets = Dataset.from_dict({"anchor": sentences(16), "positive": sentences(16, 1), "negative": sentences(16, 2)})
    every = {"pairs": ours.RINCELoss(static), "triplets": ours.GCELoss(static)}
    callbacks = [ours.QScheduleCallback(every, schedules.constant(0.3))]
    trainer(static, {"pairs": pairs, "triplets": triplets}, every, tmp_path, callbacks=callbacks).train()
    assert {loss.q for loss in every.values()} == {0.3}


def test_settings_and_citations_are_there_for_model_cards(transformer):
    names = ("RINCELoss", "GCELoss", "InfoNCELoss", "CachedRINCELoss", "CachedGCELoss", "CachedInfoNCELoss")
    for name in names:
        loss = getattr(ours, name)(transformer, scale=10)
        settings = loss.get_config_dict()
        assert settings["scale"] == pytest.approx(10) and "@" in loss.citation
        assert ("q" in settings) == ("InfoNCE" not in name)
        assert ("mini_batch_size" in settings) == name.startswith("Cached")
        key = "chuang2022" if "RINCE" in name else "zhang2018" if "GCE" in name else "oord2018"
        assert [k for k in ("chuang2022", "zhang2018", "oord2018") if k in loss.citation] == [key]
        assert ("gao2021" in loss.citation) == name.startswith("Cached")


def test_two_processes_give_the_loss_of_the_joined_batch(tmp_path):
    mp.spawn(worker, (2, str(tmp_path)), nprocs=2)
    g = torch.Generator().manual_seed(0)
    whole = [torch.randn(12, 8, generator=g, dtype=torch.float64) for _ in range(3)]
    for weighted, directions in itertools.product((False, True), DIRECTIONS):
        columns = [z.clone().requires_grad_() for z in whole]
        weights = torch.arange(12) % 4 if weighted else None
        loss = ours.RINCELoss(None, directions=directions[0], partition_mode=directions[1], weighted=weighted)
        value = loss.compute_loss_from_embeddings(columns, weights)
        true = torch.stack(torch.autograd.grad(value, columns))
        found = [torch.load(tmp_path / f"{rank}.pt")[weighted, directions] for rank in range(2)]
        assert sum(f[0] for f in found).item() / 2 == pytest.approx(value.item(), rel=1e-10)
        got = torch.cat([f[1] for f in found], 1) / 2  # what DistributedDataParallel makes of it
        assert (got - true).norm() <= 1e-9 * true.norm()


def test_bad_input_is_named(static, transformer):
    loss = ours.RINCELoss(static)
    with pytest.raises(UsageError, match=r"\(anchor, positive\), got 1"):
        loss(columns(static)[:1])
    with pytest.raises(UsageError, match="takes no labels"):
        loss(columns(static), torch.zeros(24))
    with pytest.raises(UsageError, match="needs a weight per pair"):
        ours.RINCELoss(static, weighted=True)(columns(static))
    with pytest.raises(UsageError, match="one value per pair"):
        ours.RINCELoss(static, weighted=True)(columns(static), torch.zeros(3))
    with pytest.raises(UsageError, match=r"got \(33, 5\), \(33, 8\)"):
        loss.compute_loss_from_embeddings([embeddings()[0], embeddings(width=5)[1]])
    with pytest.raises(UsageError, match="scale or temperature"):
        ours.RINCELoss(static, scale=20, temperature=0.05)
    with pytest.raises(UsageError, match="scale must be positive"):
        ours.GCELoss(static, scale=0)
    with pytest.raises(UsageError, match="cos_sim or dot_score"):
        ours.RINCELoss(static, similarity_fct=util.euclidean_sim)
    with pytest.raises(UsageError, match="directions must contain 'query_to_doc'"):
        ours.RINCELoss(static, directions="doc_to_query")
    with pytest.raises(UsageError, match=r"directions .* got 'doc_to_que'"):
        ours.RINCELoss(static, directions=("query_to_doc", "doc_to_que"))
    with pytest.raises(UsageError, match="'per_direction' needs the positive pair"):
        ours.RINCELoss(static, directions=("query_to_doc", "doc_to_doc"), partition_mode="per_direction")
    with pytest.raises(UsageError, match="use RINCELoss"):
        ours.CachedRINCELoss(static)
    with pytest.raises(UsageError, match="mini_batch_size must be at least 1, got 0"):
        ours.CachedRINCELoss(transformer, mini_batch_size=0)
    with pytest.raises(UsageError, match="InfoNCELoss has no q to change"):
        ours.QScheduleCallback(ours.InfoNCELoss(static), schedules.constant(0.1))
