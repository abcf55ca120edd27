"""Compile the text of a search into a predicate on functions.

A text searches the names of functions, and the short paths of Python functions; ``module:…`` and
``file:…`` search modules and files instead. The rest is plain text, or a regular expression after
``re:`` (``module:re:^lib``). A text with an upper-case letter is case-sensitive.

Regular expressions run in RE2: its time is linear in the length of the name, and it releases the
interpreter's lock. Python's ``re`` can take exponential time with the lock held, which would stall
the recording. RE2 has no look-around and no back references.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import re2

from ..model import FrameKind, Function

MAX_PATTERN_CHARS = 1000
MAX_PATTERN_BYTES = (
    1 << 18
)  # compiled; a pattern of this size takes up to 1 s for 10 000 characters
DEADLINE_S = 0.5  # 50 000 functions with a usual pattern take 0.2 s


class SearchError(ValueError):
    """The pattern cannot be used. The message is one line for the user."""


def compile_search(text: str) -> Callable[[Function], bool]:
    """Return a predicate for the functions that match the text.

    Raises:
        SearchError: the pattern is invalid. The predicate raises it if the search takes too long.
    """
    field, rest = _split(text, ("module", "file"))
    finds = compile_text(rest)

    def matches(function: Function) -> bool:
        if field == "module":
            texts = [function.module]
        elif field == "file":
            texts = [function.file]
        else:
            texts = [function.name, function.full_name]
            if function.kind is FrameKind.PYTHON:
                texts.append(function.module)
        return any(found and finds(found) for found in texts)

    return matches


def compile_text(text: str) -> Callable[[str], bool]:
    """Return a predicate for the texts that contain a text, or match the expression after ``re:``.

    Raises:
        SearchError: the pattern is invalid. The predicate raises it if the search takes too long.
    """
    engine, pattern = _split(text, ("re",))
    if len(pattern) > MAX_PATTERN_CHARS:
        raise SearchError(f"longer than {MAX_PATTERN_CHARS} characters")
    finds = _regular(pattern) if engine else _plain(pattern)
    deadline = time.monotonic() + DEADLINE_S

    def contains(found: str) -> bool:
        if time.monotonic() > deadline:
            raise SearchError("this pattern takes too long; simplify it")
        return finds(found)

    return contains


def _split(text: str, prefixes: tuple[str, ...]) -> tuple[str, str]:
    """Split a text into its prefix before a colon ("" for none) and the rest."""
    prefix, colon, rest = text.partition(":")
    if not colon or prefix not in prefixes or rest.startswith(":"):  # "file::x" is a C++ name
        return "", text
    return prefix, rest


def _heeds_case(pattern: str) -> bool:
    return any(map(str.isupper, pattern))


def _plain(pattern: str) -> Callable[[str], bool]:
    if _heeds_case(pattern):
        return lambda text: pattern in text
    folded = pattern.casefold()
    return lambda text: folded in text.casefold()


def _regular(pattern: str) -> Callable[[str], bool]:
    options = re2.Options()
    options.case_sensitive = _heeds_case(pattern)
    options.max_mem = MAX_PATTERN_BYTES
    options.never_capture = True
    options.log_errors = False  # to stderr
    try:
        compiled = re2.compile(_encoded(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "not understood"
        raise SearchError(f"bad pattern: {' '.join(reason.split())}") from error
    return lambda text: compiled.search(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # lone surrogates have no standard encoding
