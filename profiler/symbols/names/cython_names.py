"""Name C functions that Cython generated: ``__pyx_pw_3pkg_3mod_1run`` is ``pkg.mod.run``.

Cython joins the names of package, module and class, each preceded by its length, and the function's
own name. The prefix tells the kind. ``f`` is a C function. ``pw`` is the wrapper that Python calls;
its own name follows a number that makes it unique. ``pf`` is the function that the wrapper calls;
its own name follows such a number except the first time.

A number that may be either is taken for a length: ``__pyx_pf_1m_4send_data`` is ``m.send.data``.

Source: Cython's Compiler/Naming.py; ``mangle`` and ``next_id`` in Compiler/Symtab.py.
"""

from __future__ import annotations

import re

PREFIX = "__pyx_"
_SYMBOL = re.compile(r"__pyx_(pw|pf|f)_(?=\d)(\w+)")
_NUMBER = re.compile(r"\d+", re.ASCII)
_DIGITS = 4  # no length has more; int() raises for thousands of digits


def cython_name(symbol: str) -> str:
    """Return the name with module and class, joined by dots; ``""`` for other symbols."""
    match = _SYMBOL.fullmatch(symbol)
    if match is None:
        return ""
    kind, text = match.groups()
    parts: list[str] = []
    at = last = 0
    while (number := _NUMBER.match(text, at)) and len(number[0]) <= _DIGITS:
        end = number.end() + int(number[0])
        part = text[number.end() : end]
        if not part.isidentifier() or text[end : end + 1] != "_" or end + 1 == len(text):
            break
        parts.append(part)
        last, at = number.end(), end + 1
    number = _NUMBER.match(text, at)
    own = text[at:]
    if number is not None and kind != "f":
        own = text[number.end() :]
    elif kind == "pw" and len(parts) > 1:
        # The own name follows a number here, so what was taken for the last length is that number.
        parts.pop()
        own = text[last:]
    elif kind == "pw":
        return ""
    return ".".join([*parts, own]) if parts and own.isidentifier() else ""
