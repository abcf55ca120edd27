"""Read the calls of a program's functions from its debug information.

For each call we read its return address and the function that it calls. For each function we read
to which functions it may jump at its end (tail calls, which leave no frame), and whether the
compiler states that these are all. With these data we find the functions that were entered between
two frames.

A call refers to the entry of a function. That may be the function itself, the common entry of
several copies (``f`` and ``f.constprop.0``), or a declaration. A declaration is looked up by its
linkage name, in the symbol table (which has the aliases) and among the functions of the file.

If GCC states that all calls are listed, they are. LLVM states it even if it omits jumps through
memory and to functions without an entry. For LLVM we therefore search the code for jumps.

Source: DWARF 5, sections 3.3.1.1 and 3.4.1; for version 4 the GCC wiki, "call_site".
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping

from . import constants as dw
from .attributes import (
    DwarfError,
    Value,
    Values,
    read_entry,
    skip_entry,
    uleb,
)
from .functions import Names
from .tail_call_graph import ELSEWHERE, UNKNOWN, pack
from .units import DwarfFile, Unit

_Key = tuple[int, int]  # identity of a file, offset in its .debug_info
_MAX_REFERENCES = 8
_ALL_TAIL_CALLS = (
    dw.AT_CALL_ALL_CALLS,
    dw.AT_CALL_ALL_TAIL_CALLS,
    dw.AT_GNU_ALL_CALL_SITES,
    dw.AT_GNU_ALL_TAIL_CALL_SITES,
)
_NO_FUNCTION = -1
# jmp rel32; jcc rel32; jmp and jcc rel8; jmp through a register or memory.
_JUMP = re.compile(
    rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))|[\xeb\x70-\x7f](?=(.))"
    rb"|\xff[\x20-\x27\x60-\x67\xa0-\xa7\xe0-\xe7]",
    re.DOTALL,
)
# A larger displacement is not a jump: the bytes belong to another instruction.
_FAR_BYTES = 1 << 28

Code = Callable[[int, int], bytes]


def read_calls(
    main: DwarfFile, symbols: Mapping[bytes, int], code: Code, check: Callable[[], None]
) -> bytes:
    """Return all calls of a program, packed for ``tail_call_graph.CallGraph``.

    Args:
        main: its debug information.
        symbols: file_addr of its global functions by name.
        code: file_addr and size → bytes of its code, ``b""`` if they are not in the file.
        check: called for each function; may raise to cancel.

    Raises:
        DwarfError: no unit can be read.
    """
    calls = _Calls(symbols, code, check)
    damaged = 0
    for unit in main.units:
        if unit.kind in (dw.UT_TYPE, dw.UT_PARTIAL):
            continue
        try:
            tag = unit.root[0].tag
            if tag == dw.TAG_COMPILE_UNIT:
                calls.read(unit)
        except (DwarfError, IndexError):
            damaged += 1
    if damaged and not calls.entries:
        raise DwarfError("damaged debug information")
    return calls.packed()


class _Calls:
    def __init__(self, symbols: Mapping[bytes, int], code: Code, check: Callable[[], None]) -> None:
        self._symbols = symbols
        self._code = code
        self._check = check
        self._names = Names()
        self.entries: list[int] = []  # file_addr of each function
        self._is_complete = bytearray()  # whether the compiler states that it lists all tail calls
        self._to_search: list[int] = []  # functions of compilers whose statement is unreliable
        self._ranges: list[tuple[int, int, int]] = []  # start, end, function
        self._function_at: dict[int, int] = {}  # by entry: several units may describe a function
        self._functions_of: dict[_Key, set[int]] = {}  # by the entries to which a call may refer
        self._by_name: dict[bytes, set[int]] = {}
        self._calls: list[tuple[int, int]] = []  # return address, goal
        self._tails: list[tuple[int, int, int]] = []  # function, an address in the jump, goal
        self._goals: dict[tuple[Unit, int] | None, int] = {None: 0}  # entries to which calls refer

    def read(self, unit: Unit) -> None:
        """Read one unit.

        Raises:
            DwarfError, IndexError: damaged; the calls before the damage are kept.
        """
        data, end, version, offset_size = (
            unit.file.info,
            unit.end,
            unit.version,
            unit.offset_size,
        )
        abbreviations = unit.abbreviations
        offset = unit.first
        function = _NO_FUNCTION
        open_entries: list[int] = []  # the function around each entry with children
        while offset < end:
            entry = offset
            code = data[offset]
            offset += 1
            if code > 127:
                code, offset = uleb(data, entry)
            if code == 0:
                if not open_entries:
                    return
                function = open_entries.pop()
                continue
            abbreviation = abbreviations.get(code)
            if abbreviation is None:
                raise DwarfError("an entry of an unknown kind")
            tag, has_children, steps, fixed_size, has_sibling = abbreviation
            inner = function
            if tag == dw.TAG_SUBPROGRAM:
                values, offset = read_entry(data, offset, steps, version, offset_size)
                inner = self._function(unit, entry, values)
            elif tag in (dw.TAG_CALL_SITE, dw.TAG_GNU_CALL_SITE):
                values, offset = read_entry(data, offset, steps, version, offset_size)
                if function != _NO_FUNCTION:
                    self._call(unit, values, function)
            elif has_sibling and tag in dw.TYPE_TAGS:
                values, offset = read_entry(data, offset, steps, version, offset_size)
                goal = unit.reference(values[dw.AT_SIBLING])
                if goal is not None and goal[0] is unit.file and offset < goal[1] <= end:
                    offset = goal[1]
                    continue
            elif fixed_size >= 0:
                offset += fixed_size
            else:
                offset = skip_entry(data, offset, steps, version, offset_size)
            if has_children:
                open_entries.append(function)
                function = inner

    def _function(self, unit: Unit, entry: int, values: Values) -> int:
        """Return the number of the function of an entry; _NO_FUNCTION if it has no code."""
        self._check()
        ranges = unit.ranges(values)
        if not ranges:
            return _NO_FUNCTION
        start = ranges[0][0]
        function = self._function_at.get(start)
        if function is None:
            function = self._function_at[start] = len(self.entries)
            self.entries.append(start)
            self._is_complete.append(any(attribute in values for attribute in _ALL_TAIL_CALLS))
            producer = unit.text(unit.root[1].get(dw.AT_PRODUCER)) or b""
            if not producer.startswith(b"GNU "):
                self._to_search.append(function)
            self._ranges += [(start, end, function) for start, end in ranges]
        is_external = False
        for key, its_values in self._line_of_references(unit, entry, values):
            self._functions_of.setdefault(key, set()).add(function)
            is_external = is_external or dw.AT_EXTERNAL in its_values
        if is_external:
            self._by_name.setdefault(self._names.of(unit, values), set()).add(function)
        return function

    def _line_of_references(
        self, unit: Unit, entry: int, values: Values
    ) -> list[tuple[_Key, Values]]:
        """Return an entry, and the more general entries to which it refers."""
        line = [((id(unit.file), entry), values)]
        while len(line) < _MAX_REFERENCES:
            value = values.get(dw.AT_ABSTRACT_ORIGIN) or values.get(dw.AT_SPECIFICATION)
            goal = None if value is None else unit.reference(value)
            if goal is None:
                break
            file, offset = goal
            unit = file.unit_at(offset)
            _, values, _ = unit.entry(offset)
            line.append(((id(file), offset), values))
        return line

    def _call(self, unit: Unit, values: Values, function: int) -> None:
        """Add a call that ``function`` makes."""
        is_tail = dw.AT_CALL_TAIL_CALL in values or dw.AT_GNU_TAIL_CALL in values
        after = values.get(dw.AT_CALL_RETURN_PC) or values.get(dw.AT_LOW_PC)
        return_addr = None if after is None else unit.address(after)
        goal = self._goal(unit, values.get(dw.AT_CALL_ORIGIN) or values.get(dw.AT_ABSTRACT_ORIGIN))
        if is_tail:
            jump = values.get(dw.AT_CALL_PC)
            jump_addr = None if jump is None else unit.address(jump)
            if return_addr:
                jump_addr = return_addr - 1
            self._tails.append((function, jump_addr or 0, goal))
        elif return_addr:
            self._calls.append((return_addr, goal))

    def _goal(self, unit: Unit, origin: Value | None) -> int:
        """Return the number of the entry to which a call refers; 0 if it refers to none."""
        place = None if origin is None else unit.reference(origin)
        if place is None:
            return 0
        file, offset = place
        key = (
            unit
            if file is unit.file and unit.offset <= offset < unit.end
            else file.unit_at(offset),
            offset,
        )
        return self._goals.setdefault(key, len(self._goals))

    def _functions_meant(self, unit: Unit, offset: int) -> tuple[int, ...]:
        """Return the functions of an entry, or UNKNOWN or ELSEWHERE if there are none."""
        try:
            abbreviation, values, _ = unit.entry(offset)
            if abbreviation.tag != dw.TAG_SUBPROGRAM:
                return (UNKNOWN,)
            for key, _ in self._line_of_references(unit, offset, values):
                if key in self._functions_of:
                    return tuple(sorted(self._functions_of[key]))
            name = self._names.of(unit, values)
        except (DwarfError, IndexError):
            return (UNKNOWN,)
        addr = self._symbols.get(name)
        if addr is not None and addr in self._function_at:
            return (self._function_at[addr],)
        return tuple(sorted(self._by_name.get(name, ()))) or (ELSEWHERE,)

    def _search_code(self) -> None:
        """Find functions with jumps out that the debug information does not list."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        for start, end, function in self._ranges:
            ranges.setdefault(function, []).append((start, end))
        listed: dict[int, list[int]] = {}
        for function, addr, _ in self._tails:
            listed.setdefault(function, []).append(addr)
        for function in self._to_search:
            if self._is_complete[function]:
                jumps = frozenset(listed.get(function, ()))
                own = ranges[function]
                self._is_complete[function] = all(
                    self._are_jumps_listed(start, end, own, jumps) for start, end in own
                )

    def _are_jumps_listed(
        self, start: int, end: int, own: list[tuple[int, int]], listed: frozenset[int]
    ) -> bool:
        """Return True if every jump out of a piece of a function is listed.

        Bytes in the middle of an instruction may look like a jump; then we return False although
        the list is complete. Short jumps only count if they lead to a function's entry. Otherwise
        hardly any code would pass.
        """
        code = self._code(start, end - start)
        if len(code) != end - start:
            return False
        for jump in _JUMP.finditer(code):
            addr = start + jump.start()
            far, near = jump[1], jump[2]
            operand = far or near or b""
            after = start + jump.end() + len(operand)
            if not operand:
                after += _operand_size(code, jump.start() + 1)
            # The listed address may be the start of the jump, of a prefix, or its last byte.
            if addr in listed or addr - 1 in listed or after - 1 in listed:
                continue
            displacement = int.from_bytes(operand, "little", signed=True)
            goal = after + displacement
            if near:
                if goal in self._function_at and goal != own[0][0]:
                    return False
            elif not far:
                return False  # an indirect jump: a switch statement, or a tail call
            elif abs(displacement) < _FAR_BYTES and not any(
                first <= goal < last for first, last in own
            ):
                return False
        return True

    def packed(self) -> bytes:
        """Return all calls, packed into arrays."""
        self._search_code()
        members, first = array("i"), array("I", [0])
        for goal in self._goals:
            members.extend((UNKNOWN,) if goal is None else self._functions_meant(*goal))
            first.append(len(members))
        self._calls.sort()
        self._tails.sort()
        self._ranges.sort()
        return pack(
            entries=array("Q", self.entries),
            is_complete=array("B", self._is_complete),
            range_starts=array("Q", (start for start, _, _ in self._ranges)),
            range_ends=array("Q", (end for _, end, _ in self._ranges)),
            range_functions=array("I", (function for _, _, function in self._ranges)),
            return_addrs=array("Q", (addr for addr, _ in self._calls)),
            call_goals=array("I", (goal for _, goal in self._calls)),
            tail_functions=array("I", (function for function, _, _ in self._tails)),
            tail_addrs=array("Q", (addr for _, addr, _ in self._tails)),
            tail_goals=array("I", (goal for _, _, goal in self._tails)),
            goal_first=first,
            goal_members=members,
        )


def _operand_size(code: bytes, place: int) -> int:
    """Return the size of SIB and displacement, which follow the ModRM byte at ``place``."""
    modrm = code[place]
    mode, base = modrm >> 6, modrm & 7
    if mode == 3:
        return 0
    size = 0
    if base == 4:
        size = 1
        base = code[place + 1] & 7 if place + 1 < len(code) else 0
    return size + (1 if mode == 1 else 4 if mode == 2 or base == 5 else 0)
