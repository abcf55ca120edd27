"""Keep the memory of a program with many short threads small: glibc's mallopt(3)."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_ARENAS = 2
_OWN_MAPPING_BYTES = 1 << 20


def keep_small() -> None:
    """Let threads share two heaps, and give large blocks back at once.

    By default glibc gives each thread a heap of its own, up to eight for each CPU. A thread that
    answers one request leaves ten megabytes in it. Only one thread at a time runs Python anyway.
    Other C libraries ignore this.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_ARENA_MAX, _ARENAS)
    mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
