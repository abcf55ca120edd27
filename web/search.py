"""A search box's text → a test for functions.

Searches names; ``module:…`` and ``file:…`` search those instead. Upper case in the pattern makes
it heed case. Python's regular expressions cannot be interrupted and hold the interpreter while they
run, which would stall the recording: nested repeats are refused, long names are cut, and the search
as a whole has a deadline.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from flametap.model import Function

MAX_PATTERN_CHARS = 500
MAX_NAME_CHARS = 400  # C++ names reach 10 000; the front is what people search for
DEADLINE_S = 0.5  # 50 000 functions with a plain pattern take 0.03 s
# A repeated group that itself repeats or branches, "(a+)+", "(a|a)*": exponential in the name.
_NESTED_REPEAT = re.compile(r"\([^()]*[+*}|][^()]*\)\s*(?:[+*]|\{\d*,)")


class SearchError(ValueError):
    """The pattern cannot be used; the message is for the user."""


def compile_search(text: str) -> Callable[[Function], bool]:
    """A predicate for the functions that the text means.

    Raises:
        SearchError: at once if the pattern is bad; by the predicate if the search takes too long.
    """
    field, _, rest = text.partition(":")
    if field not in ("module", "file") or rest.startswith(":"):  # "file::x" is a C++ name
        field, rest = "name", text
    if len(rest) > MAX_PATTERN_CHARS:
        raise SearchError(f"longer than {MAX_PATTERN_CHARS} characters")
    if _NESTED_REPEAT.search(rest):
        raise SearchError(
            "a repeated group may not repeat or branch inside: it could take for ever"
        )
    try:
        pattern = re.compile(rest, 0 if any(map(str.isupper, rest)) else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise SearchError(str(error)) from error
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
        return any(found and pattern.search(found[:MAX_NAME_CHARS]) for found in texts)

    return matches
