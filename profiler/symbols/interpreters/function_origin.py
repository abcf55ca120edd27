"""Say whose code any function is. Pure."""

from __future__ import annotations

from ...model import FrameKind, Function
from .origin import Origin
from .python.paths import origin_of_file
from .python.plumbing import is_plumbing


def origin_of(function: Function) -> Origin:
    """Return whose code a function is."""
    if function.kind is FrameKind.PYTHON:
        return origin_of_file(function.file)
    return Origin.INTERPRETER if is_plumbing(function) else Origin.NATIVE
