"""Raw columns in shards: workers encode every shard once, into .npy files of a cache that all of them reach."""

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
from rince.pairs.raw import Kind
from rince.pairs.shards import FileShard
from rince.pairs.source import Source


class EncodedShards(NamedTuple):
    """Shards of numbers, made of raw ones.

    Attributes:
        shards: The shards.
        how: How the rows of A and B were made, such as ``"texts encoded with hashed n-grams"``; empty for numbers.
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
        runner: Where items are encoded.
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
        raw = shards[0].items(side)
        if raw is None:
            if specs[side] is not None:
                where = shards[0].a if side == "a" else shards[0].b
                raise UsageError(f"{where} holds numbers, which need no encoder: leave out {specs[side]}")
            continue
        encoders[side] = encoder_for(raw.kind, specs[side], seed)
        files = _encoded(shards, side, raw.kind, specs[side], seed, encoders[side], cache, runner, skip_invalid)
        how[side] = f"{raw.kind} encoded with {encoders[side].name}"
        for shard, file, source in zip(new, files, shards, strict=True):
            shard.raw[side] = source.a if side == "a" else source.b
            setattr(shard, side, Source(file, None, part=((file, 0, shard.rows),)))
            shard.name = source.name
    same = specs["a"] is not None and specs["a"] == specs["b"] and len(encoders) == 2
    return EncodedShards(new, (how["a"], how["b"]), not encoders or (same and encoders["a"].comparable))


def _encoded(
    shards: Sequence[FileShard],
    side: str,
    kind: Kind,
    spec: str | None,
    seed: int,
    encoder: Encoder,
    cache: str,
    runner: Runner,
    skip_invalid: bool,
) -> list[Path]:
    """The files of the rows of one side, written where the cache does not have them."""
    prints = runner.gather(runner.map(functools.partial(_fingerprint, side=side, kind=kind), shards), "reading items")
    learned_from = "".join(prints) if encoder.learns else ""
    texts = (f"{one} {encoder.identity()} {learned_from}" for one in prints)
    names = [f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.npy" for text in texts]
    files = [Path(joined_path(cache, name)) for name in names]
    todo = [k for k, file in enumerate(files) if not exists(file)]
    if not todo:
        return files
    learned = None
    if encoder.learns:
        ends = np.cumsum([0, *(shard.rows for shard in shards)])
        rows = learning_rows(int(ends[-1]), kind)
        wanted = [rows_of_shard(rows, int(start), shard.rows) for start, shard in zip(ends[:-1], shards, strict=True)]
        arguments = list(shards), [side] * len(shards), [encoder] * len(shards), wanted
        samples = runner.map(_learning_items, *arguments)
        name = str(shards[0].a if side == "a" else shards[0].b)
        learned = runner.submit(learn, encoder, samples, name)
    build = functools.partial(_encode_shard, side=side, kind=kind, spec=spec, seed=seed, skip_invalid=skip_invalid)
    columns = [shards[k] for k in todo], [learned] * len(todo), [cache] * len(todo), [names[k] for k in todo]
    runner.gather(runner.map(build, *columns), f"encoding {kind}")
    if missing := next((file for file in files if not exists(file)), None):
        raise UsageError(f"the workers wrote no {missing} here: name a folder that all of them reach (--cache)")
    return files


def _fingerprint(shard: FileShard, side: str, kind: Kind) -> str:
    raw = shard.items(side)
    if raw is None or raw.kind != kind:
        found = "numbers" if raw is None else raw.kind
        raise UsageError(f"{shard.name} holds {found} where the first shard holds {kind}")
    return raw.fingerprint()


def _learning_items(shard: FileShard, side: str, encoder: Encoder, rows: NDArray[np.int64]) -> list[object]:
    raw = shard.items(side)
    assert raw is not None
    return learning_items(raw, encoder, rows)


@functools.lru_cache(maxsize=4)
def _encoder(kind: Kind, spec: str | None, seed: int) -> Encoder:
    """An encoder of this process: models are loaded once, and not sent."""
    return encoder_for(kind, spec, seed)


def _encode_shard(
    shard: FileShard,
    learned: Encoder | None,
    cache: str,
    name: str,
    *,
    side: str,
    kind: Kind,
    spec: str | None,
    seed: int,
    skip_invalid: bool,
) -> None:
    raw = shard.items(side)
    assert raw is not None
    rows, bad = encode_rows(raw, learned or _encoder(kind, spec, seed))
    check_rows(raw, rows, bad, skip_invalid)
    with opened_whole(cache, name) as file:
        np.save(file, rows)
