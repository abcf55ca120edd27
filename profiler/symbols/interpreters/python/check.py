"""Check a recipe against a running CPython before it is used.

A build for debugging, or one that a vendor has changed, may lay out its structures in another way.
So we follow the recipe from the interpreters over thread states to the first frames, and compare
what must be equal: each state points back to its interpreter, its thread is one, a frame's code is
a code object, and the name of its file a string.

The process runs meanwhile: what is being changed looks wrong for a moment. So a recipe is wrong
only if it is so several times, and for every thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ..found import Checked
from ..recipe import Recipe
from .chains import NO_POINTER, first_frame, interpreters, is_entry, lock_of, thread_states

_TRIES = 5
_PAUSE_S = 0.002  # between two tries
_MAX_THREADS = 64  # that are looked at in each
_MAX_FRAMES = 8  # of each thread
_MAX_NAME = 1 << 16  # characters of a file name
_MAX_LINE = 1 << 24
_CODE_TYPE_NAME = b"code\0"


class Types(NamedTuple):
    """The addresses that the types of code objects and strings may have; none if unknown."""

    code: frozenset[int]
    string: frozenset[int]


class Result(NamedTuple):
    """The outcome of a check."""

    checked: Checked
    reason: str = ""  # what is wrong
    has_started: bool = True  # False: there is no interpreter state yet
    code_type: int = 0  # the type that the code objects had, 0 if none was seen
    has_lock: bool = True  # False: the words of its lock are not where the recipe says


def check(memory: ProcessMemory, recipe: Recipe, types: Types) -> Result:
    """Compare a recipe with a running interpreter."""
    result = Result(Checked.WRONG, "its state cannot be read")
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            result = _Look(memory, recipe, types).result()
        except MemoryReadError:
            continue
        if result.checked is not Checked.WRONG and result.has_lock:
            break
    return result


class _Look:
    """One look at all threads."""

    def __init__(self, memory: ProcessMemory, recipe: Recipe, types: Types) -> None:
        self._memory = memory
        self._recipe = recipe
        self._types = types
        self._code_type = 0

    def result(self) -> Result:
        """Return what this look says.

        Raises:
            MemoryReadError: the list of interpreters cannot be read.
        """
        recipe = self._recipe
        found = list(interpreters(self._memory, recipe))
        if not found:
            return Result(Checked.UNSEEN, has_started=False)
        states = [
            state
            for each in found
            for state in thread_states(self._memory, recipe, each, _MAX_THREADS)
        ]
        if not states:
            return Result(Checked.UNSEEN)
        threads = [self._thread_is_one(state) for state in states]
        if False in threads and True not in threads:
            return Result(Checked.WRONG, "its thread states are not where they should be")
        frames = [outcome for state in states for outcome in self._frames(state)]
        if not frames:
            return Result(Checked.UNSEEN, has_lock=self._has_lock(found[0]))
        if True not in frames:
            return Result(Checked.WRONG, "its frames are not where they should be")
        lock = self._has_lock(found[0])
        is_known = "code_type_addr" in recipe and recipe["code_type_addr"] != 0
        if not is_known and not self._code_type:
            return Result(Checked.WRONG, "its code objects cannot be told from others")
        return Result(Checked.FITS, code_type=self._code_type, has_lock=lock)

    def _thread_is_one(self, state: int) -> bool | None:
        """Return whether a state's thread_id is a thread's; None if it has none yet.

        It is ``pthread_self()``, where every C library keeps the same address in the first word.
        """
        pointer = self._memory.word(state + self._recipe["thread_pointer"])
        if not pointer:
            return None
        try:
            return self._memory.word(pointer) == pointer
        except MemoryReadError:
            return False

    def _frames(self, state: int) -> Iterator[bool]:
        """Yield whether each of the first frames of a thread is one."""
        recipe, memory = self._recipe, self._memory
        try:
            frame = first_frame(memory, recipe, state)
            for _ in range(_MAX_FRAMES):
                if frame < NO_POINTER:
                    return
                if not is_entry(memory, recipe, frame):
                    yield self._is_frame(frame)
                frame = memory.word(frame + recipe["frame_previous"])
        except MemoryReadError:
            yield False

    def _is_frame(self, frame: int) -> bool:
        recipe, memory = self._recipe, self._memory
        try:
            code = memory.word(frame + recipe["frame_code"]) & ~recipe["frame_code_tags"]
            if code < NO_POINTER or not self._is_code(code):
                return False
            line = memory.integer(code + recipe["code_first_line"], 4, signed=True)
            return 0 <= line < _MAX_LINE and self._is_string(
                memory.word(code + recipe["code_file_name"])
            )
        except MemoryReadError:
            return False

    def _is_code(self, addr: int) -> bool:
        kind = self._memory.word(addr + self._recipe["object_type"])
        if self._types.code:
            is_code = kind in self._types.code
        else:
            # The first member of a type object is the pointer to its name.
            name = self._memory.word(kind + self._recipe["bytes_length"] + 8)
            is_code = self._memory.read(name, len(_CODE_TYPE_NAME)) == _CODE_TYPE_NAME
        if is_code:
            self._code_type = kind
        return is_code

    def _is_string(self, addr: int) -> bool:
        kind = self._memory.word(addr + self._recipe["object_type"])
        if self._types.string and kind not in self._types.string:
            return False
        return self._memory.word(addr + self._recipe["string_length"]) <= _MAX_NAME

    def _has_lock(self, interpreter: int) -> bool:
        """Return whether the words of the lock may be those of one."""
        recipe, memory = self._recipe, self._memory
        lock = lock_of(memory, recipe, interpreter)
        if not lock:
            return False
        locked = memory.integer(lock + recipe["gil_locked"], 4, signed=True)
        holder = memory.word(lock + recipe["gil_holder"])
        return locked in (-1, 0, 1) and holder % 8 == 0
