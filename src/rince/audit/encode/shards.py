"""Raw columns in shards: workers encode every shard once, into .npy files of a shared cache."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.encode.encoders import Encoder, encoder_for
from rince.audit.encode.run import check_rows, encode_rows, learn, learning_items, learning_rows
from rince.audit.save import joined_path, opened_whole
from rince.audit.scan import rows_of_shard
from rince.audit.shards.runner import Runner
from rince.errors import UsageError
from rince.pairs.files import exists
from rince.pairs.raw import Kind, Raw
from rince.pairs.shards import FileShard
from rince.pairs.source import Source


class EncodedShards(NamedTuple):
    """Shards of numbers, made of raw ones.

    Attributes:
        shards: The shards.
        how: Descriptions of the rows of A and B, such as ``"texts encoded with hashed n-grams"``; empty for numbers.
        comparable: Whether both sides lie in one space.
    """

    shards: list[FileShard]
    how: tuple[str, str]
    comparable: bool


def encode_shards(
    shards: Sequence[FileShard],
    cache: str,
    runner: Runner,
    *,
    specs: Mapping[str, str | None],
    seed: int = 0,
    skip_invalid: bool = False,
) -> EncodedShards:
    """Encode the sides that hold raw items, shard by shard. Rows are those that one process would give.

    Args:
        shards: Shards of files, from ``file_shards(..., raw=True)``.
        cache: Folder or URL for the rows, one file per shard and side, under a key of its items and the encoder.
        runner: Runner that encodes the items.
        specs: Encoder of ``"a"`` and ``"b"``, see :func:`encoder_for`; None for the default of the kind.
        seed: Seed of encoders that learn from the items. Default: 0.
        skip_invalid: Rows of NaN for items that are missing or cannot be read, instead of an error. Default: False.

    Returns:
        Shards whose blocks are read from the cache.

    Raises:
        UsageError: An encoder does not take what a side holds, or items cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from rince.audit.encode.shards import encode_shards
        >>> from rince.audit.shards.runner import LocalRunner
        >>> _ = Path("texts.txt").write_text("".join(f"text number {i}\\n" for i in range(60)))
        >>> np.save("b.npy", np.eye(60))
        >>> shards = rince.audit.file_shards("texts.txt", "b.npy", raw=True)
        >>> encode_shards(shards, "cache", LocalRunner(), specs={"a": "ngrams", "b": None}).how
        ('texts encoded with hashed n-grams', '')
    """
    new = [FileShard(shard.a, shard.b, shard.rows, shard.columns, shard.root) for shard in shards]
    how = {"a": "", "b": ""}
    encoders: dict[str, Encoder] = {}
    for side in "ab":
        raw, spec = shards[0].items(side), specs[side]
        if raw is None:
            if spec is not None:
                column_name = shards[0].a if side == "a" else shards[0].b
                raise UsageError(f"{column_name} holds numbers, which need no encoder: leave out {spec}")
            continue
        encoders[side] = encoder_for(raw.kind, spec, seed)
        column = _Column(side, raw.kind, spec, seed, skip_invalid)
        files = _encoded(shards, column, encoders[side], cache, runner)
        how[side] = f"{raw.kind} encoded with {encoders[side].name}"
        for shard, file, source in zip(new, files, shards, strict=True):
            shard.raw[side] = source.a if side == "a" else source.b
            setattr(shard, side, Source(file, None, part=((file, 0, shard.rows),)))
            shard.name = source.name
    same = specs["a"] is not None and specs["a"] == specs["b"] and len(encoders) == 2
    return EncodedShards(new, (how["a"], how["b"]), not encoders or (same and encoders["a"].comparable))


class _Column(NamedTuple):
    """One side of all shards, and how it is encoded."""

    side: str
    kind: Kind
    spec: str | None
    seed: int
    skip_invalid: bool

    def of(self, shard: FileShard) -> Raw:
        """The items of a shard."""
        raw = shard.items(self.side)
        if raw is None or raw.kind != self.kind:
            content = "numbers" if raw is None else raw.kind
            raise UsageError(f"{shard.name} holds {content} where the first shard holds {self.kind}")
        return raw


def _encoded(shards: Sequence[FileShard], column: _Column, encoder: Encoder, cache: str, runner: Runner) -> list[Path]:
    """The files of the rows of one side, written where the cache does not have them."""
    count = len(shards)
    fingerprints = runner.gather(runner.map(_fingerprint, shards, [column] * count), "reading items")
    learned_from = "".join(fingerprints) if encoder.learns else ""
    texts = (f"{fingerprint} {encoder.identity()} {learned_from}" for fingerprint in fingerprints)
    names = [f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.npy" for text in texts]
    files = [Path(joined_path(cache, name)) for name in names]
    todo = [k for k, file in enumerate(files) if not exists(file)]
    if not todo:
        return files
    learned = None
    if encoder.learns:
        ends = np.cumsum([0, *(shard.rows for shard in shards)])
        rows = learning_rows(int(ends[-1]), column.kind)
        sample_rows = [
            rows_of_shard(rows, int(start), shard.rows) for start, shard in zip(ends[:-1], shards, strict=True)
        ]
        samples = runner.map(_learning_items, shards, [column] * count, [encoder] * count, sample_rows)
        learned = runner.submit(learn, encoder, samples, str(shards[0].a if column.side == "a" else shards[0].b))
    targets = [(cache, names[k]) for k in todo]
    tasks = [shards[k] for k in todo], [column] * len(todo), [learned] * len(todo), targets
    runner.gather(runner.map(_encode_shard, *tasks), f"encoding {column.kind}")
    if missing := next((file for file in files if not exists(file)), None):
        raise UsageError(f"the workers did not write {missing}: choose a folder that they all reach (--cache)")
    return files


def _fingerprint(shard: FileShard, column: _Column) -> str:
    return column.of(shard).fingerprint()


def _learning_items(shard: FileShard, column: _Column, encoder: Encoder, rows: NDArray[np.int64]) -> list[object]:
    return learning_items(column.of(shard), encoder, rows)


@functools.lru_cache(maxsize=4)
def _encoder(kind: Kind, spec: str | None, seed: int) -> Encoder:
    """An encoder of this process: models are loaded once, and not sent."""
    return encoder_for(kind, spec, seed)


def _encode_shard(shard: FileShard, column: _Column, learned: Encoder | None, target: tuple[str, str]) -> None:
    raw = column.of(shard)
    rows, bad = encode_rows(raw, learned or _encoder(column.kind, column.spec, column.seed))
    check_rows(raw, rows, bad, column.skip_invalid)
    with opened_whole(*target) as file:
        np.save(file, rows)
