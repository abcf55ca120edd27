"""Convert mangled symbols to readable names: C++ (Itanium), Rust (legacy and v0), D, Swift, Cython.

There are two forms. The short one is for boxes: without parameters, return type, trailing
qualifiers or Rust hash. The full one lacks only the hash. A symbol that the library cannot read
stays as it is. Plain C names are not passed to the library: it would also try the mangling schemes
of the 1990s, which match names with a double underscore.

Compilers split and clone functions and add suffixes to their symbols (``main.cold``,
``f.constprop.0``). We remove the suffixes, so the pieces are one function again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import multi_demangle

from . import cython_names
from .cxx_names import repair
from .guarded_names import needs_guard, read_guarded_names
from .limits import MAX_NAME_CHARACTERS as _LIMIT

_MANGLED = re.compile(r"_Z|__Z|_R[A-Za-z0-9]|_D\d|_?\$[sS]|_?\$e")
# GCC: cold, part, constprop, isra, lto_priv, localalias; LLVM: llvm, __uniq, cfi, and its
# hot/cold splitting.
_CLONE = frozenset(
    (
        *("cold", "hot", "unlikely", "exit", "startup", "part", "constprop", "isra", "lto_priv"),
        *("localalias", "clone", "__uniq", "cfi", "cfi_jt", "warm", "split", "outlined", "trunc"),
        *("specialized", "llvm"),
    )
)
_HASH = re.compile(r"[0-9A-F]+")  # behind llvm
# LLVM numbers private functions of one name; in C and Go such names are the program's own.
_NUMBERED = re.compile(r"(_[RZ][^.]*|_ZN.*E)(?:\.\d+)+")
# A suffix that remains means separate code: a version for one processor, an OpenMP loop body.
_OTHER_CODE = " [clone ."
_VERSION = re.compile(r"(?<=.)@{1,3}[\w.]+$")  # memcpy@@GLIBC_2.14
_EMPTY_PACK = re.compile(r", ?(?:const)?&*(?=[>)])|(?<=\() ?const&(?=\))")
_LITERAL_CAST = re.compile(r"\((?:unsigned )?(?:char|short|int|long|long long)\)(?=-?\d)")
_THUNK = re.compile(r"\{virtual override thunk\(\{.*?\}, (.*)\)\}")
_QUALIFIERS = re.compile(r"(?<!operator)(?: const| volatile| &&?)+$")

# The library uses recursion; Swift names of 100 000 characters overflow its stack.
_MAX_MANGLED = 1 << 15
# Names in memory at once: the library writes up to a megabyte for a Rust name of 200 characters.
_AT_ONCE = 64

_SHORT = multi_demangle.DemangleOptions.name_only()
_FULL = multi_demangle.DemangleOptions.complete()


def strip_clone(symbol: str) -> str:
    """Return the symbol without symbol version, clone suffixes, and the prefix ``__GI_``.

    The suffixes mark cloned and split functions. glibc's internal aliases have the prefix
    (``__GI___read``).
    """
    bare = symbol.removeprefix("__GI_")
    if "@" in bare:  # ten times as fast as the regular expression
        bare = _VERSION.sub("", bare)
    if "." in bare:
        bare = _without_clone_suffixes(bare)
        if numbered := _NUMBERED.fullmatch(bare):
            bare = numbered[1]
    return bare or symbol


def _without_clone_suffixes(symbol: str) -> str:
    """Remove ``.part.0.cold`` and its like from the end, in time that grows with the length."""
    words = symbol.split(".")
    end = len(words)
    while True:
        place = end - 1
        while place and words[place].isdecimal():
            place -= 1
        if place and words[place - 1] == "llvm" and _HASH.fullmatch(words[place]):
            place -= 1
        if not place or words[place] not in _CLONE:
            return ".".join(words[:end])
        end = place


def demangle(symbol: str) -> tuple[str, str]:
    """Return the readable names of a symbol.

    Args:
        symbol: from a symbol table or from DWARF, possibly not mangled at all.

    Returns:
        (short name, full name); the full name is ``""`` if it equals the short one.
    """
    return demangle_many([symbol])[symbol]


def demangle_many(symbols: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the readable names of many symbols; mostly without the GIL, 15 µs each.

    Returns:
        symbol → the result of :func:`demangle`. A name that is longer than ``MAX_NAME_CHARACTERS``
        has one character more: ``limits.cut`` marks it.
    """
    names = {symbol: (strip_clone(symbol), "") for symbol in symbols}
    mangled = {
        bare for bare, _ in names.values() if len(bare) <= _MAX_MANGLED and _MANGLED.match(bare)
    }
    if mangled:
        guarded = [bare for bare in mangled if needs_guard(bare)]
        wanted = list(mangled.difference(guarded))
        readable: dict[str, tuple[str, str]] = {}
        for bare, (short, full) in zip(guarded, read_guarded_names(guarded), strict=True):
            readable[bare] = _readable(bare, _clip(short) or bare, _clip(full) or bare)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            readable.update(zip(some, map(_repaired, some, *_read_names(some)), strict=True))
        for symbol, (bare, _) in names.items():
            if bare in readable:
                names[symbol] = readable[bare]
    for symbol, (short, full) in names.items():
        if short.startswith(cython_names.PREFIX) and (name := cython_names.cython_name(short)):
            # A wrapper and its function have the same short name; their full names differ.
            names[symbol] = name, full or short
    return {symbol: (_clip(short), _clip(full)) for symbol, (short, full) in names.items()}


