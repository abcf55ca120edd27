"""Tell the functions by which HotSpot calls Java methods from those that do work. Pure.

Source: src/hotspot/share/runtime/javaCalls.cpp, prims/jni.cpp, thread.cpp, of 11 to 25.
"""

from __future__ import annotations

import re

from ....model import FrameKind, Function
from .names import STUBS

_NATIVE = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.TAIL_CALL)
_CALLS = re.compile(
    r"JavaCalls::call\w*|jni_invoke_(static|nonstatic)|jni_Call\w+|thread_entry"
    r"|JavaThread::(run|thread_main_inner)|Thread::call_run|thread_native_entry"
    r"|os::os_exception_wrapper"
)
_STUBS = {"[call stub]", "[I2C/C2I adapters]", "[adapters]", "[MethodHandles adapters]"}


def is_plumbing(function: Function) -> bool:
    """Return True for a native function or stub by which HotSpot calls a method."""
    if function.kind not in _NATIVE:
        return False
    if function.module == STUBS:
        return function.name in _STUBS
    return _CALLS.fullmatch(function.name) is not None
