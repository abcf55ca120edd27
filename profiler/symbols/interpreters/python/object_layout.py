"""Offsets of CPython's objects, by version: what is read only when somebody asks for it.

In bytes, on x86-64 Linux, release builds with a global lock. Computed by a C compiler from each
version's headers; those of tasks, which are in no header, from running ones. The agent needs none
of them (its own are in ``offsets``). They are used only where the recipe fits, and every object is
checked by its type.

Source: Include/cpython, Include/internal, Modules/_asynciomodule.c of 3.8 to 3.15.
"""

from __future__ import annotations

from dataclasses import dataclass

# The same in all versions.
TYPE_NAME, TYPE_SIZE, TYPE_FLAGS, TYPE_DICT = 24, 32, 168, 288
LONG_DIGITS, LONG_TAG, FLOAT_VALUE, LIST_ITEMS = 24, 16, 16, 24
LENGTH = 16  # of lists, tuples, bytes; of an int before 3.12, with its sign
DICT_USED, DICT_KEYS, DICT_VALUES = 16, 32, 40
SET_USED, SET_MASK, SET_TABLE, SET_ENTRY = 24, 32, 40, 16
CELL_VALUE, REFERENCE_OBJECT = 16, 16
METHOD_SELF = 24

# Bits of a type's flags. Objects of a subclass have the bit, too.
HAS_INLINE_VALUES, HAS_MANAGED_DICT = 1 << 2, 1 << 4
IS_INT, IS_LIST, IS_TUPLE, IS_BYTES, IS_STRING, IS_DICT = (1 << bit for bit in range(24, 30))
IS_TYPE = 1 << 31

# Of a future, and so of a task, in all versions.
FUTURE_LOOP, FUTURE_CALLBACK, FUTURE_CALLBACKS = 16, 24, 40
WRAPPED_COROUTINE = 16  # of what awaits a coroutine or a generator on behalf of another object

# Of a variable, since 3.11 (``co_localspluskinds``).
KIND_HIDDEN, KIND_CELL, KIND_FREE = 0x10, 0x40, 0x80


@dataclass(frozen=True)
class TaskLayout:
    """A task of ``_asyncio``. Since 3.14 its module describes a part of it (``asyncio_debug``)."""

    size: int
    state: int  # u32: 0 while it is pending
    waits_for: int
    coroutine: int
    name: int


@dataclass(frozen=True)
class ObjectLayout:
    """What differs from version to version."""

    version: tuple[int, int]
    modules: int  # in the interpreter's state
    cached_keys: int  # in a class
    code_arguments: int  # co_argcount; co_kwonlyargcount is 8 behind
    code_flags: int
    code_locals: int  # co_nlocals; since 3.11 co_nlocalsplus
    code_names: int  # co_varnames; since 3.11 co_localsplusnames
    frame_variables: int  # localsplus
    generator_frame: int  # a pointer; since 3.11 the frame itself
    generator_state: int  # i8; before 3.11 in the frame
    states_waiting: tuple[int, ...]  # of a coroutine that may await another
    states_running: tuple[int, ...]
    task: TaskLayout
    thread_loop: int  # in a thread's state: its event loop; before 3.13, the thread's dictionary
    tuple_items: int = 24

    @property
    def has_kinds(self) -> bool:
        """Variables have kinds, and cells are among them in one array."""
        return self.version >= (3, 11)


def _before_11(version: tuple[int, int], modules: int, keys: int, task: TaskLayout) -> ObjectLayout:
    is_10 = version == (3, 10)
    return ObjectLayout(
        version,
        modules,
        keys,
        code_arguments=16,
        code_flags=36,
        code_locals=28,
        code_names=72,
        frame_variables=352 if is_10 else 360,
        generator_frame=16,
        generator_state=108 if is_10 else 116,
        states_waiting=(-1,) if is_10 else (0,),
        states_running=(0,) if is_10 else (1,),
        task=task,
        thread_loop=152,
    )


def _since_11(
    version: tuple[int, int],
    modules: int,
    keys: int,
    waiting: tuple[int, ...],
    task: TaskLayout,
    thread_loop: int = 0,
    running: int = 0,
) -> ObjectLayout:
    is_11, is_14 = version == (3, 11), version >= (3, 14)
    return ObjectLayout(
        version,
        modules,
        keys,
        code_arguments=56 if is_11 else 52,
        code_flags=48,
        code_locals=76 if is_11 else 72,
        code_names=96,
        frame_variables=80 if is_14 else 72,
        generator_frame=80 if is_11 else 72,
        generator_state=75 if is_11 else 67,
        states_waiting=waiting,
        states_running=(running,),
        task=task,
        thread_loop=thread_loop,
        tuple_items=32 if is_14 else 24,
    )


_LAYOUTS = {
    layout.version: layout
    for layout in (
        _before_11((3, 8), 56, 872, TaskLayout(144, 72, 104, 112, 120)),
        _before_11((3, 9), 856, 864, TaskLayout(184, 80, 144, 152, 160)),
        _before_11((3, 10), 856, 872, TaskLayout(192, 88, 152, 160, 168)),
        _since_11((3, 11), 888, 872, (-1,), TaskLayout(176, 88, 128, 136, 144), 128),
        _since_11((3, 12), 944, 880, (-1,), TaskLayout(176, 88, 128, 136, 144), 112),
        _since_11((3, 13), 7656, 880, (-1, -2), TaskLayout(144, 96, 112, 120, 128), 304),
        _since_11((3, 14), 7688, 880, (-1, -2), TaskLayout(168, 104, 120, 128, 136)),
        _since_11((3, 15), 7592, 888, (1, 2, 3), TaskLayout(168, 104, 120, 128, 136), running=4),
    )
}


def layout_of(version: tuple[int, int]) -> ObjectLayout | None:
    """Return the layout of a minor version; None if it is not known."""
    return _LAYOUTS.get(version)
