"""Tell functions and pieces of code apart by what V8 gives only once. Pure.

The collector moves objects, and gives their memory to others: an address says little. Each isolate
counts its scripts, the functions in each, and its compilations. Together with hash and length of
the script's source these numbers say which function it is, also in a process with many isolates.
The engine computes the hash late or never; then the script's address stands for it: scripts move
seldom, and isolates that live at the same time have no addresses in common.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ....wire.abi import (
    V8_CODE_IS_BYTECODE,
    V8_CODE_IS_OPTIMISED,
    V8_KIND_SHIFT,
    V8_OBJECT_BYTES,
)
from ....wire.events import Code
from .layout import Layout

_NUMBERS = struct.Struct("<4Q")  # script, compilation; of its name and source: hash and length
_I32, _U32, _U64 = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<Q")
_LENGTH_WORD = 8  # of bytecode
_NO_HASH = 1  # this bit of a hash is set until it is computed
_LENGTH_MASK = 0xFFFFFFFF << 32


class Numbers(NamedTuple):
    """The numbers in a record of the agent."""

    script: int
    compilation: int
    name: int
    source: int
    function: int  # which one it is in its script


class FunctionKey(NamedTuple):
    """What a function is known by, wherever it lies."""

    script: int
    name: int
    source: int  # without its hash, 0 for the lowest 32 bits
    place: int  # the script's address; 0 where the hash is known
    function: int


class CodeKey(NamedTuple):
    """What a piece of code is known by, wherever it lies."""

    function: FunctionKey
    kind: int
    size: int
    compilation: int  # 0: all of the same kind and size are equal


def numbers_of_record(code: Code, layout: Layout) -> Numbers | None:
    """Return the numbers that a record holds; None if it holds none."""
    if len(code.parts) < 3:
        return None
    object_words, shared_words, numbers = (part.raw for part in code.parts[:3])
    if len(numbers) != _NUMBERS.size or min(len(object_words), len(shared_words)) < V8_OBJECT_BYTES:
        return None
    if not 0 <= layout.shared_number <= V8_OBJECT_BYTES - _I32.size:
        return None
    (function,) = _I32.unpack_from(shared_words, layout.shared_number)
    script, compilation, name, source = _NUMBERS.unpack(numbers)
    return Numbers(script, compilation, name, source, function)


def keys_of(code: Code, layout: Layout) -> tuple[CodeKey, ...]:
    """Return what the piece of code of a record is known by: by its script's place, and hash.

    Either is enough. None are returned if the record does not say it.
    """
    numbers = numbers_of_record(code, layout)
    fields = (layout.shared_script, layout.code_bytes)
    if numbers is None or not all(0 <= each <= V8_OBJECT_BYTES - _U64.size for each in fields):
        return ()
    kind, raw = code.detail[0] >> V8_KIND_SHIFT, code.parts[0].raw
    compilation = numbers.compilation if kind == V8_CODE_IS_OPTIMISED else 0
    size = _U32.unpack_from(raw, layout.code_bytes)[0]
    if kind == V8_CODE_IS_BYTECODE:
        size = _U64.unpack_from(raw, _LENGTH_WORD)[0]
    (place,) = _U64.unpack_from(code.parts[1].raw, layout.shared_script)
    found = [(numbers.source & _LENGTH_MASK, place)]
    if not numbers.source & _NO_HASH:
        found.append((numbers.source, 0))
    return tuple(
        CodeKey(
            FunctionKey(numbers.script, numbers.name & _LENGTH_MASK, source, at, numbers.function),
            kind,
            size,
            compilation,
        )
        for source, at in found
    )
