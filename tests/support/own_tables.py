"""A thread of ours with a descriptor table of its own, as the agent's thread has."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

Made = TypeVar("Made")

_CLONE_FILES = 0x400
_LIMIT_S = 120.0


@contextlib.contextmanager
def own_table(make: Callable[[], Made]) -> Iterator[tuple[int, Made]]:
    """Have a thread make something in its own table; the thread ends with the block.

    Yields:
        the thread's number, and what ``make`` returned there.
    """
    made: list[Made] = []
    is_made, is_done = threading.Event(), threading.Event()

    def body() -> None:
        assert ctypes.CDLL(None).unshare(_CLONE_FILES) == 0
        made.append(make())
        is_made.set()
        is_done.wait()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    try:
        assert is_made.wait(_LIMIT_S)
        assert thread.native_id is not None
        yield thread.native_id, made[0]
    finally:
        is_done.set()
        thread.join(_LIMIT_S)
