"""Encode JSON piece by piece, without control characters: a terminal may show the file."""

from __future__ import annotations

import re
from typing import Any, BinaryIO, Protocol

import orjson

# Numbers encoded in one call: enough for speed, few enough to need little memory.
_NUMBERS_AT_ONCE = 1 << 16
# DEL and U+0080 to U+009F in UTF-8: a terminal acts on them, and JSON need not escape them.
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def encode(value: object) -> bytes:
    """Encode a value."""
    return _CONTROLS.sub(lambda found: b"\\u%04x" % found[0][-1], orjson.dumps(value))


def text(value: str) -> str:
    """Return a text as JSON can hold it: undecodable bytes may have become lone surrogates."""
    return value.encode("utf-8", "replace").decode("utf-8")


class Numbers(Protocol):
    """An array of numbers."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Numbers: ...

    def tolist(self) -> list[Any]:
        """Return its numbers."""
        ...


def write_numbers(values: Numbers, file: BinaryIO, missing: int | None = None) -> None:
    """Write an array of numbers as a list.

    Args:
        values: the numbers.
        file: where to.
        missing: this number is written as null.
    """
    file.write(b"[")
    for at in range(0, len(values), _NUMBERS_AT_ONCE):
        numbers = values[at : at + _NUMBERS_AT_ONCE].tolist()
        if missing is not None:
            numbers = [None if number == missing else number for number in numbers]
        file.write((b"," if at else b"") + orjson.dumps(numbers)[1:-1])
    file.write(b"]")
