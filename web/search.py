"""A search box's text → a test for functions.

Searches names; ``module:…`` and ``file:…`` search those instead. What follows is plain text, or a
regular expression after ``re:`` (``module:re:^lib``). Upper case in it makes it heed case.

Regular expressions run in RE2: its time grows with the name's length, never faster, and it lets
other threads run meanwhile. Python's own can take for ever, with the interpreter held, and the
recording would stall. RE2 has no look-around and no back references.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import re2

from flametap.model import Function

MAX_PATTERN_CHARS = 1000
MAX_PATTERN_BYTES = 1 << 18  # compiled; the slowest such pattern takes 1 s for 10 000 characters
DEADLINE_S = 0.5  # 50 000 functions with a usual pattern take 0.2 s


class SearchError(ValueError):
    """The pattern cannot be used; the message is for the user, in one line."""


def compile_search(text: str) -> Callable[[Function], bool]:
    """Return a predicate for the functions that the text means.

    Raises:
        SearchError: at once if the pattern is bad; by the predicate if the search takes too long.
    """
    field, rest = _split(text, ("module", "file"))
    engine, pattern = _split(rest, ("re",))
    if len(pattern) > MAX_PATTERN_CHARS:
        raise SearchError(f"longer than {MAX_PATTERN_CHARS} characters")
    finds = _regular(pattern) if engine else _plain(pattern)
    deadline = time.monotonic() + DEADLINE_S

    def matches(function: Function) -> bool:
        if time.monotonic() > deadline:
            raise SearchError("this pattern takes too long; simplify it")
        if field == "module":
            texts = [function.module]
        elif field == "file":
            texts = [function.file]
        else:
            texts = [function.name, function.full_name]
        return any(found and finds(found) for found in texts)

    return matches


def _split(text: str, prefixes: tuple[str, ...]) -> tuple[str, str]:
    """Return the prefix that the text has before a colon, "" for none, and the rest."""
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
    return text.encode("utf-8", "surrogatepass")  # a lone surrogate has no other
