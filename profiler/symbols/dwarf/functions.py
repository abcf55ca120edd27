"""List the functions of a unit, with the functions inlined into them, as a stream of calls.

One pass over the entries, in order, without recursion. Entries without code cost no more than
reading their size. In C, types and functions without code are skipped by their sibling links (GCC
writes them). In other languages they may contain code: the class of a lambda, in the function where
it was written.

A function without code of its own (declared, or always inlined) is left out, and so are the
functions inlined into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from . import constants as dw
from .attributes import DwarfError, Values, read_entry, skip_entry, uleb
from .units import DwarfFile, Unit

Range = tuple[int, int]  # start and end, file addresses

# An inlined function whose name is in a missing file.
UNKNOWN_INLINED = b"[inlined]"

_MAX_REFERENCES = 16  # abstract_origin → specification are two; so many mean a loop
_C_LANGUAGES = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001))  # C89, C, C99, C11, C17, asm


class Sink(Protocol):
    """Receives functions, each before the functions inlined into it."""

    def function(self, name: bytes, ranges: list[Range]) -> None:
        """Begin a function."""

    def inlined(self, name: bytes, ranges: list[Range], file: int, line: int) -> None:
        """Begin a function that was inlined into the current one, at a file and line of it."""

    def end(self) -> None:
        """End the current function."""


class Names:
    """Names of functions, from their entries or the entries to which these refer.

    Attributes:
        missing: how many names were in a missing file.
    """

    def __init__(self) -> None:
        self.missing = 0

    def of(self, unit: Unit, values: Values) -> bytes:
        """Return the linkage name if any entry has one, else the plain one; ``b""`` for none."""
        linkage, name = self._names(unit, values, _MAX_REFERENCES)
        return linkage or name

    def _names(self, unit: Unit, values: Values, left: int) -> tuple[bytes, bytes]:
        linkage = values.get(dw.AT_LINKAGE_NAME) or values.get(dw.AT_MIPS_LINKAGE_NAME)
        if linkage is not None:
            text = unit.text(linkage)
            if text:
                return text, b""
            self.missing += text is None
        plain = values.get(dw.AT_NAME)
        name = unit.text(plain)
        self.missing += plain is not None and name is None
        reference = values.get(dw.AT_ABSTRACT_ORIGIN) or values.get(dw.AT_SPECIFICATION)
        if reference is None or left == 0:
            return b"", name or b""
        goal = unit.reference(reference)
        if goal is None:
            self.missing += reference[0] in dw.ALT_REFERENCES
            return b"", name or b""
        linked, named = self._at(*goal, left - 1)
        return linked, name or named

    def _at(self, file: DwarfFile, offset: int, left: int) -> tuple[bytes, bytes]:
        known = file.names.get(offset)
        if known is None:
            try:
                unit = file.unit_at(offset)
                _, values, _ = unit.entry(offset)
                known = self._names(unit, values, left)
            except (DwarfError, IndexError):  # without a name, the function's code is still valid
                known = (b"", b"")
            file.names[offset] = known
        return known


def walk(unit: Unit, names: Names, sink: Sink, check: Callable[[], None]) -> None:
    """Send all functions of a unit to ``sink``.

    Args:
        unit: the unit.
        names: finds their names.
        sink: receives them.
        check: called for each function; may raise to cancel.

    Raises:
        DwarfError, IndexError: damaged; the functions before the damage were sent to the sink, the
            last of them perhaps without its end.
    """
    data, end, version, offset_size = unit.file.info, unit.end, unit.version, unit.offset_size
    abbreviations = unit.abbreviations
    language = unit.root[1].get(dw.AT_LANGUAGE, (0, 0))[1]
    passed_over = dw.TYPE_TAGS if language in _C_LANGUAGES else frozenset()
    offset = unit.first
    open_entries: list[bool] = []  # entries whose children follow: True for a function
    functions: list[_Level] = []  # the functions among the open entries
    while offset < end:
        code = data[offset]
        offset += 1
        if code > 127:
            code, offset = uleb(data, offset - 1)
        if code == 0:
            if not open_entries:
                return
            if open_entries.pop():
                _end(sink, functions.pop())
            continue
        abbreviation = abbreviations.get(code)
        if abbreviation is None:
            raise DwarfError("an entry of an unknown kind")
        tag, has_children, steps, fixed_size, has_sibling = abbreviation
        if tag != dw.TAG_SUBPROGRAM and tag != dw.TAG_INLINED:
            if has_sibling and tag in passed_over:
                values, after = read_entry(data, offset, steps, version, offset_size)
                offset = _sibling(unit, values, after)
                if offset > after:
                    continue
            elif fixed_size >= 0:
                offset += fixed_size
            else:
                offset = skip_entry(data, offset, steps, version, offset_size)
            if has_children:
                open_entries.append(False)
            continue
        values, after = read_entry(data, offset, steps, version, offset_size)
        check()
        level = _begin(unit, tag, values, names, sink, functions)
        offset = after
        if level is _NO_CODE and passed_over:
            offset = _sibling(unit, values, after)
            if offset > after:
                continue
        if has_children:
            open_entries.append(True)
            functions.append(level)
        else:
            _end(sink, level)


class _Level(NamedTuple):
    """An open function.

    ``ends`` is the number of ends to send to the sink. ``waiting`` is the name and position of an
    inlined function without ranges of its own: it is sent with a child that has code.
    """

    ends: int = 0
    waiting: tuple[bytes, int, int] | None = None


_NO_CODE = _Level()


def _begin(
    unit: Unit, tag: int, values: Values, names: Names, sink: Sink, above: list[_Level]
) -> _Level:
    """Send a function to the sink if it has code."""
    ranges = unit.ranges(values)
    if tag == dw.TAG_SUBPROGRAM:
        if not ranges:
            return _NO_CODE
        sink.function(names.of(unit, values), ranges)
        return _Level(1)
    if not above or above[-1] is _NO_CODE:
        return _NO_CODE
    call_file, call_line = (
        value[1] if value is not None and isinstance(value[1], int) else 0
        for value in (values.get(dw.AT_CALL_FILE), values.get(dw.AT_CALL_LINE))
    )
    place = (names.of(unit, values) or UNKNOWN_INLINED, call_file, call_line)
    if not ranges:
        # In DWARF 4, an empty range at the unit's start looks like the end of a list. GCC writes
        # lists that begin with one. Functions inlined into this one have their own ranges.
        return _Level(0, place) if dw.AT_RANGES in values else _NO_CODE
    waiting = [place]
    for level in reversed(above):
        if level.waiting is None:
            break
        waiting.append(level.waiting)
    for name, file, line in reversed(waiting):
        sink.inlined(name, ranges, file, line)
    return _Level(len(waiting))


def _end(sink: Sink, level: _Level) -> None:
    for _ in range(level.ends):
        sink.end()


def _sibling(unit: Unit, values: Values, after: int) -> int:
    """Return the start of the entry's next sibling if it is known and ahead, else ``after``."""
    value = values.get(dw.AT_SIBLING)
    goal = None if value is None else unit.reference(value)
    if goal is None or goal[0] is not unit.file or not after < goal[1] <= unit.end:
        return after
    return goal[1]
