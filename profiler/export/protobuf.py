"""Encode the fields of a protocol buffer. Source: protobuf.dev, "Encoding".

Written by hand because the file is written in pieces: a library keeps the whole message in memory.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _BYTES = 0, 2  # wire types
_MASK = (1 << 64) - 1
_SHORT = [bytes((number,)) for number in range(128)]


def varint(number: int) -> bytes:
    """Encode an integer: 7 bits a byte, low ones first. Negative ones have 64 bits."""
    if 0 <= number < 128:
        return _SHORT[number]
    rest = number & _MASK
    found = bytearray()
    while rest >= 128:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def whole(field: int, number: int) -> bytes:
    """Encode a field that is an integer; nothing for 0, which is what a missing field means."""
    return varint(field << 3 | _VARINT) + varint(number) if number else b""


def wholes(first: int, numbers: Iterable[int]) -> bytes:
    """Encode integers as fields one after the other."""
    return b"".join([whole(field, number) for field, number in enumerate(numbers, first)])


def message(field: int, data: bytes) -> bytes:
    """Encode a field that is bytes, a text in UTF-8 or another message."""
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def packed(field: int, numbers: Iterable[int]) -> bytes:
    """Encode a field that is a list of integers."""
    return message(field, b"".join(map(varint, numbers)))
