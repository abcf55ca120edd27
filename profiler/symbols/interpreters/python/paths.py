"""Shorten the file names of Python code, and say whose the code is.

``co_filename`` is a path, or a name in angle brackets for code that is in no file. Pure.
"""

from __future__ import annotations

import re

from ..origin import Origin

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/(.+)", re.DOTALL)
# Unpacked, or in the zip file that embedded interpreters have.
_STDLIB = re.compile(
    r".*?/lib(?:32|64)?/(?:(?:python|pypy)3\.\d+t?|python3\d+t?\.zip)/(.+)", re.DOTALL
)
_FROZEN = "<frozen "
# In old notebooks the number of the cell is in the name; the newer ones have a hash of its text.
_CELL = re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>")
# Code that packages make while they run.
_GENERATED = re.compile(r"<(?:__array_function__ internals|decorator-gen-|attrs generated )")


def short_path(file: str) -> str:
    """Return a file name as people know it.

    Relative to the folder of packages or of the standard library, else its last two parts. Names of
    code that is in no file stay as they are.
    """
    if cell := _CELL.fullmatch(file):
        return f"In[{cell[1]}]"
    if file.startswith("<"):
        return file
    for pattern in (_PACKAGES, _STDLIB):
        if match := pattern.fullmatch(file):
            return match[1]
    return "/".join(part for part in file.split("/")[-2:] if part)


def origin_of_file(file: str) -> Origin:
    """Return whose the code in a file is."""
    if file.startswith(_FROZEN):
        return Origin.STDLIB
    if _PACKAGES.fullmatch(file) or _GENERATED.match(file):
        return Origin.LIBRARY
    return Origin.STDLIB if _STDLIB.fullmatch(file) else Origin.PROJECT
