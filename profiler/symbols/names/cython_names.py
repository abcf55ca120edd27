"""Names of the C functions that Cython makes: ``__pyx_pw_3pkg_3mod_1run`` is ``pkg.mod.run``.

Cython joins the names of package, module and class, each after its length, and the function's own
name. ``f``: a C function. ``pw``: what Python calls, the own name after a number that makes it
unique. ``pf``: what that calls, the own name after such a number or, the first time, without one.

A number that may be either is taken for a length: ``__pyx_pf_1m_4send_data`` is ``m.send.data``.

Source: Cython's Compiler/Naming.py; ``mangle`` and ``next_id`` in Compiler/Symtab.py.
"""

from __future__ import annotations

import re

PREFIX = "__pyx_"
_SYMBOL = re.compile(r"__pyx_(pw|pf|f)_(?=\d)(\w+)")
_NUMBER = re.compile(r"\d+", re.ASCII)
_DIGITS = 4  # no length has more; Python refuses to read thousands


def cython_name(symbol: str) -> str:
    """The function's name with its module and class, dots between; ``""`` for other symbols."""
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
        # The own name has a number here: what was taken for the last length is that.
        parts.pop()
        own = text[last:]
    elif kind == "pw":
        return ""
    return ".".join([*parts, own]) if parts and own.isidentifier() else ""
