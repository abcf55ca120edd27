"""What V8's code is known by, and what is kept for pieces that cannot be read."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import cast

import numpy as np

from flametap.symbols.interpreters.v8.code import CodePlaces
from flametap.symbols.interpreters.v8.functions import SharedFunction
from flametap.symbols.interpreters.v8.identity import CodeKey, keys_of, numbers_of_record
from flametap.symbols.interpreters.v8.kept_codes import KeptCodes
from flametap.symbols.interpreters.v8.layout import Layout
from flametap.symbols.interpreters.v8.scripts import Script
from flametap.wire.abi import (
    V8_CODE_IS_BASELINE,
    V8_CODE_IS_BYTECODE,
    V8_CODE_IS_OPTIMISED,
    V8_KIND_SHIFT,
    V8_OBJECT_BYTES,
)
from flametap.wire.events import Code, CodePart

NUMBER_AT, SCRIPT_AT, SIZE_AT = 48, 16, 24
LAYOUT = cast(
    Layout, SimpleNamespace(shared_number=NUMBER_AT, shared_script=SCRIPT_AT, code_bytes=SIZE_AT)
)
HASHED, NO_HASH = 700 << 32 | 0x4240, 700 << 32 | 3


def record(
    code_id: int = 1,
    *,
    kind: int = V8_CODE_IS_BASELINE,
    function: int = 4,
    script: int = 9,
    place: int = 0x1001,
    compilation: int = 0,
    source: int = HASHED,
    size: int = 256,
) -> Code:
    """A record as the agent sends it."""
    machine, shared = bytearray(V8_OBJECT_BYTES), bytearray(V8_OBJECT_BYTES)
    struct.pack_into("<Q", machine, 8, size << 32)
    struct.pack_into("<I", machine, SIZE_AT, size)
    struct.pack_into("<i", shared, NUMBER_AT, function)
    struct.pack_into("<Q", shared, SCRIPT_AT, place)
    numbers = struct.pack("<4Q", script << 32, compilation << 32, 12 << 32 | 6, source)
    parts = tuple(CodePart(bytes(raw), 1, is_cut=False) for raw in (machine, shared, numbers))
    return Code(code_id, 1, False, parts, (kind << V8_KIND_SHIFT | 0x2000, 0x3000))


def keys(code: Code) -> set[CodeKey]:
    return set(keys_of(code, LAYOUT))


def places(name: str) -> CodePlaces:
    return CodePlaces(SharedFunction(name, 0, Script("a.js", np.zeros(0, np.int32))), None)


def test_code_is_known_wherever_it_lies() -> None:
    here, there = record(place=0x1001), record(place=0x5001)
    assert keys(here) & keys(there)
    assert keys(here) == keys(record())


def test_without_a_hash_the_scripts_place_is_needed() -> None:
    here = record(source=NO_HASH)
    assert not keys(here) & keys(record(source=NO_HASH, place=0x5001))
    assert keys(here) & keys(record(source=HASHED)), "the hash came later"


def test_what_is_another_function_is_not_mixed_up() -> None:
    known = keys(record())
    for other in (
        record(function=5),
        record(script=10),
        record(source=701 << 32 | 0x4240),
        record(source=700 << 32 | 0x4250, place=0x5001),
        record(kind=V8_CODE_IS_OPTIMISED),
        record(size=512),
    ):
        assert not known & keys(other), other


def test_compilations_tell_optimised_code_apart() -> None:
    first = record(kind=V8_CODE_IS_OPTIMISED, compilation=1)
    assert not keys(first) & keys(record(kind=V8_CODE_IS_OPTIMISED, compilation=2))
    assert keys(record(compilation=1)) == keys(record(compilation=2)), "others have none"


def test_bytecode_is_known_by_its_length() -> None:
    short = record(kind=V8_CODE_IS_BYTECODE, size=20)
    assert {key.size for key in keys(short)} == {20 << 32}


def test_damaged_records_have_no_keys() -> None:
    whole = record()
    for count in range(3):
        assert keys_of(Code(1, 1, False, whole.parts[:count], whole.detail), LAYOUT) == ()
    for damaged in range(3):
        for size in (0, 1, 31):
            parts = list(whole.parts)
            parts[damaged] = CodePart(parts[damaged].raw[:size], 1, is_cut=True)
            assert keys_of(Code(1, 1, False, tuple(parts), whole.detail), LAYOUT) == ()
    far = SimpleNamespace(shared_number=V8_OBJECT_BYTES - 3, shared_script=0, code_bytes=0)
    assert numbers_of_record(whole, cast(Layout, far)) is None
    for fields in ((V8_OBJECT_BYTES, 0), (0, V8_OBJECT_BYTES - 7), (-8, 0)):
        far = SimpleNamespace(shared_number=0, shared_script=fields[0], code_bytes=fields[1])
        assert keys_of(whole, cast(Layout, far)) == ()


def test_code_that_was_read_before_is_found_again() -> None:
    kept, read = KeptCodes(), places("f")
    assert kept.places(keys(record())) is None
    assert kept.add(1, keys_of(record(), LAYOUT), read) == {}
    assert kept.places(keys(record(place=0x5001))) is read


def test_another_piece_of_a_known_function_has_its_name_only() -> None:
    kept, read = KeptCodes(), places("f")
    kept.add(1, keys_of(record(), LAYOUT), read)
    other = kept.places(keys(record(kind=V8_CODE_IS_OPTIMISED)))
    assert other is not None
    assert other.function is read.function
    assert not other.has_lines


def test_what_could_not_be_read_gets_its_name_later() -> None:
    kept, read = KeptCodes(), places("f")
    same, other, stranger = record(), record(kind=V8_CODE_IS_OPTIMISED), record(function=5)
    for code_id, code in enumerate((same, other, stranger), 1):
        assert kept.add(code_id, keys_of(code, LAYOUT), None) == {}
    found = kept.add(4, keys_of(record(), LAYOUT), read)
    assert set(found) == {1, 2}
    assert found[1] is read
    assert found[2].function is read.function
    assert kept.add(4, keys_of(record(), LAYOUT), read) == {}, "each is named once"
