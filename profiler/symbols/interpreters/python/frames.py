"""Walk the threads and frames of an interpreter from outside, as a recipe describes them.

For threads that do not run meanwhile: the caller finds out. All lists have limits; one that ends in
memory that cannot be read is cut there.

Source: ``agent/recipe.h``; Include/internal/pycore_frame.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import NO_POSITION
from ....wire.events import CodePart
from ..recipe import Recipe
from .chains import NO_POINTER, first_frame, interpreters, is_entry, lock_of, thread_states
from .line_table import LineTable
from .strings import read_string
from .text import MAX_CHARACTERS, file_text, name_text

MAX_STATES, MAX_FRAMES = 4096, 2048
_MAX_TABLE_BYTES = 1 << 20
# Offset of the kernel's number of a thread from pthread_self(): glibc, nptl/descr.h, x86-64.
_GLIBC_TID = 720


@dataclass(frozen=True)
class FrameAt:
    """One frame of a Python function. ``position`` counts code units of 2 bytes."""

    addr: int
    code: int
    position: int


@dataclass(frozen=True)
class StateAt:
    """One thread state."""

    addr: int
    interpreter: int
    pointer: int  # pthread_self()
    tid: int  # as the process itself sees it; 0 if unknown


class CodeAt:
    """One code object: its names and its lines."""

    def __init__(self, name: str, qualified_name: str, file: str, lines: LineTable) -> None:
        self.name = name
        self.qualified_name = qualified_name  # "" before 3.11
        self.file = file
        self._lines = lines

    @property
    def shown_name(self) -> str:
        """The best name of it."""
        return self.qualified_name or self.name

    def line_at(self, position: int) -> int:
        """Return the line at a position; 0 if it is unknown."""
        return self._lines.line_at(position)


class Frames:
    """Reads the threads, frames and code objects of one interpreter.

    Args:
        memory: of the process.
        recipe: of the interpreter.
        version: (3, 12), for example.
    """

    def __init__(self, memory: ProcessMemory, recipe: Recipe, version: tuple[int, int]) -> None:
        self.memory = memory
        self._recipe = recipe
        self._version = version
        self._codes: dict[int, CodeAt] = {}

    def interpreters(self) -> Iterator[int]:
        """Yield the interpreter states.

        Raises:
            MemoryReadError: the list cannot be read.
        """
        return interpreters(self.memory, self._recipe)

    def states(self) -> list[StateAt]:
        """Return all thread states.

        Raises:
            MemoryReadError: a list cannot be read, or changes meanwhile.
        """
        recipe, memory = self._recipe, self.memory
        found: list[StateAt] = []
        for interpreter in self.interpreters():
            most = MAX_STATES - len(found)
            for state in thread_states(memory, recipe, interpreter, most):
                pointer = memory.word(state + recipe["thread_pointer"])
                found.append(StateAt(state, interpreter, pointer, self._tid(state, pointer)))
        return found

    def _tid(self, state: int, pointer: int) -> int:
        if "thread_tid" in self._recipe:
            return self.memory.word(state + self._recipe["thread_tid"])
        try:
            return self.memory.integer(pointer + _GLIBC_TID, 4) if pointer else 0
        except MemoryReadError:
            return 0

    def lock_holder(self, interpreter: int) -> int:
        """Return the state that holds the lock of an interpreter; 0 for none, -1 if unknown."""
        recipe, memory = self._recipe, self.memory
        try:
            lock = lock_of(memory, recipe, interpreter)
            if not lock or "gil_locked" not in recipe:
                return -1
            is_locked = memory.integer(lock + recipe["gil_locked"], 4, signed=True) == 1
            return memory.word(lock + recipe["gil_holder"]) if is_locked else 0
        except MemoryReadError:
            return -1

    def frames(self, state: int) -> list[FrameAt]:
        """Return the frames of a thread state, leaf first.

        Raises:
            MemoryReadError: one of them cannot be read.
        """
        recipe, memory = self._recipe, self.memory
        frame = first_frame(memory, recipe, state)
        found: list[FrameAt] = []
        for _ in range(2 * MAX_FRAMES):
            if frame < NO_POINTER or len(found) >= MAX_FRAMES:
                return found
            if not is_entry(memory, recipe, frame):
                self._add(frame, found)
            frame = memory.word(frame + recipe["frame_previous"])
        raise MemoryReadError("the frames have no end")

    def frame_at(self, frame: int) -> FrameAt:
        """Return what runs in a frame.

        Raises:
            MemoryReadError: it is none.
        """
        found: list[FrameAt] = []
        self._add(frame, found)
        if not found:
            raise MemoryReadError(f"{frame:#x} is no frame of a function")
        return found[0]

    def _add(self, frame: int, found: list[FrameAt]) -> None:
        recipe, memory = self._recipe, self.memory
        code = memory.word(frame + recipe["frame_code"]) & ~recipe["frame_code_tags"]
        if memory.word(code + recipe["object_type"]) != recipe["code_type_addr"]:
            raise MemoryReadError(f"the frame at {frame:#x} has no code")
        if not self._is_init_shim(code):
            found.append(FrameAt(frame, code, self._position(frame, code)))

    def _is_init_shim(self, code: int) -> bool:
        """Return whether it is ``_Py_InitCleanup``; it alone has one string for name and file."""
        recipe, memory = self._recipe, self.memory
        if not recipe["image_start"] <= code < recipe["image_end"]:
            return False
        name = memory.word(code + recipe["code_name"])
        return name == memory.word(code + recipe["code_file_name"])

    def _position(self, frame: int, code: int) -> int:
        recipe, memory = self._recipe, self.memory
        unit = recipe["frame_position_unit"]
        if unit:
            index = memory.integer(frame + recipe["frame_position"], 4, signed=True)
            return NO_POSITION if index < 0 else index * unit // 2
        position = memory.word(frame + recipe["frame_position"]) - code - recipe["code_bytes"]
        return position // 2 if 0 <= position // 2 < NO_POSITION else NO_POSITION

    # ------------------------------------------------------------------ code objects

    def code(self, addr: int) -> CodeAt:
        """Return a code object.

        Raises:
            MemoryReadError: it cannot be read.
        """
        known = self._codes.get(addr)
        if known is None:
            recipe, memory = self._recipe, self.memory
            first_line = memory.integer(addr + recipe["code_first_line"], 4, signed=True)
            table = memory.word(addr + recipe["code_line_table"])
            size = memory.word(table + recipe["bytes_length"])
            raw = memory.read(table + recipe["bytes_data"], min(size, _MAX_TABLE_BYTES))
            is_cut = size > _MAX_TABLE_BYTES
            known = self._codes[addr] = CodeAt(
                name_text(self._string(addr, "code_name")),
                name_text(self._string(addr, "code_qualified_name")),
                file_text(self._string(addr, "code_file_name")),
                LineTable(self._version, raw, first_line, is_cut),
            )
        return known

    def _string(self, code: int, field: str) -> CodePart:
        """Return one of the strings of a code object; of a long file name, the end."""
        recipe, memory = self._recipe, self.memory
        if field not in recipe:
            return CodePart(b"", 1, False)
        return read_string(
            memory,
            recipe,
            memory.word(code + recipe[field]),
            MAX_CHARACTERS,
            from_end=field == "code_file_name",
        )[0]
