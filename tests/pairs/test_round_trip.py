"""Audit and clean in every format: the right pairs are kept, everything else is unchanged, local and at a URL."""

import io
import json
import re
import sys
import tarfile

import numpy as np
import pytest
import torch

from rince import cli
from rince.audit import audit_pairs, audit_shards, audit_table, file_shards
from rince.noise.pairs import wrong_pairs
from rince.pairs.columns import matrix, values
from rince.pairs.files import file_system, location, opened, written
from rince.pairs.layouts import pair_files
from rince.pairs.source import source
from rince.trust import clean_table

arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec")

N = 420
random = np.random.default_rng(0)
Z = random.normal(size=(N, 16)).astype(np.float32)
PARTNER, WRONG = wrong_pairs(N, 0.3, 0)
A = (Z + 0.2 * random.normal(size=Z.shape)).astype(np.float32)
B = (Z + 0.2 * random.normal(size=Z.shape)).astype(np.float32)[PARTNER]
IDS = [f"{k:032x}" for k in random.permutation(N)]
NOTES = [f'said "{k}", twice' for k in range(N)]
KEPT = np.setdiff1d(np.arange(N), audit_pairs(A, B).flag(0.1))


def put(path, content):
    with written(path) as file:
        file.write(content)


def get(path):
    with opened(path) as file:
        return file.read()


def saved(save, *arguments, **options):
    file = io.BytesIO()
    save(file, *arguments, **options)
    return file.getvalue()


def npy(rows):
    return {"a.npy": saved(np.save, A[rows])}, {"b.npy": saved(np.save, B[rows])}


def npz(rows):
    return ({"x.npz": saved(np.savez, a=A[rows], b=B[rows], note=np.array(NOTES)[rows], other=np.eye(3))},)


def safetensors(rows):
    from safetensors.torch import save

    return ({"x.safetensors": save({"a": torch.from_numpy(A[rows]), "b": torch.from_numpy(B[rows])})},)


def pt(rows):
    return ({"x.pt": saved(lambda f, x: torch.save(x, f), {"a": torch.tensor(A[rows]), "b": torch.tensor(B[rows])})},)


def table(rows):
    return arrow.table({"a": A[rows].tolist(), "b": B[rows].tolist(), "note": [NOTES[k] for k in rows]})


def parquets(rows):
    return ({"x.parquet": saved(lambda f, t: parquet.write_table(t, f, row_group_size=25), table(rows))},)


def feather(rows):
    return ({"x.feather": saved(ipc, arrow.ipc.new_file, table(rows))},)


def stream(rows):
    return ({"x.arrow": saved(ipc, arrow.ipc.new_stream, table(rows))},)


def ipc(file, new, content):
    with new(file, content.schema) as writer:
        writer.write_table(content)


def csv(rows, mark=","):
    head = mark.join([*(f"a{k}" for k in range(16)), *(f"b{k}" for k in range(16)), "note"])
    lines = [mark.join([*map(repr, map(float, [*A[k], *B[k]])), '"' + NOTES[k].replace('"', '""') + '"']) for k in rows]
    return "\r\n".join([head, *lines, ""]).encode()


def jsonl(rows):
    lines = [json.dumps({"x": {"a": A[k].tolist()}, "b": B[k].tolist(), "note": NOTES[k]}) + "\n" for k in rows]
    return "".join(lines).encode()


def tar(rows):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for k in rows:
            contents = {"a.npy": saved(np.save, A[k]), "b.npy": saved(np.save, B[k]), "txt": NOTES[k].encode()}
            for field, content in contents.items():
                entry = tarfile.TarInfo(f"folder/{IDS[k]}.{field}")
                entry.size, entry.mtime = len(content), 7
                archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


