"""Bytes changed, cut, repeated or exchanged, and words that are hard to read put between them."""

import random

WORDS = (b"", b"-1", b"nan", b"1e999", b"99999999999999999999", "\u00b2".encode(), "\u0663".encode(), b'"', b",", b"\n")
WORDS += (b"\0", b"=1+1", b"../x", b"\xef\xbb\xbf", b"\r", b"null", b"1_0", b"0x10", b"{", b"[" * 50, b"'" * 3)


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        place, kind = chance.randrange(len(data) or 1), chance.randrange(7)
        length = chance.choice((1, 2, 4, 16, 200))
        if kind == 0 and data:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[place : place + length] = b""
        elif kind == 2:
            data[place:place] = data[place : place + length]
        elif kind == 3:
            data[place : place + length] = chance.randbytes(length)
        elif kind == 4:
            data[place : place + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f"))
        elif kind == 5:
            data[place : place + chance.choice((0, 1, length))] = chance.choice(WORDS)
        else:
            del data[max(1, place) :]
    return bytes(data)
