import json

import numpy as np
import pytest

from rince.audit import Shard, audit_pairs, audit_shards, group_rates
from rince.audit import scores as scoring
from rince.audit.fit.towers import FitConfig
from rince.audit.shards.run import part_name
from rince.errors import UsageError
from rince.noise import wrong_pairs
from support.paired_embeddings import embeddings

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def few_mismatched_pairs(monkeypatch):
    monkeypatch.setattr("rince.audit.null.NULL_SIZE", 40_000)
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 12_000)


class Rows(Shard):
    """Some rows of matrices in memory, in small blocks."""

    def __init__(self, a, b, ids=None, duplicates=None, groups=None):
        self.a, self.b, self.given = a, b, {"ids": ids, "duplicates": duplicates, "groups": groups}

    @property
    def rows(self):
        return len(self.a)

    def blocks(self):
        for start in range(0, len(self.a), 77):
            yield self.a[start : start + 77], self.b[start : start + 77]

    def ids(self):
        return self.given["ids"]

    def duplicates(self):
        return self.given["duplicates"]

    def groups(self):
        return self.given["groups"]


def divided(cuts, *columns, **given):
    parts = [np.split(column, cuts) for column in columns]
    more = {name: np.split(np.asarray(values, dtype=object), cuts) for name, values in given.items()}
    return [
        Rows(a, b, **{name: values[k] for name, values in more.items()})
        for k, (a, b) in enumerate(zip(*parts, strict=True))
    ]


def table_of(folder):
    return parquet.read_table(folder / "audit.parquet")


@pytest.mark.parametrize("cuts", [[], [1000], [0, 5, 5, 700, 2999, 3000]], ids=str)
def test_however_the_pairs_are_divided_the_audit_is_the_same(cuts, tmp_path):
    a, b, _ = embeddings(noise=1.0)
    ids = np.arange(3000) // 2
    whole = audit_pairs(a, b, ids=ids, duplicates=np.arange(3000) % 1000)
    given = {"ids": ids, "duplicates": np.arange(3000) % 1000}
    found = audit_shards(divided(cuts, a, b, **given), out=tmp_path / "out")
    assert found.noise_rate == whole.noise_rate and found.interval == whole.interval
    assert found.verdict == whole.verdict and found.auroc == whole.auroc
    assert np.array_equal(found.null, whole.null) and found.judged_pairs == 3000
    table = table_of(tmp_path / "out")
    assert np.array_equal(table["score"].to_numpy(), whole.scores)
    assert np.array_equal(table["p_wrong"].to_numpy(), whole.p_wrong)
    assert set(np.flatnonzero(table["flagged"].to_numpy())) == set(whole.flag(0.1))
    assert table["id"].to_pylist() == ids.tolist()
    assert found.flagged == len(whole.flag(0.1)) and found.flagged_pairs(0.3) == len(whole.flag(0.3))
    assert [line for line in found.summary().splitlines() if "Checked on a sample" not in line] == [
        line for line in whole.summary().splitlines() if "have an item with other partners" not in line
    ]


def test_the_numbers_of_wrong_pairs_are_right():
    a, b, wrong = embeddings(6000, noise=0.7)
    found = audit_shards(divided([2000, 4000], a, b))
    assert found.interval[0] <= wrong.mean() <= found.interval[1] and abs(found.noise_rate - 0.3) < 0.03


@pytest.mark.parametrize("seed", range(2))
def test_ties_are_flagged_in_the_order_of_the_data(seed, tmp_path):
    """Rows of a few whole numbers: many pairs score exactly alike."""
    random = np.random.default_rng(seed)
    a = random.integers(-1, 2, size=(2000, 6)).astype(np.float32) + 0.25
    b = np.where((random.random(2000) < 0.4)[:, None], random.permutation(a), a)
    whole = audit_pairs(a, b)
    audit_shards(divided([300, 301, 1500], a, b), out=tmp_path)
    flags = table_of(tmp_path)["flagged"].to_numpy()
    assert whole.noise_found and set(np.flatnonzero(flags)) == set(whole.flag(0.1))


def test_rows_that_cannot_be_used_are_named_or_left_out(tmp_path):
    a, b, _ = embeddings(900, noise=1.0)
    a[7], b[650, 2], b[899, 0] = 0, np.nan, np.inf
    with pytest.raises(UsageError, match="a is all zeros in row 7,"):
        audit_shards(divided([300, 600], a, b))
    with pytest.raises(UsageError, match=r"b .* 2 rows \(650, 899\)"):
        audit_shards(divided([300, 600], np.abs(a) + 1, b))
    whole = audit_pairs(a, b, skip_invalid=True, ids=[None] * 900)
    found = audit_shards(divided([300, 600], a, b, ids=[None] * 900), skip_invalid=True, out=tmp_path)
    assert found.dropped == 3 and found.pairs == 897 and found.noise_rate == whole.noise_rate
    scores = table_of(tmp_path)["score"].to_pylist()
    assert [row for row, score in enumerate(scores) if score is None] == [7, 650, 899]
    assert json.loads((tmp_path / "audit.json").read_text())["dropped"] == 3