FORMATS = {  # name: (files of some rows, field of A, field of B)
    "npy": (npy, "", ""),
    "npz": (npz, ":a", ":b"),
    "safetensors": (safetensors, ":a", ":b"),
    "pt": (pt, ":a", ":b"),
    "parquet": (parquets, ":a", ":b"),
    "feather": (feather, ":a", ":b"),
    "arrow": (stream, ":a", ":b"),
    "csv": (lambda rows: ({"x.csv": csv(rows)},), ":a?,a1?", ":b?,b1?"),
    "csv.gz": (lambda rows: ({"x.csv.gz": csv(rows)},), ":a?,a1?", ":b?,b1?"),
    "csv with semicolons": (lambda rows: ({"x.csv": csv(rows, ";")},), ":a?,a1?", ":b?,b1?"),
    "tsv": (lambda rows: ({"x.tsv": csv(rows, "\t")},), ":a?,a1?", ":b?,b1?"),
    "jsonl": (lambda rows: ({"x.jsonl": jsonl(rows)},), ":x.a", ":b"),
    "ndjson": (lambda rows: ({"x.ndjson": jsonl(rows)},), ":x.a", ":b"),
    "jsonl.gz": (lambda rows: ({"x.jsonl.gz": jsonl(rows)},), ":x.a", ":b"),
    "csv.zst": (lambda rows: ({"x.csv.zst": csv(rows)},), ":a?,a1?", ":b?,b1?"),
    "jsonl.zst": (lambda rows: ({"x.jsonl.zst": jsonl(rows)},), ":x.a", ":b"),
    "tar": (lambda rows: ({"x.tar": tar(rows)},), ":a.npy", ":b.npy"),
}


def contents(name, content):
    """What a file holds, without what a writer may choose, such as row groups."""
    if name.endswith(".parquet"):
        return parquet.read_table(io.BytesIO(content)).to_pylist()
    if name.endswith(".feather"):
        return arrow.ipc.open_file(io.BytesIO(content)).read_all().to_pylist()
    if name.endswith(".arrow"):
        return arrow.ipc.open_stream(io.BytesIO(content)).read_all().to_pylist()
    if name.endswith((".npz", ".npy")):
        found = np.load(io.BytesIO(content))
        return found.tolist() if isinstance(found, np.ndarray) else {k: found[k].tolist() for k in found.files}
    if name.endswith(".pt"):
        return {k: v.tolist() for k, v in torch.load(io.BytesIO(content)).items()}
    if name.endswith(".safetensors"):
        from safetensors.torch import load

        return {k: v.tolist() for k, v in load(content).items()}
    if name.endswith(".tar"):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            return [(m.name, m.mtime, m.mode, archive.extractfile(m).read()) for m in archive]
    return content


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "local":
        yield tmp_path / "data"
        return
    file_system("memory://data")[0].makedirs("/data", exist_ok=True)
    yield source_path("memory://data")
    files, name = file_system("memory://data")
    files.rm(name, recursive=True)
    files, name = file_system("memory://clean")
    if files.exists(name):
        files.rm(name, recursive=True)


def source_path(text):
    from pathlib import Path

    return Path(text)


def make(root, build, shards):
    """Files in one or several shards; the names that they go by, and the rows of each shard."""
    parts = [part.tolist() for part in np.array_split(np.arange(N), shards)]
    names = []
    for number, rows in enumerate(parts):
        names = []
        for files in build(rows):
            for name, content in files.items():
                put(root / (f"{number}-{name}" if shards > 1 else name), content)
                names.append(f"*-{name}" if shards > 1 else name)
    return names, parts


