"""Follow a coroutine to what it waits for: the chain of awaits, with file and line of each.

Only for coroutines that do not run meanwhile; one that runs ends the chain, its frames are those of
its thread.

Source: Objects/genobject.c (_PyGen_yf); Include/internal/pycore_frame.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError
from .chains import NO_POINTER
from .frames import FrameAt, Frames
from .object_layout import WRAPPED_COROUTINE
from .objects import Objects

MAX_DEPTH = 200
_GENERATORS = frozenset({"coroutine", "generator", "async_generator"})
_WRAPPERS = frozenset(
    {
        "coroutine_wrapper",
        "async_generator_asend",
        "async_generator_athrow",
        "anext_awaitable",
    }
)
# In a frame: the top of its stack. 3.8 and 3.9 a pointer, 3.10 a number with the stack's bottom,
# 3.11 to 3.13 a number that counts the variables, too, and later a pointer again.
_TOP_8, _DEPTH_10, _BOTTOM_10, _TOP_11 = 72, 80, 64, 64
_MAX_STACK = 1 << 16


@dataclass(frozen=True)
class Chain:
    """What a coroutine is in.

    Attributes:
        frames: of suspended coroutines, the outermost first.
        running: the frame of the one that runs now, in which the chain ends; 0 if none does.
        awaited: the object that the innermost one waits for; 0 if it has not begun, or does not
            wait.
        is_cut: the chain is longer, or damaged.
    """

    frames: tuple[FrameAt, ...]
    running: int
    awaited: int
    is_cut: bool = False


class Coroutines:
    """Follows coroutines.

    Args:
        frames, objects: the readers of the interpreter.
    """

    def __init__(self, frames: Frames, objects: Objects) -> None:
        self._frames = frames
        self._objects = objects

    def chain(self, addr: int) -> Chain:
        """Follow the coroutine at an address."""
        found: list[FrameAt] = []
        seen: set[int] = set()
        try:
            while addr >= NO_POINTER and len(seen) < MAX_DEPTH and addr not in seen:
                seen.add(addr)
                name = self._objects.type_of(addr).name
                if name in _WRAPPERS:
                    addr = self._objects.memory.word(addr + WRAPPED_COROUTINE)
                    continue
                if name not in _GENERATORS:
                    return Chain(tuple(found), 0, addr)
                frame, state = self._frame(addr)
                if not frame:
                    return Chain(tuple(found), 0, 0)
                if state in self._objects.layout.states_running:
                    return Chain(tuple(found), frame, 0)
                found.append(self._frames.frame_at(frame))
                waits = state in self._objects.layout.states_waiting
                addr = self._awaited(frame) if waits else 0
        except MemoryReadError:
            return Chain(tuple(found), 0, 0, is_cut=True)
        return Chain(tuple(found), 0, 0, is_cut=addr >= NO_POINTER)

    def _frame(self, addr: int) -> tuple[int, int]:
        """Return frame and state of a generator; the frame is 0 if it has ended."""
        layout, memory = self._objects.layout, self._objects.memory
        if layout.version < (3, 11):
            frame = memory.word(addr + layout.generator_frame)
            if not frame:
                return 0, 0
            return frame, memory.integer(frame + layout.generator_state, 1, signed=True)
        state = memory.integer(addr + layout.generator_state, 1, signed=True)
        is_over = state >= 5 if layout.version >= (3, 15) else state > 0
        return 0 if is_over else addr + layout.generator_frame, state

    def _awaited(self, frame: int) -> int:
        """Return what is on top of a suspended frame's stack; 0 for nothing."""
        layout, memory = self._objects.layout, self._objects.memory
        if layout.version < (3, 10):
            top = memory.word(frame + _TOP_8)
        elif layout.version < (3, 11):
            depth = memory.integer(frame + _DEPTH_10, 4, signed=True)
            top = memory.word(frame + _BOTTOM_10) + 8 * depth if 0 < depth < _MAX_STACK else 0
        elif layout.version < (3, 14):
            depth = memory.integer(frame + _TOP_11, 4, signed=True)
            top = frame + layout.frame_variables + 8 * depth if 0 < depth < _MAX_STACK else 0
        else:
            top = memory.word(frame + _TOP_11)
        if top < NO_POINTER:
            return 0
        # Since 3.15 the index of a loop without an iterator may lie above it.
        place = top - (16 if layout.version >= (3, 15) else 8)
        return memory.word(place) & ~self._objects.recipe["frame_code_tags"]
