"""Labels of functions in text: a Python function with its file, as Python's users know it."""

from __future__ import annotations

from ..model import FrameKind, Function


def label(function: Function, line: int = 0, *, full_filenames: bool = False) -> str:
    """Return a function's label: ``qualname (short/path.py:LINE)``, or the name if it is native.

    Args:
        function: of any language.
        line: 0 for a label without it.
        full_filenames: the whole path of a Python function's file.
    """
    if function.kind is not FrameKind.PYTHON:
        return function.name
    return f"{function.name} ({place(function, line, full_filenames=full_filenames)})"


def place(function: Function, line: int = 0, *, full_filenames: bool = False) -> str:
    """Return the file of a Python function, with a line unless that is 0."""
    long, short = function.file, function.module
    file = ((long or short) if full_filenames else (short or long)) or "?"
    return f"{file}:{line}" if line else file