@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize("name", FORMATS)
def test_wrong_pairs_are_dropped_and_all_else_is_unchanged(name, shards, root):
    build, field_a, field_b = FORMATS[name]
    names, parts = make(root, build, shards)
    a, b = f"{location(root / names[0])}{field_a}", f"{location(root / names[-1])}{field_b}"
    assert cli.main(["audit", a, b, "--out", "audit"]) == 0
    out = "memory://clean" if "memory:" in str(root) else "clean"
    assert cli.main(["clean", a, b, "--audit", "audit", "--out", out]) == 0
    for number, rows in enumerate(parts):
        expected = [row for row in rows if row in set(KEPT.tolist())]
        for files in build(expected):
            for file, content in files.items():
                target = source_path(out) / (f"{number}-{file}" if shards > 1 else file)
                assert contents(file, get(target)) == contents(file, content)
    rows = get(source_path(out) / "decisions.csv").decode().splitlines()
    assert len(rows) == N + 1 and sum(row.endswith(",1") for row in rows) == len(KEPT)


@pytest.mark.parametrize("name", FORMATS)
def test_audit_of_shards_flags_the_same_pairs(name, tmp_path):
    build, field_a, field_b = FORMATS[name]
    names, _ = make(tmp_path, build, 7)
    shards = file_shards(f"{tmp_path / names[0]}{field_a}", f"{tmp_path / names[-1]}{field_b}")
    assert len(shards) == 7
    audit_shards(shards, checks=(), out=tmp_path / "audit")
    flagged = values(source(f"{tmp_path}/audit/audit.parquet:flagged")).astype(bool)
    assert np.flatnonzero(~flagged).tolist() == KEPT.tolist()


