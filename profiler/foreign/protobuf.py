"""Decode the fields of a protocol buffer. Source: protobuf.dev, "Encoding"."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types
_SIZES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_MAX_SHIFT = 63


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field: an integer, or bytes.

    Raises:
        ValueError: a field does not end, or is of no known kind.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        if size > end - at:
            raise ValueError("a field is longer than the rest")
        yield tag >> 3, data[at : at + size]
        at += size


def numbers(value: int | bytes) -> list[int]:
    """Return the integers of a field that may be packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        byte = value[at]
        if byte < 0x80:  # most are
            found.append(byte)
            at += 1
        else:
            number, at = _varint(value, at)
            found.append(number)
    return found


def signed(number: int) -> int:
    """Return what an int64 is that was read as an unsigned number."""
    return number - (1 << 64) if number >> 63 else number


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _MAX_SHIFT:
        if at >= len(data):
            raise ValueError("a number does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
        shift += 7
    raise ValueError("a number has more than 64 bits")
