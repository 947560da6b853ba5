"""Whole tables and arrays of kinds that the audit was not made for, under names that are hard to read."""

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from columns import ROWS, _audited, _rince

NAMES = ("x", "y", "id", "x", "", " x", "a:b", "a,b", "*", "\u00e9", "x\ny", "\x1b[31m", "=1+1", "0", "q" * 300)
FILES = (
    "t",
    "-t",
    "t t",
    "t:u",
    "t\nu",
    "\u00e9\U0001f600",
    "*",
    "[t]",
    "q" * 200,
    "%s",
    "\u202et",
    "~",
    "pairs",
    "trust",
)
ARRAYS = ("<f4", ">f4", "<f8", ">f8", "<f2", "i1", "<u8", "?", "<c8", "U5", "S5", "M8[s]", "m8[s]", "V4", "O")


def one(chance: random.Random) -> tuple[str, Callable[[Path], int]]:
    """What it is, and what reads it in a folder."""
    make = chance.choice((_array, _text, _arrow, _arrow))
    ending, write, what = make(chance)
    name = f"{chance.choice(FILES)}{ending}"
    columns = [chance.choice(("", ":x", ":y", ":*", ":x,y", ":id")) for _ in range(2)]
    options = chance.choice(([], ["--ids", f"./{name}:id"], ["--groups", f"./{name}:x"], ["--drop-bad"]))
    cleaned = chance.random() < 0.3

    def tried(folder: Path) -> int:
        numbers = np.random.default_rng(0).normal(size=(ROWS, 3))
        np.save(folder / "b.npy", numbers)
        (folder / "audit.csv").write_bytes(_audited(numbers))
        try:
            write(folder / name)
        except (TypeError, ValueError, OverflowError, NotImplementedError):  # no writer makes such a table
            return 0
        other = "b.npy" if columns[0] == columns[1] else f"./{name}{columns[1]}"
        if cleaned:
            return _rince("clean", f"./{name}{columns[0]}", other, "--audit", "audit.csv", "--out", "out")
        return _rince("audit", f"./{name}{columns[0]}", other, *options, "--out", "out")

    return f"{what} in {name!r}, {columns}, {options}{', cleaned' if cleaned else ''}", tried


def _array(chance: random.Random) -> tuple[str, Callable[[Path], Any], str]:
    kind, order = chance.choice(ARRAYS), chance.choice("CF")
    shape = chance.choice(
        ((ROWS, 3), (ROWS, 3), (ROWS,), (ROWS, 1), (ROWS, 0), (0, 3), (ROWS, 2, 2), (), (ROWS - 1, 3))
    )
    ending = chance.choice((".npy", ".npz"))
    numbers = chance.choice((1, 100, 1e30, 1e300)) * np.random.default_rng(1).normal(size=shape)

    def write(path: Path) -> None:
        with np.errstate(all="ignore"):
            array = np.asarray(numbers, order=order).astype("i8" if kind[0] in "mM" else "f8").astype(kind)
        if chance.random() < 0.1:
            array = np.zeros(shape, dtype=[("x", "f4"), ("y", "f4")])
        with open(path, "wb") as file:
            np.save(file, array) if ending == ".npy" else np.savez(file, x=array, id=np.arange(ROWS))

    return ending, write, f"{kind} {order} {shape}"


def _cells(chance: random.Random) -> list[Any]:
    some = (
        "1.5", "-2", "1e5", "", "nan", "inf", "NA", "null", "1,5", "1;5", "0x1", "1_0", "\u0663", "9" * 400, "True",
        "5%", '"', '""', "a\nb", "\0", "2024-01-01", "[1, 2]", "=1+1", "\ud7ff", "x" * 140_000,
    )  # fmt: skip
    plain = chance.random() < 0.6
    return [f"{chance.gauss(0, 1):.4f}" if plain or chance.random() < 0.9 else chance.choice(some) for _ in range(ROWS)]