def test_placeholders_are_left_out_as_in_memory(tmp_path):
    a, b, _ = embeddings(noise=1.0)
    b[np.arange(0, 3000, 8)] = 1.0  # failed downloads
    b[5, 2] = np.nan
    whole = audit_pairs(a, b, skip_invalid=True)
    found = audit_shards(divided([1000, 1001, 2999], a, b), skip_invalid=True, out=tmp_path)
    assert found.issues["placeholder"].count == 375 and found.issues["placeholder"].examples.tolist()[:2] == [0, 8]
    assert found.pairs == 2624 and found.dropped == 376
    assert found.noise_rate == whole.noise_rate and found.interval == whole.interval
    assert found.fingerprint == whole.fingerprint
    assert "375 pairs have a placeholder" in found.summary()
    scores = table_of(tmp_path)["score"].to_numpy()
    assert np.array_equal(scores, whole.scores, equal_nan=True)
    kept = audit_shards(divided([1000], a, b), skip_invalid=True, checks=None)
    assert kept.pairs == 2999 and "placeholders" in kept.conditions[-1]


def test_columns_that_give_the_pairing_away_are_left_out_as_in_memory():
    random = np.random.default_rng(0)
    row = random.permutation(2000).astype(np.float32)[:, None]
    a, b = (np.hstack([random.normal(size=(2000, 8)).astype(np.float32), row]) for _ in "ab")
    whole, found = audit_pairs(a, b, fit=True), audit_shards(divided([300, 900], a, b), fit=True)
    assert found.verdict == whole.verdict and found.interval == whole.interval
    assert found.issues["leak"].claimed and found.fingerprint == whole.fingerprint
    assert audit_shards(divided([300], a, b), fit=True, checks=None).best_guess < 0.5 < found.best_guess


def test_rows_of_a_series_count_as_fewer_pairs():
    random = np.random.default_rng(0)
    z = np.cumsum(random.normal(size=(4000, 6)), axis=0)
    z = (z - z.mean(0)) / z.std(0) + 0.05 * random.normal(size=z.shape)
    parts = divided([1000, 3000], z, z + 0.1 * random.normal(size=z.shape))
    found = audit_shards(parts)
    assert found.issues["order"].claimed and found.units < 2000
    assert audit_shards(parts, checks=["placeholder"]).units == 4000


def test_duplicates_and_shifted_rows_are_found_with_their_row_numbers(tmp_path):
    a, b, _ = embeddings(noise=0.7)
    a, b = np.concatenate([a[:30], a]), np.concatenate([b[:30], b])
    b[1500:2500] = np.roll(b[1500:2500], 2, axis=0)
    a[3], b[2900] = np.nan, np.nan
    parts = divided([200, 250], a, b)
    found = audit_shards(parts, skip_invalid=True, out=tmp_path)
    assert found.issues["duplicate"].count == 58, "30 pairs twice, less the one that is invalid and its copy"
    (stretch,) = found.issues["shifted"].details["stretches"]
    assert abs(stretch["first"] - 1502) < 10 and abs(stretch["last"] - 2499) < 10 and stretch["offset"] == 2
    assert found.issues["shifted"].examples.min() >= 1500
    whole = audit_pairs(a, b, skip_invalid=True).issues["shifted"]
    assert whole.details["stretches"] == found.issues["shifted"].details["stretches"]
    text = "\n".join(found.conditions)
    assert "shifted stretches of rows" in text and "Not checked" not in text
    assert "give the pairing away" not in text, "columns are looked at for fitted scorers only"
    assert set(audit_shards(parts, skip_invalid=True, checks=None).issues) == set()


def test_groups_that_the_encoder_cannot_read_are_named():
    random = np.random.default_rng(0)
    a, b, _ = embeddings(2000, width=32, rate=0.0)
    for k, x in enumerate((a, b)):
        x[:200] = 2 * np.eye(32)[k] + 0.8 * random.normal(size=(200, 32))
    found = audit_shards(divided([500, 1500], a, b))
    assert found.issues["group"].claimed and "(of a sample of" in found.summary()


def test_classes_are_seen_through_partitions_too():
    random = np.random.default_rng(0)
    label = random.integers(0, 3, 3000)
    b = np.eye(3, 8, dtype=np.float32)[label] + 0.01
    said = np.where(random.random(3000) < 0.2, random.integers(0, 3, 3000), label)
    a = (np.eye(3, 8)[said] + 0.4 * random.normal(size=(3000, 8))).astype(np.float32)
    whole, found = audit_pairs(a, b), audit_shards(divided([50, 1000], a, b))
    assert len(whole.null) < 40_000 and found.interval == whole.interval and len(found.null) == len(whole.null)
    assert found.flagged == len(whole.flag(0.1))


