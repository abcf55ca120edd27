"""Tell CPython's function that collects garbage, for builds with symbols. Pure.

Source: Modules/gcmodule.c (3.8 to 3.12), Python/gc.c and Python/gc_free_threading.c (3.13 to 3.15).
"""

from __future__ import annotations

import re

from ....model import FrameKind, Function
from .plumbing import CLONE

_NATIVE = (FrameKind.NATIVE, FrameKind.INLINED)
# One of them is on the stack exactly while garbage is collected. None calls another.
_NAMES = (
    "collect",  # 3.8, 3.9
    "gc_collect_main",
    "gc_collect_(young|increment|full)",  # 3.14
)
_COLLECTOR = re.compile(f"(?:{'|'.join(_NAMES)}){CLONE}")


def is_collector(function: Function) -> bool:
    """Return True for the function that collects garbage, if it is the interpreter's own."""
    return function.kind in _NATIVE and _COLLECTOR.fullmatch(function.name) is not None
