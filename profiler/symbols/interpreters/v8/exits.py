"""Read where optimised code goes on when V8 throws it away.

At its end there is one call for each place from which it may have to go on in the interpreter. When
it is thrown away, V8 changes the return addresses on stacks to these calls: the place where a
function then is, is found by the number of its call. For each, the code's own data say where the
place is, or, from 13 on, its table of calls does. That table is believed if all of it fits.

Source: src/deoptimizer/deoptimizer.cc; src/codegen/safepoint-table.{h,cc};
src/objects/deoptimization-data.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .heap import TAG, Heap, small_integer

_MAX_WORDS = 1 << 18
_HEADER, _WORDS = 3, 3  # where exits begin, how many of two kinds; then for each exit
_EXIT_BYTES = {b"\x41\xff\x55": 4, b"\x41\xff\x95": 7}  # call *n(%r13), n of one or four bytes
_TABLE_HEADER = 16
_MAX_CALLS = 1 << 14
_MOST_EXTRA = 16  # bytes of an entry about registers and slots


class DeoptExits:
    """The exits of one piece of code.

    Args:
        start: offset of the first exit.
        size: bytes of each; 0 if unknown.
        eager: how many come first that no call returns to.
        sources: for each exit the offset behind the call that it stands for; -1 if unknown.
    """

    def __init__(self, start: int, size: int, eager: int, sources: Sequence[int]) -> None:
        self._start, self._size, self._eager, self._sources = start, size, eager, sources

    def source_of(self, offset: int) -> int:
        """Return the offset that an offset stands for; -1 if it is in an exit that is not known."""
        if offset + 1 < self._start:
            return offset
        if not self._size:
            return -1
        index, rest = divmod(offset + 1 - self._start, self._size)
        is_running = rest == 1  # else a call returns to it
        if not is_running and (rest or index < self._eager):
            return offset if offset < self._start else -1
        source = self._sources[index] if index < len(self._sources) else -1
        return source - 1 if source > 0 else -1


def read_exits(heap: Heap, tagged: int, deopt: int) -> DeoptExits | None:
    """Return the exits of a piece of optimised code; None if it has none.

    Args:
        heap: the heap it lies in.
        tagged: the Code.
        deopt: its DeoptimizationData.

    Raises:
        MemoryReadError: it cannot be read.
    """
    layout = heap.layout
    length = heap.array_length(deopt, _MAX_WORDS)
    first = layout.deopt_positions + 1
    words = [small_integer(word) for word in heap.words_of(deopt, length)[first:]] if length else []
    if len(words) < _HEADER + _WORDS:
        return None
    start, eager = words[0] or 0, words[1] or 0
    code_bytes = heap.integer(tagged, layout.code_bytes)
    if not 0 < start < code_bytes:
        return None
    at = tagged - TAG + layout.code_instructions
    if layout.code_start is not None:
        at = heap.field(tagged, layout.code_start)
    size = _EXIT_BYTES.get(heap.memory.read(at + start, 3), 0)
    own = [start + size * index for index in range(len(words[_HEADER:]) // _WORDS)]
    sources = [-1 if each is None else each for each in words[_HEADER + _WORDS - 1 :: _WORDS]]
    if size and sources == own:
        by_exit = _sources_by_exit(heap, at + code_bytes, frozenset(own))
        sources = [by_exit.get(each, -1) for each in own]
    return DeoptExits(start, size, eager, sources)


def _sources_by_exit(heap: Heap, end: int, exits: frozenset[int]) -> Mapping[int, int]:
    """Return where calls return to by their exits; nothing if the table is not understood."""
    at = (end + 3) & ~3
    count, config = heap.memory.integer(at + 4, 4), heap.memory.integer(at + 8, 4)
    pc_bytes, index_bytes = config >> 4 & 7, config >> 7 & 7
    least = 2 * pc_bytes + index_bytes + (config >> 1 & 7)
    if not config & 1 or not 0 < count <= _MAX_CALLS or not pc_bytes:
        return {}
    raw = heap.memory.read_some(at + _TABLE_HEADER, count * (least + _MOST_EXTRA))
    for extra in range(_MOST_EXTRA):
        if len(raw) < count * (least + extra):
            break
        found = _entries(raw, count, least + extra, pc_bytes, index_bytes)
        offsets = [source for source, _ in found]
        ends = [exit_ for _, exit_ in found if exit_ >= 0]
        if (
            offsets == sorted(set(offsets))
            and len(set(ends)) == len(ends)
            and exits.issuperset(ends)
        ):
            return {exit_: source for source, exit_ in found}
    return {}


def _entries(
    raw: bytes, count: int, size: int, pc_bytes: int, index_bytes: int
) -> list[tuple[int, int]]:
    entries = []
    for at in range(0, count * size, size):
        source = int.from_bytes(raw[at : at + pc_bytes], "little")
        at += pc_bytes + index_bytes
        entries.append((source, int.from_bytes(raw[at : at + pc_bytes], "little") - 1))
    return entries
