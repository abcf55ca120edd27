"""Say what a place in V8's bytecode or machine code stands for: functions and lines.

Everything is read when a piece of code is first met; afterwards places are looked up without the
process. What is inlined where, the compiler has noted: a place of the source with the number of an
inlined call, and for each such call the place of its caller.

Source: src/objects/{code,deoptimization-data,bytecode-array}.h; codegen/source-position.h.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ....wire.abi import (
    V8_CODE_IS_BASELINE,
    V8_CODE_IS_BYTECODE,
    V8_CODE_IS_OPTIMISED,
    V8_KIND_SHIFT,
)
from ....wire.events import Code
from .exits import DeoptExits, read_exits
from .functions import Functions, SharedFunction
from .heap import ARRAY_DATA, TAG, Heap, is_object
from .identity import numbers_of_record
from .positions import BytecodeOffsets, Position, PositionTable

_ADDRESS_MASK = (1 << V8_KIND_SHIFT) - 1
_TIERS = {
    V8_CODE_IS_BYTECODE: "interpreted",
    V8_CODE_IS_BASELINE: "baseline",
    V8_CODE_IS_OPTIMISED: "optimised",
}
_MAX_TABLE_BYTES = 1 << 20
_MAX_BYTECODE_BYTES = 1 << 22
_MAX_LITERALS = 1 << 16
_CALL = struct.Struct("<Qi4x")  # InliningPosition: place in the caller, index of the function
_MAX_CALLS = 1 << 14
_WEAK = 2  # this bit is set in weak pointers


@dataclass(frozen=True)
class Place:
    """A function, and a line in it (0 if unknown) with its file."""

    function: SharedFunction
    line: int
    file: str = ""


class InlinedCall:
    """One call that is inlined into a piece of code."""

    __slots__ = ("at", "function")

    def __init__(self, at: Position, function: SharedFunction | None) -> None:
        self.at = at  # in its caller
        self.function = function  # None: the caller's own


class CodePlaces:
    """The places of one piece of code."""

    def __init__(
        self,
        function: SharedFunction,
        table: PositionTable | None,
        *,
        first: int = 0,
        bytecodes: BytecodeOffsets | None = None,
        calls: Mapping[int, InlinedCall] | None = None,
        exits: DeoptExits | None = None,
    ) -> None:
        self.function = function
        self._table = table
        self._first = first  # offset of the bytecode in its object
        self._bytecodes = bytecodes
        self._calls = calls or {}
        self._exits = exits
        self.tier = ""  # how it runs, in words

    @property
    def has_lines(self) -> bool:
        """True if its compiler has noted places of the source."""
        return self._table is not None

    @property
    def functions(self) -> list[SharedFunction]:
        """The function, and those that are inlined into it."""
        inlined = (call.function for call in self._calls.values())
        return [self.function, *(each for each in inlined if each is not None)]

    @property
    def size(self) -> int:
        """The bytes that its table takes."""
        return 0 if self._table is None else self._table.size

    def at(self, offset: int) -> list[Place]:
        """Return what an offset stands for, outermost first: callers, then what is inlined."""
        if self._table is None:
            return [Place(self.function, 0)]
        offset -= self._first
        if self._bytecodes is not None:
            offset = self._bytecodes.at(offset)
        if self._exits is not None:
            offset = self._exits.source_of(offset)
        position = self._table.at(offset) if offset >= 0 else Position(-1, 0)
        places: list[Place] = []
        for _ in range(len(self._calls)):
            call = self._calls.get(position.inlining)
            if call is None:
                break
            places.append(_place(call.function or self.function, position))
            if call.at.inlining >= position.inlining:
                break  # callers come first
            position = call.at
        places.append(_place(self.function, position))
        places.reverse()
        return places


def _place(function: SharedFunction, position: Position) -> Place:
    spot = function.script.spot(position.offset)
    return Place(function, spot.line, spot.file)


def read_code(heap: Heap, functions: Functions, code: Code, lengths: bytes) -> CodePlaces | None:
    """Read what a record of the agent refers to; None if it is no function of a script, or gone.

    Args:
        heap: the heap it lies in.
        functions: its functions.
        code: the record.
        lengths: of bytecodes, see ``BytecodeOffsets``.

    Raises:
        MemoryReadError: it cannot be read.
    """
    kind, addr = code.detail[0] >> V8_KIND_SHIFT, code.detail[0] & _ADDRESS_MASK
    shared = code.detail[1] + TAG
    if len(code.parts) < 2 or not code.detail[1]:
        return None
    function = functions.read(shared)
    if function is None:
        return None
    tagged = addr + TAG
    if kind == V8_CODE_IS_BYTECODE:
        places = _of_bytecode(heap, function, tagged)
    elif kind == V8_CODE_IS_BASELINE:
        places = _of_baseline(heap, function, (tagged, shared), lengths)
    elif kind == V8_CODE_IS_OPTIMISED:
        places = _of_optimised(heap, functions, function, tagged)
    else:
        return None
    if places is not None:
        places.tier = _TIERS.get(kind, "")
    return places if _is_unchanged(heap, code, addr) else None


def _is_unchanged(heap: Heap, code: Code, addr: int) -> bool:
    """Return whether object and function are those that the agent read.

    By the numbers that the engine gives to scripts, their functions, and compilations.
    """
    layout = heap.layout
    numbers = numbers_of_record(code, layout)
    if numbers is None:
        return False
    kind, tagged, shared = code.detail[0] >> V8_KIND_SHIFT, addr + TAG, code.detail[1] + TAG
    if heap.integer(shared, layout.shared_number) != numbers.function:
        return False
    script = heap.field(shared, layout.shared_script)
    if not is_object(script) or heap.field(script, layout.script_ends + 8) != numbers.script:
        return False
    if kind == V8_CODE_IS_OPTIMISED:
        deopt = heap.field(tagged, layout.code_deopt)
        at = ARRAY_DATA + 8 * layout.deopt_number
        return is_object(deopt) and heap.field(deopt, at) == numbers.compilation
    if kind == V8_CODE_IS_BASELINE:
        return _runs_by(heap, shared, tagged)
    return tagged in (heap.field(shared, layout.shared_data), _bytecode_of(heap, 0, shared))


def _runs_by(heap: Heap, shared: int, tagged: int) -> bool:
    """Return whether a function runs by this baseline code."""
    data = heap.field(shared, heap.layout.shared_data)
    return tagged == data or (
        is_object(data) and tagged in (heap.field(data, 8), heap.field(data, 16))
    )


def _table(heap: Heap, tagged: int) -> PositionTable | None:
    if not is_object(tagged):
        return None
    raw = heap.bytes_of(tagged, _MAX_TABLE_BYTES)
    return PositionTable(raw, has_flags=heap.layout.has_position_flags) if raw else None


def _of_bytecode(heap: Heap, function: SharedFunction, tagged: int) -> CodePlaces:
    table = _table(heap, heap.field(tagged, heap.layout.bytecode_positions))
    return CodePlaces(function, table, first=heap.layout.bytecode_data)


def _bytecode_of(heap: Heap, tagged: int, shared: int) -> int:
    """Return the bytecode of a function that has baseline code; 0 if it is not found."""
    layout = heap.layout
    data = heap.field(shared, layout.shared_data)
    for holder, offset in ((tagged, layout.code_deopt), (data, 8), (data, 16)):
        found = heap.field(holder, offset) if is_object(holder) else 0
        if _is_bytecode(heap, found):
            return found
        if is_object(found) and heap.kind(found) == layout.interpreter_data_kind:
            inner = (heap.field(found, at) for at in (8, 16))
            return next((each for each in inner if _is_bytecode(heap, each)), 0)
    return 0


def _is_bytecode(heap: Heap, tagged: int) -> bool:
    return is_object(tagged) and heap.kind(tagged) == heap.layout.bytecode_kind


def _of_baseline(
    heap: Heap, function: SharedFunction, objects: tuple[int, int], lengths: bytes
) -> CodePlaces:
    tagged, shared = objects
    bytecode = _bytecode_of(heap, tagged, shared)
    raw = heap.bytes_of(heap.field(tagged, heap.layout.code_table), _MAX_TABLE_BYTES)
    if not bytecode or not raw or not lengths:
        return CodePlaces(function, None)
    table = _table(heap, heap.field(bytecode, heap.layout.bytecode_positions))
    size = heap.array_length(bytecode, _MAX_BYTECODE_BYTES)
    data = heap.memory.read(bytecode - TAG + heap.layout.bytecode_data, size) if size else b""
    return CodePlaces(function, table, bytecodes=BytecodeOffsets(raw, data, lengths))


def _of_optimised(
    heap: Heap, functions: Functions, function: SharedFunction, tagged: int
) -> CodePlaces:
    table = _table(heap, heap.field(tagged, heap.layout.code_table))
    if table is None:
        return CodePlaces(function, None)
    deopt = heap.field(tagged, heap.layout.code_deopt)
    if not is_object(deopt):
        return CodePlaces(function, table)
    calls = _calls(heap, functions, deopt)
    return CodePlaces(function, table, calls=calls, exits=read_exits(heap, tagged, deopt))


def _calls(heap: Heap, functions: Functions, deopt: int) -> dict[int, InlinedCall]:
    """Return the inlined calls by their numbers."""
    layout = heap.layout
    if not is_object(deopt):
        return {}
    needed = max(layout.deopt_positions, layout.deopt_literals) + 1
    if heap.array_length(deopt, _MAX_LITERALS) < needed:
        return {}
    words = heap.words_of(deopt, needed)
    raw = heap.bytes_of(words[layout.deopt_positions], _MAX_CALLS * _CALL.size)
    literals = words[layout.deopt_literals]
    count = heap.array_length(literals, _MAX_LITERALS) if is_object(literals) else 0
    known: dict[int, SharedFunction | None] = {-1: None}
    calls: dict[int, InlinedCall] = {}
    for number, (at, index) in enumerate(_CALL.iter_unpack(raw[: len(raw) // 16 * 16]), 1):
        if index not in known:
            if not 0 <= index < count:
                break
            literal = heap.field(literals, ARRAY_DATA + 8 * index) & ~_WEAK
            found = functions.read(literal) if is_object(literal) else None
            if found is None:
                break
            known[index] = found
        calls[number] = InlinedCall(Position.of(at), known[index])
    return calls
