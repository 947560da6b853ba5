import numpy as np
import pytest

from rince.audit import audit_pairs, audit_table
from rince.errors import UsageError
from rince.noise import wrong_pairs
from support import alike_texts

arrow = pytest.importorskip("pyarrow")


@pytest.fixture
def columns(tmp_path, monkeypatch):
    """Texts that repeat the words of their partners, a fifth of them mispaired, and an encoder that counts words."""
    (tmp_path / "word_bags.py").write_text(alike_texts.ENCODER)
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    first, second = alike_texts.pairs(400, random)
    partner, wrong = wrong_pairs(400, 0.2, 0)
    return {
        "question": first,
        "answer": [second[k] for k in partner],
        "e": [list(map(float, row)) for row in random.normal(size=(400, 4))],
        "x": random.normal(size=400).tolist(),
        "id": [f"pair {k}" for k in range(400)],
    }, wrong


def forms(columns, tmp_path):
    yield "arrow", arrow.table(columns)
    arrow.parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    yield "parquet", str(tmp_path / "t.parquet")
    yield "batch", arrow.table(columns).to_batches()[0]
    for name in ("pandas", "polars", "datasets"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        make = module.Dataset.from_dict if name == "datasets" else module.DataFrame
        yield name, make(columns)


def test_tables_of_every_kind_give_the_same_audit(columns, tmp_path):
    pytest.importorskip("pyarrow.parquet")
    data, wrong = columns
    scores = []
    for name, table in forms(data, tmp_path):
        found = audit_table(table, "question", "answer", encoder="word_bags:bag", ids="id")
        assert found.noise_found and abs(found.noise_rate - 0.2) < 0.06, name
        assert set(found.flag()) <= set(np.flatnonzero(wrong)) | set(found.flag()[-12:])
        scores.append(found.scores)
    assert len(scores) >= 3 and all((one == scores[0]).all() for one in scores)
    assert "A: texts encoded with word_bags:bag" in found.remarks


def test_columns_of_numbers_need_no_encoder(columns):
    data, _ = columns
    table = arrow.table(data)
    rows = np.array(data["e"], np.float32)
    found = audit_table(table, "e", ["x"] * 4)
    wanted = audit_pairs(rows, np.repeat(np.array(data["x"], np.float32)[:, None], 4, 1))
    assert (found.scores == wanted.scores).all()


def test_wrong_names_are_one_sentence(columns):
    table = arrow.table(columns[0])
    with pytest.raises(UsageError, match="reply; it has question, answer"):
        audit_table(table, "question", "reply")
    with pytest.raises(UsageError, match="no column name"):
        audit_table(table, "question", "answer", encoder="word_bags:bag", groups="name")
    with pytest.raises(UsageError, match="leave out ngrams"):
        audit_table(table, "e", ["x"] * 4, encoder="ngrams")
    with pytest.raises(UsageError, match="no column name"):
        audit_table(table, "question", "answer", encoder="word_bags:bag", ids="name")
    with pytest.raises(TypeError, match="datasets, got dict"):
        audit_table(columns[0], "question", "answer")


def test_built_in_encoders_need_no_word_about_training(columns):
    pytest.importorskip("sklearn")
    table = arrow.table(columns[0])
    found = audit_table(table, "question", "answer", fit=False, groups="id")
    assert not found.conditions
    assert audit_table(table, "question", "answer", encoder="word_bags:bag").conditions
