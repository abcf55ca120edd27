"""An independent reader of Python's frames in another process: the oracle for the agent's walk.

It follows a recipe as ``recipe.h`` describes it, in Python and without hurry, so it is right only
for threads that do not run meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flametap.linux.process_memory import ProcessMemory
from flametap.symbols.interpreters.recipe import Recipe
from flametap.wire.abi import NO_POSITION, PYTHON_CFRAME_ENTRIES, PYTHON_CFRAMES, PYTHON_ENTRIES
from flametap.wire.events import Code, CodePart

MAX_FRAMES = 10_000
FIRST_ENTRY_OWNER = 3


@dataclass(frozen=True)
class PythonFrame:
    """One frame."""

    code_addr: int
    position: int  # in code units of 2 bytes; NO_POSITION if it has not begun


@dataclass(frozen=True)
class PythonThread:
    """One thread state."""

    pointer: int  # pthread_self()
    tid: int  # 0 before 3.11
    frames: list[PythonFrame]  # leaf first


class Walker:
    """Reads the frames and codes of one interpreter."""

    def __init__(self, memory: ProcessMemory, recipe: Recipe) -> None:
        self.memory = memory
        self.recipe = recipe

    def threads(self) -> list[PythonThread]:
        """Every thread state of every interpreter state."""
        recipe, word = self.recipe, self.memory.word
        found = []
        interpreter = word(recipe["runtime_addr"] + recipe["runtime_head"])
        while interpreter:
            state = word(interpreter + recipe["interpreter_threads"])
            while state:
                tid = word(state + recipe["thread_tid"]) if "thread_tid" in recipe else 0
                pointer = word(state + recipe["thread_pointer"])
                found.append(PythonThread(pointer, tid, list(self._frames(state))))
                state = word(state + recipe["thread_next"])
            interpreter = word(interpreter + recipe["interpreter_next"])
        return found

    def _frames(self, state: int) -> Iterator[PythonFrame]:
        recipe, word = self.recipe, self.memory.word
        walk = recipe["walk"]
        if walk in (PYTHON_CFRAMES, PYTHON_CFRAME_ENTRIES):
            frame = word(word(state + recipe["thread_cframe"]) + recipe["cframe_frame"])
        else:
            frame = word(state + recipe["thread_frame"])
        for _ in range(MAX_FRAMES):
            if not frame:
                return
            has_owner = walk in (PYTHON_CFRAME_ENTRIES, PYTHON_ENTRIES)
            owner = self.memory.read(frame + recipe["frame_owner"], 1)[0] if has_owner else 0
            if owner < FIRST_ENTRY_OWNER:
                code = word(frame + recipe["frame_code"]) & ~recipe["frame_code_tags"]
                assert word(code + recipe["object_type"]) == recipe["code_type_addr"]
                if not self._is_init_shim(code):
                    yield PythonFrame(code, self._position(frame, code))
            frame = word(frame + recipe["frame_previous"])
        raise AssertionError("frames without end")

    def _is_init_shim(self, code: int) -> bool:
        """``_Py_InitCleanup``. Frozen modules' code lies in the file, too, up to 3.12."""
        recipe, word = self.recipe, self.memory.word
        if not recipe["image_start"] <= code < recipe["image_end"]:
            return False
        return word(code + recipe["code_name"]) == word(code + recipe["code_file_name"])

    def _position(self, frame: int, code: int) -> int:
        recipe = self.recipe
        unit = recipe["frame_position_unit"]
        if unit:
            index = self.memory.integer(frame + recipe["frame_position"], 4, signed=True)
            return NO_POSITION if index < 0 else index * unit // 2
        pointer = self.memory.word(frame + recipe["frame_position"])
        position = (pointer - code - recipe["code_bytes"]) // 2
        return position if 0 <= position < NO_POSITION else NO_POSITION

    def code(self, addr: int, code_id: int) -> Code:
        """What the agent sends about a code object."""
        recipe = self.recipe
        parts = [
            self._string(addr, "code_name"),
            self._string(addr, "code_qualified_name"),
            self._string(addr, "code_file_name"),
            self._bytes(addr, "code_line_table"),
        ]
        line = self.memory.integer(addr + recipe["code_first_line"], 4, signed=True)
        return Code(code_id, recipe["id"], False, tuple(parts), (line, 0))

    def _string(self, addr: int, name: str) -> CodePart:
        recipe, memory = self.recipe, self.memory
        if name not in recipe:
            return CodePart(b"", 1, False)
        string = memory.word(addr + recipe[name])
        length = memory.word(string + recipe["string_length"])
        state = memory.integer(string + recipe["string_state"], 4) >> recipe["string_kind_shift"]
        kind, is_compact, is_ascii = state & 7, state >> 3 & 1, state >> 4 & 1
        if not is_compact:
            place = memory.word(string + recipe["string_compact"])
        else:
            place = string + recipe["string_ascii" if is_ascii else "string_compact"]
        return CodePart(memory.read(place, length * kind), kind, False)

    def _bytes(self, addr: int, name: str) -> CodePart:
        recipe, memory = self.recipe, self.memory
        bytes_addr = memory.word(addr + recipe[name])
        size = memory.word(bytes_addr + recipe["bytes_length"])
        return CodePart(memory.read(bytes_addr + recipe["bytes_data"], size), 1, False)
