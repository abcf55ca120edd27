"""Read the names that a program gave to its Python threads: ``threading.Thread(name=...)``.

Up to 3.13 the interpreter keeps them to itself; later ones tell the kernel. They are in the
dictionary ``threading._active``, which may change while it is read. So a name counts only if two
readings in a row agree, and the thread object says itself which thread it stands for.

Source: Lib/threading.py of 3.8 to 3.13.
"""

from __future__ import annotations

import contextlib

from ....linux.process_memory import MemoryReadError
from .bounded_memory import LimitReached
from .frames import Frames
from .object_layout import IS_INT, IS_STRING
from .objects import Objects

MAX_THREADS = 4096
_MAX_NAME = 256


def thread_names(frames: Frames, objects: Objects) -> dict[int, str]:
    """Return the names by thread id, as the process itself sees it, but for those that change.

    Args:
        frames, objects: the readers of one interpreter.

    Raises:
        MemoryReadError: something is damaged, or has just been freed.
    """
    pointers = {state.pointer: state.tid for state in frames.states()}
    found: dict[int, str] = {}
    for interpreter in frames.interpreters():
        first = _names(objects, interpreter, pointers)
        again = _names(objects, interpreter, pointers) if first else {}
        found |= {tid: name for tid, name in first.items() if again.get(tid) == name}
    return found


def module(objects: Objects, interpreter: int, name: str) -> int:
    """Return the dictionary of a loaded module; 0 if it is not loaded.

    Raises:
        MemoryReadError: something is damaged.
    """
    modules = objects.memory.word(interpreter + objects.layout.modules)
    found = objects.lookup(modules, name) if modules else 0
    # struct PyModuleObject: the dictionary comes first.
    return objects.memory.word(found + objects.recipe["object_type"] + 8) if found else 0


def _names(objects: Objects, interpreter: int, pointers: dict[int, int]) -> dict[int, str]:
    threading = module(objects, interpreter, "threading")
    active = objects.lookup(threading, "_active") if threading else 0
    found: dict[int, str] = {}
    for key, thread in objects.pairs(active, MAX_THREADS)[0] if active else ():
        try:
            pointer = objects.integer(key) or 0
            tid = pointers.get(pointer)
            if tid and (name := _name(objects, thread, pointer, tid)):
                found[tid] = name
        except LimitReached:
            raise
        except MemoryReadError:
            continue  # this one is damaged, or has just been freed
    return found


def _name(objects: Objects, thread: int, pointer: int, tid: int) -> str:
    """Return the name in a thread object; "" if it is not the object of this thread."""
    name = ident = native = 0
    for key, value in objects.attributes(thread):
        text = objects.key(key)
        if text == "_name":
            name = value
        elif text == "_ident":
            ident = value
        elif text == "_native_id":
            native = value
    if not name or not ident:
        return ""
    kinds = objects.type_of(name), objects.type_of(ident)
    if not kinds[0].has(IS_STRING) or not kinds[1].has(IS_INT):
        return ""
    if objects.integer(ident) != pointer:
        return ""
    with contextlib.suppress(MemoryReadError):  # None: not set yet
        if native and objects.integer(native) not in (tid, None):
            return ""
    return objects.name(name, _MAX_NAME)
