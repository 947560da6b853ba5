"""What the commands of the audit read: columns of numbers, raw texts, pictures and sounds, trust, reviews, audits."""

import io
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

Read = Callable[[Path], object]
ROWS = 60


def formats(random_numbers: np.random.Generator) -> dict[str, tuple[bytes, Read]]:
    """Good content of every format, and the command that reads it."""
    a = random_numbers.normal(size=(ROWS, 3)).astype(np.float32)
    text = "\n".join(",".join(f"{value:.4f}" for value in row) for row in a).encode()
    found = {
        "npy": (_saved(a), _audit(".npy", a)),
        "csv": (b"x,y,z\n" + text + b"\n", _audit(".csv", a)),
        "tsv": (b"x\ty\tz\n" + text.replace(b",", b"\t") + b"\n", _audit(".tsv", a)),
        "pt": (_torch(a), _audit(".pt", a)),
        "safetensors column": (_safetensors(a), _audit(".safetensors", a)),
        "npz column": (_packed(a), _audit(".npz", a)),
        "trust": (b"id,trust\n" + b"".join(b"%d,0.5\n" % row for row in range(ROWS)), _trust(".csv")),
        "trust npy": (_saved(np.full(ROWS, 0.5, np.float32)), _trust(".npy")),
        "review": (b"row,id,mark\n0,0,keep\n1,1,wrong\n2,2,unsure\n", _review(a)),
        "audited table": (_audited(a), _clean(".csv", a)),
        "ids": (b"id\n" + b"".join(b"p%d\n" % row for row in range(ROWS)), _ids(a)),
        "texts": (b"".join(b"a text with number %d\n" % row for row in range(ROWS)), _encoded("texts")),
        "sound of many": (_sound(random_numbers), _encoded("sounds")),
        "picture of many": (_picture(random_numbers), _encoded("pictures")),
    }
    return found | _arrow(a)


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _packed(a: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=a)
    return buffer.getvalue()


def _torch(a: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    torch.save(torch.from_numpy(a), buffer)
    return buffer.getvalue()


def _safetensors(a: np.ndarray) -> bytes:
    from safetensors.torch import save

    return save({"x": torch.from_numpy(a)})


def _arrow(a: np.ndarray) -> dict[str, tuple[bytes, Read]]:
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        return {}
    table = pyarrow.table({"x": a[:, 0], "y": a[:, 1]})
    parquet, stream, feather = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pyarrow.parquet.write_table(table, parquet)
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    pyarrow.feather.write_feather(table, feather)
    return {
        "parquet": (parquet.getvalue(), _audit(".parquet", a)),
        "arrow": (stream.getvalue(), _audit(".arrow", a)),
        "feather": (feather.getvalue(), _audit(".feather", a)),
        "clean parquet": (parquet.getvalue(), _clean_file(".parquet", a)),
    }


def _sound(random_numbers: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes((1000 * random_numbers.normal(size=800)).astype("<i2").tobytes())
    return buffer.getvalue()


def _picture(random_numbers: np.random.Generator) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(random_numbers.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def _audited(a: np.ndarray) -> bytes:
    rows = (b"%d,%.4f,%.4f,%d\n" % (row, 1 - row / ROWS, row / ROWS, row > 50) for row in range(len(a)))
    return b"id,score,p_wrong,flagged\n" + b"".join(rows)


def _audit(ending: str, a: np.ndarray) -> Read:
    def read(path: Path) -> object:
        column = path.rename(path.with_suffix(ending))
        np.save("b.npy", a)
        return _rince("audit", str(column), "b.npy", "--out", "audit", "--skip-invalid")

    return read


def _ids(a: np.ndarray) -> Read:
    def read(path: Path) -> object:
        np.save("a.npy", a)
        np.save("b.npy", a[::-1])
        return _rince("audit", "a.npy", "b.npy", "--ids", str(path.rename(path.with_suffix(".csv"))), "--out", "audit")

    return read


def _trust(ending: str) -> Read:
    def read(path: Path) -> object:
        from rince.trust.table import read_weights

        return read_weights(path.rename(path.with_suffix(ending)), ROWS)

    return read


def _review(a: np.ndarray) -> Read:
    def read(path: Path) -> object:
        Path("audit").mkdir()
        Path("audit/audit.csv").write_bytes(_audited(a))
        Path("audit/audit.json").write_text('{"noise_rate": 0.2, "interval": [0.1, 0.3]}')
        return _rince("audit", "--review", str(path), "--out", "audit")

    return read


def _clean(ending: str, a: np.ndarray) -> Read:
    def read(path: Path) -> object:
        np.save("a.npy", a)
        np.save("b.npy", a)
        return _rince("clean", "a.npy", "b.npy", "--audit", str(path.rename(path.with_suffix(ending))), "--out", "c")

    return read


def _clean_file(ending: str, a: np.ndarray) -> Read:
    def read(path: Path) -> object:
        Path("audit.csv").write_bytes(_audited(a))
        np.save("b.npy", a)
        column = str(path.rename(path.with_suffix(ending)))
        return _rince("clean", column, "b.npy", "--audit", "audit.csv", "--out", "c")

    return read


def _encoded(kind: str) -> Read:
    """One bad item among good ones, or a bad file of texts, against a column of numbers."""

    def read(path: Path) -> object:
        np.save("b.npy", np.random.default_rng(0).normal(size=(ROWS, 4)))
        column = "a.txt"
        if kind == "texts":
            path.rename(column)
        else:
            good, ending = {"sounds": (_sound, ".wav"), "pictures": (_picture, ".png")}[kind]
            column = "items"
            Path(column).mkdir()
            for row in range(ROWS - 1):
                Path(f"{column}/{row:03}{ending}").write_bytes(good(np.random.default_rng(row)))
            path.rename(f"{column}/{ROWS}{ending}")
        return _rince("audit", column, "b.npy", "--encode", "--skip-invalid", "--out", "audit")

    return read


def _rince(*words: str) -> int:
    from rince import cli

    return cli.main(list(words))
