"""Read objects of Ruby's heap: strings, arrays, the hash tables of classes.

Source: include/ruby/internal/core/{rbasic,rstring,rarray}.h, st.c, of 3.1 to 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....linux.process_memory import ProcessMemory

TYPE_MASK, STRING, ARRAY, INTERNAL = 0x1F, 5, 7, 0x1A
IS_OUTSIDE = 0x2000  # of a string: its characters are not in it. Of an array: its elements are
_ELEMENTS, _LENGTH, _POINTER = 16, 16, 32  # of an array
_SHORT_LENGTH_SHIFT, _SHORT_LENGTH_MASK = 15, 0x7F  # of an array that holds its elements
_SHORT_TEXT_MASK = 31
MAX_TEXT_BYTES = 4096
_TABLE_END, _TABLE_ENTRIES, _ENTRY_BYTES = 40, 48, 24
_MAX_ENTRIES = 512


def text_of(memory: ProcessMemory, layout: Mapping[str, int], string: int) -> bytes | None:
    """Return the characters of a string; None if it is none, or an unlikely long one.

    Args:
        memory: the memory of the process.
        layout: offsets, by the names of ``abi.RUBY_RECIPE_NAMES``.
        string: its address.

    Raises:
        MemoryReadError: it cannot be read.
    """
    flags = memory.word(string)
    if flags & TYPE_MASK != STRING:
        return None
    text, length = string + layout["string_compact"], memory.word(string + layout["string_length"])
    if flags & IS_OUTSIDE:
        text = memory.word(string + layout["string_pointer"])
    elif "string_shift" in layout:
        length = flags >> layout["string_shift"] & _SHORT_TEXT_MASK
    if length > MAX_TEXT_BYTES:
        return None
    return memory.read(text, length) if length else b""


def element(memory: ProcessMemory, array: int, index: int) -> int:
    """Return an element of an array; 0 if it is none, or has no such element.

    Raises:
        MemoryReadError: it cannot be read.
    """
    flags = memory.word(array)
    if flags & TYPE_MASK != ARRAY:
        return 0
    if flags & IS_OUTSIDE:
        length, start = flags >> _SHORT_LENGTH_SHIFT & _SHORT_LENGTH_MASK, array + _ELEMENTS
    else:
        length, start = memory.word(array + _LENGTH), memory.word(array + _POINTER)
    return memory.word(start + 8 * index) if index < length else 0


def variables(memory: ProcessMemory, table: int) -> Iterator[tuple[int, int]]:
    """Yield keys and values of a hash table (``st_table``), the first few hundred.

    Raises:
        MemoryReadError: it cannot be read.
    """
    entries, end = memory.word(table + _TABLE_ENTRIES), memory.word(table + _TABLE_END)
    for index in range(min(end, _MAX_ENTRIES)):
        at = entries + _ENTRY_BYTES * index
        yield memory.word(at + 8), memory.word(at + 16)
