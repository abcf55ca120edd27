"""Mangled symbols to names for people: C++ (Itanium), Rust (legacy and v0), D, Swift, Cython.

Two forms: the short one for boxes has no parameters, return type, trailing qualifiers or Rust
hash; the full one has all but the hash. What the library cannot read stays as it is; plain C
names are never touched (it would also try the schemes of the nineties, which see meaning in any
double underscore).

Compilers split and clone functions and mark the pieces in the symbol (``main.cold``,
``f.constprop.0``). The marks are dropped, so that the pieces are one function again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import multi_demangle

from . import cython_names
from .cxx_names import repair

_MANGLED = re.compile(r"_Z|__Z|_R[A-Za-z0-9]|_D\d|_?\$[sS]|_?\$e")
# GCC: cold, part, constprop, isra, lto_priv, localalias; LLVM: llvm, __uniq, cfi, and its
# hot/cold splitting.
_CLONE = re.compile(
    r"(?:\.(?:cold|hot|unlikely|exit|startup|part|constprop|isra|lto_priv|localalias|clone|__uniq"
    r"|cfi|cfi_jt|warm|split|outlined|trunc|specialized|llvm(?:\.[0-9A-F]+)?)(?:\.\d+)*)+$"
)
# LLVM numbers private functions of one name; in C and Go such names are the program's own.
_NUMBERED = re.compile(r"(_[RZ][^.]*|_ZN.*E)(?:\.\d+)+")
# What is left then is code of its own: a version for one processor, a loop run by many threads.
_OTHER_CODE = " [clone ."
_VERSION = re.compile(r"(?<=.)@{1,3}[\w.]+$")  # memcpy@@GLIBC_2.14
_EMPTY_PACK = re.compile(r", ?(?:const)?&*(?=[>)])|(?<=\() ?const&(?=\))")
_LITERAL_CAST = re.compile(r"\((?:unsigned )?(?:char|short|int|long|long long)\)(?=-?\d)")
_THUNK = re.compile(r"\{virtual override thunk\(\{.*?\}, (.*)\)\}")
_QUALIFIERS = re.compile(r"(?<!operator)(?: const| volatile| &&?)+$")

_SHORT = multi_demangle.DemangleOptions.name_only()
_FULL = multi_demangle.DemangleOptions.complete()


def strip_clone(symbol: str) -> str:
    """The symbol without symbol version, the marks of cloned and split functions, and the prefix
    of glibc's internal aliases (``__GI___read``).
    """
    bare = symbol.removeprefix("__GI_")
    if "@" in bare:  # looking is a tenth of what an expression costs
        bare = _VERSION.sub("", bare)
    if "." in bare:
        bare = _CLONE.sub("", bare)
        if numbered := _NUMBERED.fullmatch(bare):
            bare = numbered[1]
    return bare or symbol


def demangle(symbol: str) -> tuple[str, str]:
    """Names for a symbol.

    Args:
        symbol: as found in a symbol table or in DWARF, possibly not mangled at all.

    Returns:
        (short name, full name); the full name is ``""`` when it says no more than the short one.
    """
    return demangle_many([symbol])[symbol]


def demangle_many(symbols: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Names for many symbols, most of the time without the GIL: 15 µs each.

    Returns:
        symbol → what :func:`demangle` gives for it.
    """
    names = {symbol: (strip_clone(symbol), "") for symbol in symbols}
    mangled = {bare for bare, _ in names.values() if _MANGLED.match(bare)}
    if mangled:
        wanted = list(mangled)
        shorts = multi_demangle.demangle_symbols(wanted, _SHORT, unique=False)
        fulls = multi_demangle.demangle_symbols(wanted, _FULL, unique=False)
        readable = dict(zip(wanted, map(_readable, wanted, shorts, fulls), strict=True))
        for symbol, (bare, _) in names.items():
            if bare in readable:
                names[symbol] = readable[bare]
    for symbol, (short, full) in names.items():
        if short.startswith(cython_names.PREFIX) and (name := cython_names.cython_name(short)):
            # The full name keeps the wrapper and what it wraps apart.
            names[symbol] = name, full or short
    return names


def _readable(symbol: str, short: str, full: str) -> tuple[str, str]:
    short, full = short or symbol, full or symbol
    if symbol.startswith("_Z"):
        short, full = repair(symbol, short, full)
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
    """Repairs what the library prints badly: empty packs ``<bool, >``, ``(unsigned long)64``,
    thunks.

    Compared with c++filt over node's 67 942 C++ symbols these are the frequent differences that
    mislead; the others are spelling (``> >`` for ``>>``, ``std::string`` for its expansion).
    """
    if name.startswith("{") and (thunk := _THUNK.fullmatch(name)):
        name = f"{thunk[1]} [thunk]"
    if any(mark in name for mark in (", >", ", )", ", &", ", const&", "( const&")):
        name = _EMPTY_PACK.sub("", name)
    if any(cast in name for cast in ("char)", "short)", "int)", "long)")):
        name = _LITERAL_CAST.sub("", name)
    return name
