"""Follow a CPython's lists from outside, as a recipe describes them: states, frames, the lock.

All lists have limits, as the process may be hostile, and may run meanwhile.

Source: ``agent/recipe.h``; Include/internal/pycore_frame.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import PYTHON_CFRAME_ENTRIES, PYTHON_CFRAMES, PYTHON_ENTRIES
from ..recipe import Recipe

MAX_INTERPRETERS = 64
NO_POINTER = 4096  # below: marks, not addresses
_FIRST_ENTRY_OWNER = 3  # owners from here on: no function's frame


def interpreters(memory: ProcessMemory, recipe: Recipe) -> Iterator[int]:
    """Yield the interpreter states.

    Raises:
        MemoryReadError: the list cannot be read.
    """
    state = memory.word(recipe["runtime_addr"] + recipe["runtime_head"])
    for _ in range(MAX_INTERPRETERS):
        if not state:
            return
        yield state
        state = memory.word(state + recipe["interpreter_next"])


def thread_states(
    memory: ProcessMemory, recipe: Recipe, interpreter: int, most: int
) -> Iterator[int]:
    """Yield the thread states of an interpreter, ``most`` at most.

    Raises:
        MemoryReadError: the list cannot be read, or a state does not point back.
    """
    state = memory.word(interpreter + recipe["interpreter_threads"])
    for _ in range(most):
        if not state:
            return
        if memory.word(state + recipe["thread_interpreter"]) != interpreter:
            raise MemoryReadError("a thread state belongs to another interpreter")
        yield state
        state = memory.word(state + recipe["thread_next"])


def first_frame(memory: ProcessMemory, recipe: Recipe, state: int) -> int:
    """Return the innermost frame of a thread state; below ``NO_POINTER`` if it has none."""
    if recipe["walk"] not in (PYTHON_CFRAMES, PYTHON_CFRAME_ENTRIES):
        return memory.word(state + recipe["thread_frame"])
    cframe = memory.word(state + recipe["thread_cframe"])
    return memory.word(cframe + recipe["cframe_frame"]) if cframe else 0


def is_entry(memory: ProcessMemory, recipe: Recipe, frame: int) -> bool:
    """Return whether a frame is no function's, but where the interpreter's loop was entered."""
    if recipe["walk"] not in (PYTHON_CFRAME_ENTRIES, PYTHON_ENTRIES):
        return False
    return memory.integer(frame + recipe["frame_owner"], 1) >= _FIRST_ENTRY_OWNER


def lock_of(memory: ProcessMemory, recipe: Recipe, interpreter: int) -> int:
    """Return the address of the interpreter's lock; 0 if it is not known."""
    if "interpreter_gil" in recipe:
        return memory.word(interpreter + recipe["interpreter_gil"])
    return recipe.numbers.get("gil_addr", 0)