def test_rates_by_group_and_a_page_of_the_most_suspicious(tmp_path, monkeypatch):
    monkeypatch.setattr("rince.audit.shards.run.MAX_ROWS", 500)
    a, b, _ = embeddings(2000, noise=1.0)
    source = np.where(np.arange(2000) % 3 == 0, "crawler", "books")
    ids = [f"pair {i}" for i in range(2000)]
    found = audit_shards(divided([700, 1300], a, b, ids=ids, groups=source), out=tmp_path)
    whole = audit_pairs(a, b, ids=ids)
    assert [one._replace(behind=0) for one in found.groups] == [
        one._replace(behind=0) for one in group_rates(whole, source)
    ]
    page = (tmp_path / "audit.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])["audit"]
    lowest = np.argsort(whole.scores, kind="stable")[: len(data["rows"]["row"])]
    assert data["rows"]["row"] == lowest.tolist() and 450 < len(lowest) <= 500 and data["cut"] == 2000 - len(lowest)
    assert data["rows"]["id"][0] == ids[lowest[0]] and data["stops"][data["start"]]["count"] == found.flagged
    assert np.isclose(sum(data["histogram"]["shares"][0]), 1, atol=1e-4) and len(data["groups"]) == 2


def test_towers_that_learn_from_a_sample_judge_the_rest(monkeypatch, tmp_path):
    """Pairs outside of the sample are judged as those in it, however they are divided; copies by the same towers."""
    monkeypatch.setitem(scoring.SAMPLE_PAIRS, "towers", 1200)
    random = np.random.default_rng(0)
    hidden = random.normal(size=(3000, 6))
    a = np.tanh(hidden @ random.normal(size=(6, 12))).astype(np.float32)
    b = (hidden @ random.normal(size=(6, 9))).astype(np.float32)
    partner, wrong = wrong_pairs(3000, 0.3, 0)
    recipe = FitConfig(folds=3, members=1, width=64, dim=16, steps=60)
    whole = audit_pairs(a, b[partner], fit=True, scorer="towers", config=recipe)
    found = audit_shards(divided([1, 1700], a, b[partner]), fit=True, scorer="towers", config=recipe, out=tmp_path)
    assert abs(whole.noise_rate - 0.3) < 0.05 and found.noise_rate == pytest.approx(whole.noise_rate, abs=1e-3)
    assert np.allclose(table_of(tmp_path)["score"].to_numpy(), whole.scores, atol=1e-3)
    rows = scoring.sample_rows(3000, (12, 9), 0, "towers")
    inside = np.isin(np.arange(3000), rows)
    for part in (inside, ~inside):
        assert abs(whole.p_wrong[part].mean() - wrong[part].mean()) < 0.04


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda parts: [], "at least one shard, got none"),
        (lambda parts: parts[:1], "at least 50 pairs, got 20"),
        (lambda parts: [*parts, Rows(np.ones((5, 3)), np.ones((5, 3)))], "Shard 2 is 3 and 3 wide"),
        (lambda parts: [Rows(parts[0].a, parts[0].b[:-1]), parts[1]], "blocks of"),
        (lambda parts: [Rows(parts[0].a, parts[0].b, ids=[1]), parts[1]], "ids must have one value per pair"),
    ],
)
def test_partitions_that_do_not_fit_together_are_one_clear_error(change, message):
    a, b, _ = embeddings(300, noise=1.0)
    with pytest.raises(UsageError, match=message):
        audit_shards(change(divided([20], a, b)))


def test_a_partition_must_have_the_rows_that_it_announced():
    a, b, _ = embeddings(300, noise=1.0)

    class Wrong(Rows):
        rows = 299

    with pytest.raises(UsageError, match="more rows than the declared 299"):
        audit_shards([Wrong(a, b)])


def test_earlier_results_go_by_force_only_and_old_partitions_with_them(tmp_path):
    a, b, _ = embeddings(300, noise=1.0)
    audit_shards(divided([50, 100], a, b), out=tmp_path)
    with pytest.raises(FileExistsError, match="already exists"):
        audit_shards(divided([50], a, b), out=tmp_path)
    audit_shards(divided([50], a, b), out=tmp_path, force=True)
    assert sorted(file.name for file in (tmp_path / "audit.parquet").iterdir()) == [part_name(0), part_name(1)]
    audit_pairs(a, b).save(tmp_path / "single", table="parquet")
    audit_shards(divided([50], a, b), out=tmp_path / "single", force=True)
    assert (tmp_path / "single" / "audit.parquet").is_dir()
    audit_pairs(a, b).save(tmp_path / "single", table="parquet", force=True)
    assert (tmp_path / "single" / "audit.parquet").is_file()


def test_results_can_go_to_any_file_system(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    a, b, _ = embeddings(300, noise=1.0)
    found = audit_shards(divided([100], a, b), out="memory://bucket/audit")
    files = fsspec.filesystem("memory")
    assert json.loads(files.cat("/bucket/audit/audit.json"))["noise_rate"] == found.noise_rate
    with files.open("/bucket/audit/audit.parquet/" + part_name(1)) as file:
        assert len(parquet.read_table(file)) == 200