WEIGHTED = {  # weights of the first shard
    "npy": lambda folder: np.load(folder / "weights.npy"),
    "npz": lambda folder: np.load(folder / "x.npz")["weight"],
    "safetensors": lambda folder: values(source(f"{folder}/x.safetensors:weight")),
    "pt": lambda folder: values(source(f"{folder}/x.pt:weight")),
    "parquet": lambda folder: values(source(f"{folder}/x.parquet:weight")),
    "arrow": lambda folder: values(source(f"{folder}/x.arrow:weight")),
    "csv with semicolons": lambda folder: values(source(f"{folder}/x.csv:weight")).astype(float),
    "tsv": lambda folder: values(source(f"{folder}/x.tsv:weight")).astype(float),
    "jsonl.gz": lambda folder: values(source(f"{folder}/x.jsonl.gz:weight")),
    "tar": lambda folder: values(source(f"{folder}/x.tar:weight.json")),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_are_a_field_of_all_pairs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build, field_a, field_b = FORMATS[name]
    names, _ = make(tmp_path, build, 1)
    result = audit_pairs(A, B)
    result.save("audit")
    arguments = ["clean", names[0] + field_a, names[-1] + field_b, "--audit", "audit", "--weights"]
    assert cli.main(arguments) == 0
    found = np.asarray([float(one) for one in WEIGHTED[name](tmp_path / "clean")])
    assert found == pytest.approx(result.weights, abs=1e-5)


TEXTS = [f"word{k} word{k + 1} word{k % 19} word{k % 23} word{k % 29}" for k in range(N)]
OTHERS = [TEXTS[k].replace("word", "wort") for k in PARTNER]


def tmx(rows):
    units = [
        f'  <tu tuid="{k}"><note>x &lt; y</note>\n    <tuv xml:lang="en"><seg>{TEXTS[k]}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{OTHERS[k]}</seg></tuv>\n  </tu>\n'
        for k in rows
    ]
    head = '<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="en"/><body>\n'
    return (head + "".join(units) + "</body></tmx>\n").encode()


def captions(rows):
    """Tars as img2dataset writes them: a text, and another one in the JSON file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for k in rows:
            contents = {"txt": TEXTS[k].encode(), "json": json.dumps({"caption": OTHERS[k], "width": 7}).encode()}
            for field, content in contents.items():
                entry = tarfile.TarInfo(f"{IDS[k]}.{field}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def dropped_rows(decisions):
    return [k for k, line in enumerate(decisions.decode().splitlines()[1:]) if line.endswith(",0")]


RAW = {
    "lines": (
        lambda rows: ({"c.en": lines(TEXTS[k] for k in rows)}, {"c.de.gz": lines(OTHERS[k] for k in rows)}),
        "",
        "",
    ),
    "tmx": (lambda rows: ({"x.tmx": tmx(rows)},), ":en", ":de"),
    "tar": (lambda rows: ({"x.tar": captions(rows)},), ":txt", ":json.caption"),
}


ENCODER = """
import re
import numpy as np
ROWS = np.random.default_rng(0).normal(size=(1000, 32))

def in_texts(texts):
    return np.stack([ROWS[[int(word) for word in re.findall("[0-9]+", text)]].sum(0) for text in texts])
"""


@pytest.mark.parametrize("name", RAW)
def test_raw_texts_round_trip_in_1_and_7_shards(name, root, tmp_path, monkeypatch):
    (tmp_path / "text_numbers.py").write_text(ENCODER)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("text_numbers", None)
    build, field_a, field_b = RAW[name]
    out = "memory://clean" if "memory:" in str(root) else "clean"
    drops = []
    for shards in (1, 7):
        names, parts = make(root / str(shards), build, shards)
        a = f"{location(root / str(shards) / names[0])}{field_a}"
        b = f"{location(root / str(shards) / names[-1])}{field_b}"
        given = [
            "audit",
            a,
            b,
            "--encode",
            "--encoder-a",
            "ngrams",
            "--encoder-b",
            "ngrams",
            "--out",
            "audit",
            "--force",
        ]
        assert cli.main(given) == 0
        assert cli.main(["clean", a, b, "--audit", "audit", "--out", out, "--force"]) == 0
        drops.append(dropped_rows(get(source_path(out) / "decisions.csv")))
        for number, rows in enumerate(parts):
            for files in build([row for row in rows if row not in drops[-1]]):
                for file, content in files.items():
                    target = source_path(out) / (f"{number}-{file}" if shards > 1 else file)
                    assert contents(file, get(target)) == contents(file, content)
    assert drops[0] == drops[1]
    assert WRONG[drops[0]].mean() > 0.8 and len(drops[0]) > 0.3 * WRONG.sum()


@pytest.mark.parametrize("shards", [1, 7])
def test_hugging_face_folder(root, shards, tmp_path):
    datasets = pytest.importorskip("datasets")
    files, name = file_system(root)
    files.makedirs(name, exist_ok=True)
    data = datasets.Dataset.from_dict({"a": A.tolist(), "b": B.tolist(), "note": NOTES})
    data.save_to_disk(str(tmp_path / "set"), num_shards=shards)
    for file in (tmp_path / "set").iterdir():
        put(root / "set" / file.name, file.read_bytes())
    a, b = (f"{location(root / 'set')}:{name}" for name in "ab")
    assert cli.main(["audit", a, b, "--out", "audit"]) == 0
    assert cli.main(["clean", a, b, "--audit", "audit"]) == 0
    assert datasets.load_from_disk("clean/set")["note"][:] == [NOTES[k] for k in KEPT]
    assert cli.main(["clean", a, b, "--audit", "audit", "--weights", "--out", "weighted"]) == 0
    weighted = datasets.load_from_disk("weighted/set")
    assert weighted["note"][:] == NOTES and 0 <= weighted["weight"][0] <= 1


MEDIA = """
import numpy as np
from text_numbers import in_texts

def in_pictures(images):
    return in_texts([" ".join(map(str, np.asarray(image)[0, :5, 0])) for image in images])
"""


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Pictures of five numbers each, whose captions name the numbers; 30 % of the captions are exchanged."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    put(tmp_path / "text_numbers.py", ENCODER.encode())
    put(tmp_path / "photo_numbers.py", MEDIA.encode())
    for name in ("text_numbers", "photo_numbers"):
        sys.modules.pop(name, None)
    numbers = np.random.default_rng(0).integers(0, 256, (200, 8))
    (tmp_path / "photos").mkdir()
    for k, row in enumerate(numbers.astype(np.uint8)):
        image.fromarray(np.broadcast_to(row[None, :, None], (8, 8, 3))).save(tmp_path / "photos" / f"{k:03d}.png")
    partner, wrong = wrong_pairs(200, 0.3, 0)
    encode = ["--encode", "--encoder-a", "photo_numbers:in_pictures", "--encoder-b", "text_numbers:in_texts"]
    return [" ".join(map(str, numbers[k, :5])) for k in partner], wrong, [*encode, "--no-fit"]


@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize("option", ["--link", "--copy"])
def test_media_folder_with_captions(photos, tmp_path, option, shards):
    texts, wrong, encode = photos
    for number, part in enumerate(np.array_split(np.arange(200), shards)):
        put(tmp_path / f"captions{number}.txt", lines(texts[k] for k in part))
    assert cli.main(["audit", "photos", "captions*.txt", "--out", "audit", *encode]) == 0
    assert cli.main(["clean", "photos", "captions*.txt", "--audit", "audit", option]) == 0
    drops = dropped_rows(get(tmp_path / "clean/decisions.csv"))
    assert wrong[drops].mean() > 0.9 and len(drops) > 0.9 * wrong.sum()
    kept = [k for k in range(200) if k not in drops]
    captions = b"".join(get(tmp_path / f"clean/captions{number}.txt") for number in range(shards))
    assert captions == lines(texts[k] for k in kept)
    assert get(tmp_path / "clean/kept_a.txt") == lines(f"{k:03d}.png" for k in kept)
    files = sorted((tmp_path / "clean/photos").iterdir())
    assert [path.name for path in files] == [f"{k:03d}.png" for k in kept]
    assert all(path.is_symlink() == (option == "--link") for path in files)
    assert files[0].read_bytes() == (tmp_path / "photos" / files[0].name).read_bytes()


@pytest.mark.parametrize("how", ["folder", "column"])
def test_media_named_in_a_captions_table(photos, tmp_path, how):
    """Rows in another order than the files: found by their ids, or named in a column."""
    texts, wrong, encode = photos
    order = np.random.default_rng(1).permutation(200).tolist()
    rows = [f'photos/{k:03d}.png,{k:03d},"{texts[k]}",x\r\n' for k in order]
    put(tmp_path / "captions.csv", ("file,name,caption,note\r\n" + "".join(rows)).encode())
    a, ids = ("photos", ["--ids", "name"]) if how == "folder" else ("captions.csv:file", [])
    given = [a, "captions.csv:caption"]
    if how == "folder":
        ids = ["--ids", "captions.csv:name"]
    assert cli.main(["audit", *given, "--out", "audit", *encode, *ids]) == 0
    assert cli.main(["clean", *given, "--audit", "audit", "--copy"]) == 0
    drops = dropped_rows(get(tmp_path / "clean/decisions.csv"))
    assert wrong[[order[row] for row in drops]].mean() > 0.9 and len(drops) > 0.9 * wrong.sum()
    kept = [row for row in range(200) if row not in drops]
    expected = b"file,name,caption,note\r\n" + "".join(rows[row] for row in kept).encode()
    assert get(tmp_path / "clean/captions.csv") == expected
    assert get(tmp_path / "clean/kept_a.txt") == lines(
        f"{'' if how == 'folder' else 'photos/'}{order[row]:03d}.png" for row in kept
    )
    assert len(list((tmp_path / "clean").rglob("*.png"))) == len(kept)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow", "datasets"])
def test_table_in_memory_keeps_its_type(package):
    library = pytest.importorskip(package)
    columns = {"a": A.tolist(), "b": B.tolist(), "note": NOTES}
    make_table = {
        "pandas": lambda: library.DataFrame(columns),
        "polars": lambda: library.DataFrame(columns),
        "pyarrow": lambda: library.table(columns),
        "datasets": lambda: library.Dataset.from_dict(columns),
    }
    data = make_table[package]()
    clean = clean_table(data, audit_table(data, "a", "b"))
    assert type(clean) is type(data)
    notes = clean["note"].to_pylist() if package == "pyarrow" else list(clean["note"])
    assert notes == [NOTES[k] for k in KEPT]
    with pytest.raises(ValueError, match="420 rows and the audit 3"):
        clean_table(data, np.ones(3, dtype=bool))


def test_workers_write_the_same_files(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    names, _ = make(tmp_path / "data", npy, 7)
    a, b = (str(tmp_path / "data" / name) for name in names)
    assert cli.main(["audit", a, b, "--out", "audit"]) == 0
    assert cli.main(["clean", a, b, "--audit", "audit"]) == 0
    assert cli.main(["clean", a, b, "--audit", "audit", "--workers", "2", "--out", "other"]) == 0
    files = sorted(path.name for path in (tmp_path / "clean").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "other").iterdir())
    assert all(get(tmp_path / "clean" / name) == get(tmp_path / "other" / name) for name in files)


@pytest.mark.parametrize("shards", [1, 7])
def test_clip_retrieval_folder(root, shards):
    for number, rows in enumerate(np.array_split(np.arange(N), shards)):
        put(root / "img_emb" / f"img_emb_{number}.npy", saved(np.save, A[rows]))
        put(root / "text_emb" / f"text_emb_{number}.npy", saved(np.save, B[rows]))
        keys = arrow.table({"key": [IDS[k] for k in rows], "caption": [NOTES[k] for k in rows]})
        put(root / "metadata" / f"metadata_{number}.parquet", saved(lambda f, t: parquet.write_table(t, f), keys))
    pairs = pair_files(location(root))
    assert list(values(pairs.ids)) == IDS
    assert cli.main(["audit", location(root), "--out", "audit"]) == 0
    assert cli.main(["clean", location(root), "--audit", "audit"]) == 0
    assert np.array_equal(matrix(source("clean/img_emb/*.npy"), source_path(".")), A[KEPT])
    assert values(source("clean/metadata/*.parquet:key")).tolist() == [IDS[k] for k in KEPT]
    assert cli.main(["clean", location(root), "--audit", "audit", "--ids-only", "--out", "ids"]) == 0
    assert get(source_path("ids/kept_ids.txt")).decode().split() == [IDS[k] for k in KEPT]


@pytest.mark.parametrize("shards", [1, 7])
def test_datacomp_folder_gives_sorted_uids(root, shards):
    for number, rows in enumerate(np.array_split(np.arange(N), shards)):
        put(root / f"{number}.npz", saved(np.savez, l14_img=A[rows], l14_txt=B[rows]))
        uids = arrow.table({"uid": [IDS[k] for k in rows]})
        put(root / f"{number}.parquet", saved(lambda f, t: parquet.write_table(t, f), uids))
    assert cli.main(["audit", location(root), "--out", "audit"]) == 0
    assert cli.main(["clean", location(root), "--audit", "audit"]) == 0
    found = np.load("clean/kept_uids.npy")
    expected = sorted(IDS[k] for k in KEPT)
    assert found.dtype == np.dtype("u8,u8") and [f"{int(x):016x}{int(y):016x}" for x, y in found] == expected


def bad_tar(*names):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bad_tar("../x.txt"), "leads outside"),
        (bad_tar("1.txt", "2.txt", "1.jpg"), "'1' twice"),
        (bad_tar(), "no samples"),
        (bad_tar("0.txt", "1.jpg"), "no .txt for the sample '1'"),
        (tar(range(3))[:1500], "cut off"),
        (b"nothing", "not a whole tar"),
    ],
)
def test_damaged_tar_is_one_sentence_that_names_the_shard(tmp_path, content, message):
    put(tmp_path / "bad.tar", content)
    with pytest.raises(ValueError, match=r"bad\.tar") as error:
        list(values(source(f"{tmp_path}/bad.tar:txt")))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (saved(np.save, B[:210, :5]), r"1\.npy has rows of 5 numbers"),
        (saved(np.save, B[:0]), r"1\.npy, the file of B in its place, 0"),
        (saved(np.save, B[:200]), r"1\.npy, the file of B in its place, 200"),
        (saved(np.save, B[:210])[:900], r"1\.npy is cut off"),
        (b"nothing", r"1\.npy cannot be read"),
    ],
    ids=["width", "empty", "short", "cut", "damaged"],
)
def test_broken_shard_is_one_sentence_that_names_it(tmp_path, monkeypatch, capsys, broken, message):
    monkeypatch.chdir(tmp_path)
    for number, rows in enumerate(np.split(np.arange(N), 2)):
        put(tmp_path / "a" / f"{number}.npy", saved(np.save, A[rows]))
        put(tmp_path / "b" / f"{number}.npy", saved(np.save, B[rows]) if number == 0 else broken)
    assert cli.main(["audit", "a/*.npy", "b/*.npy"]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


SHARDS = {  # a whole shard, a broken one, columns, and what is said of it
    "lines": (lines(TEXTS[:210]), lines(TEXTS[:200]), ("", ""), r"1-x\.txt.* 200"),
    "csv": (b"a,b\n" + b"x,y\n" * 210, b"a,c\n" + b"x,y\n" * 210, (":a", ":b"), r"1-x\.csv has other columns.* a, c"),
    "cells": (b"a,b\n" + b"x,y\n" * 210, b"a,b\n" + b"x\n" * 210, (":a", ":b"), r"1-x\.csv has 1 cell .* line 2"),
    "jsonl": (
        b'{"a": "x", "b": "y"}\n' * 210,
        b'{"a"\n' * 210,
        (":a", ":b"),
        r"1-x\.jsonl has no JSON object in line 1",
    ),
    "parquet": (parquets(range(210))[0]["x.parquet"], b"PAR1" * 9, (":a", ":b"), r"1-x\.parquet cannot be read"),
    "tar": (
        captions(range(210)),
        captions(range(200)),
        (":txt", ":json.caption"),
        r"1-x\.tar holds the sample .* again",
    ),
}


@pytest.mark.parametrize("name", SHARDS)
def test_broken_shard_of_raw_items_is_one_sentence_that_names_it(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole, broken, (a, b), message = SHARDS[name]
    ending = {"lines": "txt", "cells": "csv"}.get(name, name)
    for number in range(2):
        put(tmp_path / "a" / f"{number}-x.{ending}", whole if number == 0 or name == "lines" else broken)
        put(tmp_path / "b" / f"{number}-x.{ending}", whole if number == 0 else broken)
    sides = [f"a/*.{ending}{a}", f"b/*.{ending}{b}" if name == "lines" else f"a/*.{ending}{b}"]
    assert cli.main(["audit", *sides, "--encode"]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


def renamed(rows, **names):
    return arrow.table({name: table(rows)[column] for name, column in names.items()})


def parquet_of(content):
    return saved(lambda f, t: parquet.write_table(t, f), content)


def cut(rows):
    return arrow.table({"a": A[rows].tolist(), "b": B[rows, :5].tolist()})


HALF = np.arange(210)
NUMBERS = {  # ending: (columns, {damage: (content of the second shard, what is said)})
    "parquet": (
        (":a", ":b"),
        {
            "width": (parquet_of(cut(HALF)), r"1-x\.parquet .*5 numbers"),
            "column": (parquet_of(renamed(HALF, a="a", c="b")), r"1-x\.parquet has no column b"),
            "kind": (parquet_of(renamed(HALF, a="a", b="note")), r"1-x\.parquet has string in column b"),
        },
    ),
    "arrow": ((":a", ":b"), {"cut": (stream(HALF)[0]["x.arrow"][:9000], r"1-x\.arrow")}),
    "jsonl": (
        (":x.a", ":b"),
        {"width": (b'{"x": {"a": [1, 2]}, "b": [3]}\n' * 210, r"1-x\.jsonl has rows of 2 numbers")},
    ),
    "npz": (
        (":a", ":b"),
        {
            "missing": (saved(np.savez, a=A[HALF]), r"1-x\.npz has no array b"),
            "cut": (saved(np.savez, a=A[HALF], b=B[HALF])[:9000], r"1-x\.npz"),
        },
    ),
    "safetensors": (
        (":a", ":b"),
        {"cut": (safetensors(HALF)[0]["x.safetensors"][:9000], r"1-x\.safetensors is cut off")},
    ),
    "pt": ((":a", ":b"), {"damaged": (b"PK" * 900, r"1-x\.pt holds more than tensors")}),
    "tar": ((":a.npy", ":b.npy"), {"cut": (tar(range(210, 420))[:9000], r"1-x\.tar")}),
}


@pytest.mark.parametrize(("ending", "damage"), [(name, damage) for name in NUMBERS for damage in NUMBERS[name][1]])
def test_broken_shard_of_numbers_is_one_sentence_that_names_it(ending, damage, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (a, b), damages = NUMBERS[ending]
    content, message = damages[damage]
    put(tmp_path / f"0-x.{ending}", FORMATS[ending][0](HALF)[0][f"x.{ending}"])
    put(tmp_path / f"1-x.{ending}", content)
    assert cli.main(["audit", f"*.{ending}{a}", f"*.{ending}{b}"]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


def test_missing_shard_of_a_range_is_named(tmp_path):
    for number in (0, 2):
        put(tmp_path / f"{number}.tar", tar(range(3)))
    with pytest.raises(FileNotFoundError, match=r"1\.tar, one of .*\{0\.\.2\}\.tar"):
        source(f"{tmp_path}/{{0..2}}.tar:txt")


def test_unequal_shards_of_a_folder_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number, rows in enumerate(np.array_split(np.arange(N), 2)):
        put(tmp_path / f"clip/img_emb/img_emb_{number}.npy", saved(np.save, A[rows]))
        put(tmp_path / f"clip/text_emb/text_emb_{number}.npy", saved(np.save, B[rows[number:]]))
        put(tmp_path / f"datacomp/{number}.npz", saved(np.savez, l14_img=A[rows], l14_txt=B[rows]))
    put(tmp_path / "datacomp/0.parquet", parquet_of(arrow.table({"uid": IDS})))
    for folder, message in (("clip", r"text_emb_1\.npy.* 209"), ("datacomp", "2 .npz files and 1 .parquet")):
        assert cli.main(["audit", folder]) == 2
        assert re.search(message, capsys.readouterr().err)


def test_media_folder_at_a_url_is_one_sentence(capsys):
    put(source_path("memory://photos/1.png"), b"x")
    put(source_path("memory://captions.txt"), b"x")
    assert cli.main(["audit", "memory://photos", "memory://captions.txt", "--encode"]) == 2
    assert "tars" in capsys.readouterr().err


def test_single_argument_lists_columns_and_suggests_two(tmp_path):
    (tmp_path / "pairs.csv").write_text("id,question,answer\n1,x,y\n")
    with pytest.raises(ValueError, match=r"pairs\.csv:question .*pairs\.csv:answer"):
        pair_files(f"{tmp_path}/pairs.csv")


def test_items_of_tars_are_read_by_several_threads(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    from rince.pairs.format import format_of

    for number, rows in enumerate(np.array_split(np.arange(N), 7)):
        put(tmp_path / f"{number}.tar", tar(rows.tolist()))
    items = format_of(source(f"{tmp_path}/*.tar")).items("txt")
    order = random.permutation(N).tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(items.__getitem__, order)) == [NOTES[k] for k in order]
