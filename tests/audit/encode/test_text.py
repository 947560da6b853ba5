import numpy as np
import pytest

from rince.audit.encode.text import NGrams, SentenceModel
from rince.errors import UsageError

WORDS = [
    "dog",
    "cat",
    "red",
    "blue",
    "runs",
    "sleeps",
    "house",
    "street",
    "small",
    "large",
    "man",
    "woman",
    "ball",
    "car",
]


def sentences(n=300, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 6)) for _ in range(n)]


def test_texts_that_share_words_lie_close_and_batches_do_not_matter():
    pytest.importorskip("sklearn")
    encoder = NGrams(width=32)
    texts = sentences()
    encoder.learn(texts)
    rows = encoder.encode(texts)
    assert rows.shape == (300, 32) and rows.dtype == np.float32
    assert np.allclose(rows[100:110], encoder.encode(texts[100:110]), atol=1e-5)
    one, same, other, empty = encoder.encode(["small red dog", "red dog, small!", "large blue car", ""])
    cosine = lambda x, y: x @ y / np.linalg.norm(x) / np.linalg.norm(y)  # noqa: E731
    assert cosine(one, same) > 0.8 > 0.4 > cosine(one, other)
    assert not empty.any()


def test_the_same_texts_give_the_same_rows():
    pytest.importorskip("sklearn")
    first, second = NGrams(width=16), NGrams(width=16)
    for encoder in (first, second):
        encoder.learn(sentences())
    assert (first.encode(sentences(20)) == second.encode(sentences(20))).all()


def test_texts_without_words_are_too_few():
    pytest.importorskip("sklearn")
    with pytest.raises(UsageError, match="60 texts with 0 n-grams are too few"):
        NGrams().learn([""] * 60)


def test_a_folder_of_sentence_transformers(tmp_path):
    models = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as parts

    tokenizer = Tokenizer(parts.WordLevel({word: k for k, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    models.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu").save(
        str(tmp_path / "m")
    )
    encoder = SentenceModel(str(tmp_path / "m"))
    rows = encoder.encode(["red dog", "dog red", "large car"])
    assert rows.shape == (3, 8) and np.allclose(rows[0], rows[1], atol=1e-6) and encoder.comparable
    with pytest.raises(UsageError, match="there is no encoder"):
        SentenceModel(str(tmp_path / "nowhere")).encode(["a"])
