"""Damage that a disk, an interrupted copy or a person at an editor or a spreadsheet does to a file."""

import random

# What people and programs write into cells and settings by mistake; a BOM and \r come from other systems.
WORDS = (b"", b"-1", b"nan", b"1e400", b'"', b",", b"\n", b"\t", b"=1+1", b"\xef\xbb\xbf", b"\r", b"null", b"{", b"'")
BLOCKS = (1, 16, 512)  # bytes; a disk loses sectors, a small file most of its content with one


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        place, kind = chance.randrange(len(data) or 1), chance.randrange(7)
        length = chance.choice(BLOCKS)
        if kind == 0 and data:  # a flipped bit
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:  # a missing block
            del data[place : place + length]
        elif kind == 2:  # a block that was written twice
            data[place:place] = data[place : place + length]
        elif kind == 3:  # a block of something else
            data[place : place + length] = chance.randbytes(len(data[place : place + length]))
        elif kind == 4:  # a block that was never written
            data[place : place + length] = bytes(len(data[place : place + length]))
        elif kind == 5:  # an edit
            data[place : place + chance.choice((0, 1, 5))] = chance.choice(WORDS)
        else:  # an interrupted copy
            del data[place:]
    return bytes(data)