def _text(chance: random.Random) -> tuple[str, Callable[[Path], Any], str]:
    separator, end = chance.choice(",,,;\t|"), chance.choice(("\n", "\n", "\r\n", "\r", "\n\n"))
    encoding = chance.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"))
    names = [chance.choice(NAMES) for _ in range(chance.randrange(1, 5))]
    columns = [_cells(chance) for _ in names]
    quote = chance.random() < 0.3
    lines = [names, *zip(*columns, strict=True)][: chance.choice((0, 1, 2, ROWS, ROWS + 1, ROWS + 1, ROWS + 1))]
    text = end.join(separator.join(f'"{cell}"' if quote else cell for cell in line) for line in lines)
    content = (text + chance.choice(("", end, 3 * end))).encode(encoding, "replace")
    return (
        chance.choice((".csv", ".csv", ".tsv", ".txt")),
        lambda path: path.write_bytes(content),
        f"{separator!r} {encoding}",
    )


def _arrow(chance: random.Random) -> tuple[str, Callable[[Path], Any], str]:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    n = chance.choice((ROWS, ROWS, ROWS, ROWS, 0, ROWS - 1))
    number = [chance.gauss(0, 1) for _ in range(n)]
    day = datetime.datetime(2024, 1, 1)
    kinds: dict[str, Callable[[], Any]] = {
        "floats": lambda: pa.array(number),
        "halves": lambda: pa.array(np.array(number, np.float16)),
        "integers": lambda: pa.array([2**63 + i for i in range(n)], pa.uint64()),
        "booleans": lambda: pa.array([value > 0 for value in number]),
        "missing": lambda: pa.nulls(n),
        "gaps": lambda: pa.array([None if value > 1 else value for value in number]),
        "texts": lambda: pa.array([f"text {i % 9}" for i in range(n)]),
        "categories": lambda: pa.array([f"text {i % 9}" for i in range(n)]).dictionary_encode(),
        "numbers as categories": lambda: pa.array([float(i % 9) for i in range(n)]).dictionary_encode(),
        "decimals": lambda: pa.array([decimal.Decimal(f"{value:.3f}") for value in number], pa.decimal128(9, 3)),
        "times": lambda: pa.array([day + datetime.timedelta(hours=i) for i in range(n)], pa.timestamp("us", "UTC")),
        "days": lambda: pa.array([(day + datetime.timedelta(i)).date() for i in range(n)], pa.date32()),
        "durations": lambda: pa.array([datetime.timedelta(i) for i in range(n)], pa.duration("us")),
        "bytes": lambda: pa.array([bytes([i % 256]) for i in range(n)], pa.binary()),
        "structs": lambda: pa.array([{"x": value} for value in number], pa.struct({"x": pa.float64()})),
        "maps": lambda: pa.array([[("k", value)] for value in number], pa.map_(pa.string(), pa.float64())),
        "lists": lambda: pa.array([[value, 1.0] for value in number], pa.list_(pa.float32())),
        "fixed lists": lambda: pa.array([[value, 1.0] for value in number], pa.list_(pa.float32(), 2)),
        "ragged lists": lambda: pa.array([[value] * (i % 3) for i, value in enumerate(number)], pa.list_(pa.float32())),
        "empty lists": lambda: pa.array([[]] * n, pa.list_(pa.float32())),
        "lists of lists": lambda: pa.array([[[value]] for value in number], pa.list_(pa.list_(pa.float32()))),
        "lists of texts": lambda: pa.array([["1", "2"]] * n, pa.list_(pa.string())),
    }
    chosen = [chance.choice(sorted(kinds)) for _ in range(chance.randrange(0, 5))]
    names = [
        ("x", "y", "id", "z")[place] if chance.random() < 0.7 else chance.choice(NAMES) for place in range(len(chosen))
    ]
    ending = chance.choice((".parquet", ".parquet", ".feather", ".arrow"))

    def write(path: Path) -> None:
        table = pa.Table.from_arrays([kinds[kind]() for kind in chosen], names=names)
        with open(path, "wb") as file:
            pa.parquet.write_table(table, file) if ending == ".parquet" else pa.feather.write_feather(table, file)

    return ending, write, f"{n} rows of {dict(zip(names, chosen, strict=True))}"
