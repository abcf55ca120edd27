"""Repair C++ names that the demangling library prints wrongly, or cannot read.

Found by comparison with c++filt and llvm-cxxfilt over the symbols of node and libstdc++. Four
things go wrong:

- The first parameter of a constructor template is taken for a return type and lost.
- ``&`` and ``*`` of a nested type are printed inside of it: ``A*::B&`` for ``A::B*&``.
- The parameters of a lambda appear twice: ``{lambda(A(A, B), B)#1}``.
- A function whose return type is an expression (``enable_if``) cannot be read.

For the first and the last, we find the end of the name in the symbol. The library then reads that
part by itself, with other types appended.

Source: Itanium C++ ABI, 5.1.4 "Encoding" and 5.1.5.3 "Function types".
"""

from __future__ import annotations

import re
from itertools import islice

import multi_demangle

MAX_SYMBOL = 4096  # no attempt for longer ones: the time of one attempt grows with the length
MAX_TRIES = 64

_SHORT = multi_demangle.DemangleOptions.name_only()
_FULL = multi_demangle.DemangleOptions.complete()
_TEMPLATE_CONSTRUCTOR = re.compile(r"C[1-5]I")
# A pointer or reference in front of a nested name, but not in the name of an operator.
_MISPLACED = re.compile(r"(?<!operator)(?<=[\w>])((?: const)?[*&]+)((?:::\w+)+)(?![\w<])")
_NO_TYPES = "vv"  # a return type and an empty list of parameters, both void
_VOID = "v"
_LAMBDA = "{lambda("
# A parameter is never a function type here, so the parenthesis starts the repeated parameters.
_FIRST_PARAMETER = re.compile(r"((?!decltype\()[^(,]*[\w>}*&])\(")


def repair(symbol: str, short: str, full: str) -> tuple[str, str]:
    """Return the short and the full name of a C++ function, repaired if necessary.

    Args:
        symbol: mangled (Itanium), without the suffixes of clones.
        short: the library's short name; the symbol itself if it could not read it.
        full: the library's full name, likewise.
    """
    if short == symbol:
        end = name_end(symbol)
        short = _read(symbol[:end] + _NO_TYPES, _SHORT) if end else symbol
        full = short
    elif _TEMPLATE_CONSTRUCTOR.search(symbol) and _is_constructor(short):
        end = name_end(symbol)
        inserted = symbol[:end] + _VOID + symbol[end:]
        read = _read(inserted, _FULL) if end else inserted
        if read != inserted:
            full = read
    return _straighten(short), _straighten(full)


def _straighten(name: str) -> str:
    if "*::" in name or "&::" in name:
        name = _MISPLACED.sub(r"\2\1", name)
    place = name.find(_LAMBDA)
    while place >= 0:
        place += len(_LAMBDA)
        end = _closing(name, place)
        parameters = name[place:end]
        first = _FIRST_PARAMETER.match(parameters)
        if first:
            rest = parameters[_closing(parameters, first.end()) + 1 :]
            if not rest or rest.startswith(", "):
                name = name[:place] + first[1] + rest + name[end:]
        place = name.find(_LAMBDA, place)
    return name


def _closing(text: str, place: int) -> int:
    """Return the position of the closing parenthesis, with one open at ``place``; else the end."""
    depth = 1
    for match in re.compile(r"[()]").finditer(text, place):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(text)


def name_end(symbol: str) -> int:
    """Return where the name of a template or member function ends in its symbol; 0 if unknown."""
    if len(symbol) > MAX_SYMBOL:
        return 0
    ends = [match.end() for match in islice(re.finditer("E", symbol), MAX_TRIES)]
    for end in ends:
        # One by one: for many, the library starts threads, which a process without rights may not.
        attempt = symbol[:end] + _NO_TYPES
        if _read(attempt, _SHORT) != attempt:
            return end
    return 0


def _read(symbol: str, options: multi_demangle.DemangleOptions) -> str:
    return multi_demangle.demangle_symbol(symbol, options) or symbol


def _is_constructor(short: str) -> bool:
    """Return True for a name like ``a::B<c>::B<d>``."""
    parts = [""]
    depth = 0
    for char in short:
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif depth == 0:
            if char == ":":
                if parts[-1]:
                    parts.append("")
            else:
                parts[-1] += char
    return len(parts) > 1 and parts[-1] == parts[-2]
