"""Shorten the file names of JavaScript code, and say whose the code is. Pure."""

from __future__ import annotations

import re

from ..origin import Origin

_PACKAGE = re.compile(r".*/node_modules/((?:@[^/]+/)?[^/]+)(?:/(.*))?", re.DOTALL)
_BUILT_IN = re.compile(r"(?:node|deno|bun|ext):.*", re.DOTALL)


def short_path(file: str) -> str:
    """Return a file name as people know it.

    Relative to the folder of packages, else its last two parts. Names of the engine's own modules
    stay as they are.
    """
    if _BUILT_IN.match(file):
        return file
    if match := _PACKAGE.fullmatch(file):
        return f"{match[1]}/{match[2]}" if match[2] else match[1]
    return "/".join(part for part in file.split("/")[-2:] if part)


def module_of(file: str) -> str:
    """Return the package that a file belongs to; its short name if it is in none."""
    if match := _PACKAGE.fullmatch(file):
        return match[1]
    return short_path(file) or "[javascript]"


def is_built_in(file: str) -> bool:
    """Return whether a script is one of the engine's own modules."""
    return _BUILT_IN.match(file) is not None


def origin_of_script(file: str) -> Origin:
    """Return whose the code in a script is."""
    if _PACKAGE.fullmatch(file):
        return Origin.LIBRARY
    return Origin.STDLIB if _BUILT_IN.match(file) else Origin.PROJECT
