"""Read the local variables of a frame: names and the objects that they stand for.

A variable that has no value yet, or none any more, is left out. One that functions inside share is
in a cell, and shown by what the cell holds. Since 3.14 the low bits of a variable are a tag.

Source: Objects/frameobject.c; Include/internal/pycore_code.h, pycore_stackref.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError
from . import object_layout as at
from .chains import NO_POINTER
from .objects import Objects
from .strings import ObjectError

MAX_VARIABLES = 512  # of a frame
_VAR_POSITIONAL, _VAR_KEYWORDS = 4, 8  # co_flags
_INT_TAG = 3


class Variable(NamedTuple):
    """A local variable."""

    name: str
    is_argument: bool
    addr: int  # of its object


def variables(objects: Objects, frame: int, code: int) -> Iterator[Variable]:
    """Yield the variables of a frame that have a value, in the order of the code object.

    Args:
        objects: the reader.
        frame, code: addresses.

    Raises:
        MemoryReadError: the frame or its code is damaged.
    """
    layout, memory = objects.layout, objects.memory
    names, kinds, is_cut = _names(objects, code)
    n_arguments = _arguments(objects, code)
    raw = memory.read(frame + layout.frame_variables, len(names) * 8)
    tags = objects.recipe["frame_code_tags"]
    for index, (word,) in enumerate(struct.iter_unpack("<Q", raw)):
        addr = word & ~tags
        if addr < NO_POINTER or (tags and word & tags == _INT_TAG):
            continue
        if kinds[index] & at.KIND_HIDDEN:
            continue
        if kinds[index] & (at.KIND_CELL | at.KIND_FREE):
            addr = _in_cell(objects, addr)
        if addr:
            yield Variable(_name(objects, names[index]), index < n_arguments, addr)
    if is_cut:
        raise ObjectError("the frame has more variables than are shown")


def _names(objects: Objects, code: int) -> tuple[list[int], bytes, bool]:
    """Return the addresses of the names, the kinds, and whether there are too many."""
    memory, layout = objects.memory, objects.layout
    if layout.has_kinds:
        names, length = objects.items(memory.word(code + layout.code_names), MAX_VARIABLES)
        kinds, _ = objects.octets(memory.word(code + layout.code_names + 8), MAX_VARIABLES)
        count = memory.integer(code + layout.code_locals, 4, signed=True)
        if len(kinds) != len(names) or length != count:
            raise ObjectError(f"the names of the code at {code:#x} are damaged")
        return names, kinds, length > len(names)
    names, length = objects.items(memory.word(code + layout.code_names), MAX_VARIABLES)
    if length != memory.integer(code + layout.code_locals, 4, signed=True):
        raise ObjectError(f"the names of the code at {code:#x} are damaged")
    kinds = bytes(len(names))
    # co_freevars and co_cellvars follow co_varnames; in the frame, the cells come first.
    for field in (16, 8):
        if length > len(names):
            break
        more, count = objects.items(
            memory.word(code + layout.code_names + field), MAX_VARIABLES - len(names)
        )
        names, length = names + more, length + count
        kinds += bytes([at.KIND_CELL]) * len(more)
    return names, kinds, length > len(names)


def _arguments(objects: Objects, code: int) -> int:
    """Return how many of the first variables are arguments."""
    memory, layout = objects.memory, objects.layout
    positional = memory.integer(code + layout.code_arguments, 4)
    keywords = memory.integer(code + layout.code_arguments + 8, 4)
    flags = memory.integer(code + layout.code_flags, 4)
    return positional + keywords + bool(flags & _VAR_POSITIONAL) + bool(flags & _VAR_KEYWORDS)


def _in_cell(objects: Objects, addr: int) -> int:
    """Return what a cell holds, 0 for nothing; a value that is in no cell yet is itself."""
    if objects.type_of(addr).name != "cell":
        return addr
    return objects.memory.word(addr + at.CELL_VALUE)


def _name(objects: Objects, addr: int) -> str:
    try:
        return objects.name(addr)
    except MemoryReadError:
        return "?"
