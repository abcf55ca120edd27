"""The readers of what a V8's memory holds, and of source maps: a part of ``host_readers``."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

from fake_memory import FakeMemory
from flametap.linux.process_memory import MemoryReadError
from flametap.recording.names.inline_chains import LinesError
from flametap.symbols.debuginfo.source_map import table_of
from flametap.symbols.debuginfo.source_map_table import SourceMapTable
from flametap.symbols.interpreters.v8.code import read_code
from flametap.symbols.interpreters.v8.functions import Functions
from flametap.symbols.interpreters.v8.heap import Heap, Text
from flametap.symbols.interpreters.v8.identity import keys_of
from flametap.symbols.interpreters.v8.layout import Layout
from flametap.symbols.interpreters.v8.map_link import (
    data_of,
    identifier_of,
    link_of,
    name_of,
    path_of,
    source_file,
)
from flametap.symbols.interpreters.v8.mapped_places import SourceMap
from flametap.symbols.interpreters.v8.names import FunctionNames, V8Code
from flametap.symbols.interpreters.v8.paths import origin_of_script
from flametap.symbols.names.limits import Budget
from flametap.wire.abi import (
    NO_POSITION,
    V8_CODE_IS_BASELINE,
    V8_CODE_IS_BYTECODE,
    V8_CODE_IS_OPTIMISED,
    V8_KIND_SHIFT,
    V8_OBJECT_BYTES,
)
from flametap.wire.events import Code, CodePart
from host_fuzzing import Reader

# Of node 20, and what is otherwise from 14 on.
_LAYOUT = Layout(
    version=(11, 3, 244),
    map_kind=12,
    shared_kind=262,
    script_kind=168,
    scope_kind=261,
    code_kind=245,
    bytecode_kind=173,
    interpreter_data_kind=170,
    debug_info_kind=171,
    fixed_array_kind=180,
    map_object_kind=255,
    byte_kinds=frozenset({179}),
    uncompiled_kinds=frozenset({300}),
    first_nonstring_kind=128,
    function_shared=24,
    shared_data=8,
    shared_name=16,
    shared_script=32,
    shared_number=52,
    script_name=16,
    script_source=8,
    script_ends=56,
    script_first_line=24,
    script_first_column=32,
    scope_locals=2,
    scope_first=3,
    bytecode_data=54,
    bytecode_positions=32,
    code_start=40,
    code_instructions=16,
    code_bytes=56,
    code_flags=48,
    code_deopt=16,
    code_table=24,
    regexp_kind=3,
    baseline_kind=11,
    deopt_literals=2,
    deopt_positions=7,
    deopt_shared=6,
    deopt_number=5,
    wrapper_shared=None,
    has_position_flags=False,
)
_LAYOUTS = (_LAYOUT, replace(_LAYOUT, scope_first=5, has_position_flags=True, code_start=None))
_START, _SIZE = 0x10000, 0x2000
_SHARED, _SCRIPT, _SCOPE, _BYTECODE, _CODE, _DEOPT = range(_START + 0x400, _START + 0x1000, 0x200)
_KINDS = (V8_CODE_IS_BYTECODE, V8_CODE_IS_BASELINE, V8_CODE_IS_OPTIMISED)
_LENGTHS = bytes([1, 2, 3, 4] * 12)


def _memories(_: Path) -> list[bytes]:
    """A function with a scope, a script, bytecode, and optimised code with an inlined call."""
    memory = bytearray(_SIZE)
    maps: dict[int, int] = {}

    def put(at: int, *words: int) -> None:
        struct.pack_into(f"<{len(words)}Q", memory, at - _START, *words)

    def made(at: int, kind: int, *words: int) -> int:
        if kind not in maps:
            maps[kind] = _START + 32 * len(maps)
            struct.pack_into("<H", memory, maps[kind] - _START + 12, kind)
        put(at, maps[kind] + 1, *words)
        return at + 1

    def array(at: int, kind: int, data: bytes, count: int) -> int:
        made(at, kind, count << 32)
        memory[at - _START + 16 : at - _START + 16 + len(data)] = data
        return at + 1

    def text(at: int, characters: bytes, kind: int = 8) -> int:
        made(at, kind, len(characters) << 32)
        memory[at - _START + 16 : at - _START + 16 + len(characters)] = characters
        return at + 1

    name = text(_START + 0x1000, b"run")
    file = text(_START + 0x1040, b"file:///srv/a%20b.js")
    source = text(_START + 0x1080, b"function run() {\n f()\n}\n//# sourceMappingURL=x.map")
    table = array(_START + 0x1100, 179, bytes([0, 20, 4, 40, 8, 60]), 6)
    code = array(_START + 0x1140, 179, bytes(range(12)) * 2, 24)
    calls = array(_START + 0x1180, 179, struct.pack("<Qi4x", 21, 0), 16)
    literals = array(_START + 0x11C0, 180, struct.pack("<Q", _SHARED + 1), 1)
    made(_SCOPE, 261, 0, 0, 0, name, 0, 9 << 32, 20 << 32)
    made(_SCRIPT, 168, source, file, 0, 0, 0, 0, 0, 7 << 32)
    made(_SHARED, 262, _BYTECODE + 1, _SCOPE + 1, 0, _SCRIPT + 1, 0, 5 << 32)
    made(_BYTECODE, 173, 24 << 32, 0, 0, table)
    made(_CODE, 245, 0, _DEOPT + 1, table, 0, _START + 0x1200, 0, 64)
    data = struct.pack("<9Q", 0, 0, literals, 0, 0, 3 << 32, 0, calls, 32 << 32)
    array(_DEOPT, 180, data, 9)
    seeds = []
    for number in range(len(_LAYOUTS) * len(_KINDS)):
        is_baseline = _KINDS[number % len(_KINDS)] == V8_CODE_IS_BASELINE
        put(_SHARED + 8, (_CODE if is_baseline else _BYTECODE) + 1)
        put(_CODE + 16, (_BYTECODE if is_baseline else _DEOPT) + 1, code if is_baseline else table)
        seeds.append(bytes(memory) + bytes([number]))
    return seeds


def _read_memory(data: bytes) -> None:
    if len(data) < _SIZE:
        return
    layout = _LAYOUTS[data[-1] // len(_KINDS) % len(_LAYOUTS)]
    kind = _KINDS[data[-1] % len(_KINDS)]
    addr = _BYTECODE if kind == V8_CODE_IS_BYTECODE else _CODE
    heap = Heap(FakeMemory({_START: data}), layout)

    def words(at: int) -> CodePart:
        return CodePart(data[at - _START :][:V8_OBJECT_BYTES], 1, False)

    numbers = struct.pack("<4Q", 7 << 32, 3 << 32, 0, 0)
    code = Code(
        1, 1, False, (words(addr), words(_SHARED), CodePart(numbers, 1, False)),
        (addr | kind << V8_KIND_SHIFT, _SHARED),
    )  # fmt: skip
    keys_of(code, layout)
    places = read_code(heap, Functions(heap, Budget(1 << 20)), code, _LENGTHS)
    made = V8Code(1, places, FunctionNames(Budget(1 << 20)), inlines=True)
    for position in (0, 5, 54, 60, 1 << 20, NO_POSITION):
        for frame in made.frames_at(position):
            assert frame.function.name.isprintable()
            assert frame.function.file.isprintable() or not frame.function.file
            assert 0 <= frame.line < 1 << 31
            origin_of_script(frame.function.file)


def _maps(_: Path) -> list[bytes]:
    part = {
        "version": 3,
        "sources": ["../src/x.ts", "webpack://a/./b.ts?1"],
        "names": ["run", "\u202e"],
        "sourcesContent": ["one\ntwo", None],
        "mappings": "AAAA,IACEA;;CADAC,gBCCC;A",
    }
    index = {"version": 3, "sections": [{"offset": {"line": 1, "column": 2}, "map": part}]}
    return [
        json.dumps(each).encode() for each in (part, index, {**part, "sourceRoot": "file:///a"})
    ]


def _read_map(data: bytes) -> None:
    table = SourceMapTable(table_of(data))
    found = SourceMap(table, "/srv/dist", 0)
    for line in (0, 1, 2, 3, 1 << 30):
        for column in (1, 5, 9, 1 << 30):
            spot = found.spot(line, column)
            assert found.name(line, column) is not None
            if spot is not None:
                assert spot.file.isprintable()
                assert min(spot.line, spot.column) > 0
    for file in found.files:
        found.text(file)


def _read_table(data: bytes) -> None:
    found = SourceMap(SourceMapTable(data), "/srv/dist", 0)
    for line in range(4):
        found.spot(line, 9)
    for file in found.files:
        found.text(file)


def _links(_: Path) -> list[bytes]:
    code = b"var a=function(x){}\n//# sourceMappingURL=data:;base64,e30=\n//# sourceURL=../a.js\n}"
    return [code, code.decode().encode("utf-16-le"), b"//# sourceMappingURL=file:///a%20b?c#d"]


def _read_link(data: bytes) -> None:
    for is_wide in (False, True):
        text = Text(data[: len(data) // 2 * 2], is_wide=is_wide)
        url = link_of(text)
        name_of(text)
        data_of(url)
        path_of(url, "/srv/a.js")
        if url:
            assert source_file(url, "/srv").isprintable()
        for start in (-1, 0, 14, len(data)):
            assert identifier_of(text, "a", start) < max(start, 1)


V8_READERS: dict[str, Reader] = {
    "v8-memory": Reader(_memories, _read_memory, (MemoryReadError,)),
    "source-map": Reader(
        _maps, _read_map, (LinesError,), (b";", b",", b"AAAA", b"[", b"{", b"null")
    ),
    "source-map-table": Reader(
        lambda folder: [table_of(each) for each in _maps(folder)], _read_table, (LinesError,)
    ),
    "source-map-link": Reader(
        _links, _read_link, (), (b"//# sourceMappingURL=", b"data:,", b"file://[", b"//", b"\n")
    ),
}