def _read_names(mangled: list[str]) -> tuple[list[str], list[str]]:
    """Return the library's short and full names; ``""`` for symbols that it cannot read.

    A short name that is too long is also the full one, to save the time.
    """
    shorts = [
        _clip(name or "") for name in multi_demangle.demangle_symbols(mangled, _SHORT, unique=False)
    ]
    fulls = {
        symbol: short for symbol, short in zip(mangled, shorts, strict=True) if len(short) > _LIMIT
    }
    rest = [symbol for symbol in mangled if symbol not in fulls]
    names = multi_demangle.demangle_symbols(rest, _FULL, unique=False)
    fulls.update((symbol, _clip(name or "")) for symbol, name in zip(rest, names, strict=True))
    return shorts, [fulls[symbol] for symbol in mangled]


def _clip(name: str) -> str:
    return name[: _LIMIT + 1]


def _repaired(symbol: str, short: str, full: str) -> tuple[str, str]:
    short, full = short or symbol, full or symbol
    if symbol.startswith("_Z"):
        short, full = repair(symbol, short, full)
    return _readable(symbol, short, full)


def _readable(symbol: str, short: str, full: str) -> tuple[str, str]:
    if short == symbol:
        return symbol, ""
    short = _tidy(short)
    if short.endswith(("const", "volatile", "&")):
        short = _QUALIFIERS.sub("", short)
    full = _tidy(full)
    if _OTHER_CODE in full:
        short += full[full.index(_OTHER_CODE) :]
    return short, "" if full == short else full


def _tidy(name: str) -> str:
    """Repair frequent errors: empty packs ``<bool, >``, ``(unsigned long)64``, thunks.

    In a comparison with c++filt over node's 67 942 C++ symbols, these are the frequent differences
    that mislead. The others are matters of spelling (``> >`` for ``>>``, ``std::string`` for its
    expansion).
    """
    if name.startswith("{") and (thunk := _THUNK.fullmatch(name)):
        name = f"{thunk[1]} [thunk]"
    if any(mark in name for mark in (", >", ", )", ", &", ", const&", "( const&")):
        name = _EMPTY_PACK.sub("", name)
    if any(cast in name for cast in ("char)", "short)", "int)", "long)")):
        name = _LITERAL_CAST.sub("", name)
    return name
