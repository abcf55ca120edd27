"""Say whose code any function is. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from ...model import FrameKind, Function
from .hotspot import plumbing as hotspot
from .hotspot.packages import origin_of_package
from .origin import Origin
from .python.paths import origin_of_file
from .python.plumbing import is_plumbing
from .ruby import plumbing as ruby
from .ruby.paths import origin_of_ruby
from .v8 import plumbing as v8
from .v8.paths import origin_of_script

_KEPT = 1 << 16  # functions; each view asks for all of its own
# Files of CPython, HotSpot, node and Ruby. web/static/report/answers.js repeats it.
_RUNTIME = re.compile(r"(libpython|pypy|python)\d.*|libjvm\..*|(lib)?(node|ruby)([\d.-].*)?")


@lru_cache(_KEPT)
def is_runtime(function: Function) -> bool:
    """Return True for a native function in an interpreter's own file: memory, dictionaries, GC."""
    return _RUNTIME.fullmatch(function.module) is not None


@lru_cache(_KEPT)
def origin_of(function: Function) -> Origin:
    """Return whose code a function is."""
    if function.kind is FrameKind.PYTHON:
        return origin_of_file(function.file)
    if function.kind is FrameKind.JAVA:
        return origin_of_package(function.module)
    if function.kind is FrameKind.JAVASCRIPT:
        return origin_of_script(function.file)
    if function.kind is FrameKind.RUBY:
        return origin_of_ruby(function.file)
    return Origin.INTERPRETER if is_plumbing_of_any(function) else Origin.NATIVE


def is_plumbing_of_any(function: Function) -> bool:
    """Return True for a function by which an interpreter calls functions."""
    return any(
        says(function)
        for says in (is_plumbing, hotspot.is_plumbing, v8.is_plumbing, ruby.is_plumbing)
    )
