"""Encode JSON piece by piece, without control characters: a terminal may show the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

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


def write_numbers(values: Sequence[float | None], file: BinaryIO) -> None:
    """Write a list of numbers."""
    file.write(b"[")
    for at in range(0, len(values), _NUMBERS_AT_ONCE):
        numbers = list(values[at : at + _NUMBERS_AT_ONCE])
        file.write((b"," if at else b"") + orjson.dumps(numbers)[1:-1])
    file.write(b"]")
