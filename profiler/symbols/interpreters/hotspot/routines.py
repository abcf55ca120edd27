"""Find the names of HotSpot's own routines: array copies, mathematics, encryption, and so on.

They lie many in one piece of code, which has one name. The machine keeps a description of each
(``StubCodeDesc``) in a list, for its crash reports; nothing exports where the list begins. So its
first element is looked for among what the zeroed variables of ``libjvm`` point to. The list is
believed only if all of its elements fit, none overlaps another, and one that is called "call stub"
contains the place to which Java returns.

The bytes may be hostile: all counts and lengths have bounds, nothing is raised.

Source: src/hotspot/share/runtime/stubCodeGenerator.hpp, 11 to 28.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....linux.process_memory import MemoryReadError, ProcessMemory

_PAGE_BYTES = 4096
_MAX_VARIABLE_BYTES = 4 << 20  # some 400 kB
_MAX_PAGES = 4096  # some 400 to which the variables point
_MAX_ROUTINES = 2048  # 100 to 150
_MAX_NAME_BYTES = 96
_ELEMENT = struct.Struct("<5Q")  # next, group, name, start, end
_ADDRESS_END = 1 << 47
# 26 and newer say in each name that it is a stub, and who made it.
_PREFIX, _MAKER = "Stub Generator ", " (stub gen)"


class Routine(NamedTuple):
    """A routine. Addresses are of the kind ``runtime_addr``."""

    start: int
    end: int
    name: str  # "jbyte_disjoint_arraycopy"


class Variables(NamedTuple):
    """Where the list may begin, and what its elements have to fit to."""

    image: tuple[int, int]  # start and end of the file's memory: names lie in it
    zeroed: tuple[tuple[int, int], ...]  # pieces of memory


def name_at(routines: tuple[Routine, ...], runtime_addr: int) -> str:
    """Return the name of the routine that contains an address; "" if none does.

    Args:
        routines: sorted; none overlaps another.
        runtime_addr: the address.
    """
    at = bisect.bisect_right(routines, (runtime_addr, _ADDRESS_END, "")) - 1
    if at < 0 or runtime_addr >= routines[at].end:
        return ""
    return routines[at].name


def find_routines(
    memory: ProcessMemory, variables: Variables, call_stub_return: int
) -> tuple[Routine, ...]:
    """Return the routines that there are by now, sorted; none if the list is not found.

    Args:
        memory: the memory of the process.
        variables: those of ``libjvm``.
        call_stub_return: where Java returns to, in the routine that calls it.
    """
    for first in _candidates(memory, variables):
        routines = _follow(memory, variables.image, first)
        if _is_proven(routines, call_stub_return):
            return routines
    return ()


def _candidates(memory: ProcessMemory, variables: Variables) -> Iterator[int]:
    """Yield what variables point to, if it looks like an element."""
    start, end = variables.image
    for low, high in variables.zeroed:
        try:
            data = memory.read_some(low, min(high - low, _MAX_VARIABLE_BYTES) // 8 * 8)
        except MemoryReadError:
            continue
        words = np.unique(np.frombuffer(data[: len(data) // 8 * 8], np.uint64))
        words = words[(words >= _PAGE_BYTES) & (words < _ADDRESS_END) & (words % 16 == 0)]
        words = words[(words < start) | (words >= end)]
        yield from _elements(memory, words, start, end)


def _elements(
    memory: ProcessMemory, addresses: NDArray[np.uint64], start: int, end: int
) -> Iterator[int]:
    """Yield those of some addresses at which an element may be."""
    numbers, first = np.unique(addresses // np.uint64(_PAGE_BYTES), return_index=True)
    groups = np.split(addresses, first[1:])
    for number, group in list(zip(numbers.tolist(), groups, strict=True))[:_MAX_PAGES]:
        try:
            # With the beginning of the next page, for an element at the end of this one.
            page = memory.read_some(number * _PAGE_BYTES, _PAGE_BYTES + _ELEMENT.size)
        except MemoryReadError:
            continue
        for addr in group.tolist():
            place = addr % _PAGE_BYTES
            if place + _ELEMENT.size > len(page):
                continue
            _, group_name, name, routine, routine_end = _ELEMENT.unpack_from(page, place)
            if (
                start <= group_name < end
                and start <= name < end
                and 0 < routine < routine_end < _ADDRESS_END
            ):
                yield addr


def _follow(memory: ProcessMemory, image: tuple[int, int], element: int) -> tuple[Routine, ...]:
    """Return the routines from an element on, sorted; none if one does not fit."""
    start, end = image
    routines: list[Routine] = []
    try:
        for _ in range(_MAX_ROUTINES):
            if not element:
                return tuple(sorted(routines))
            element, group, name, low, high = _ELEMENT.unpack(memory.read(element, _ELEMENT.size))
            if not start <= group < end or not start <= name < end or high >= _ADDRESS_END:
                return ()
            if low and high > low:  # one that is being made has no end yet
                routines.append(Routine(low, high, _text(memory, name)))
    except MemoryReadError:
        pass
    return ()


def _is_proven(routines: tuple[Routine, ...], call_stub_return: int) -> bool:
    if any(each.end > other.start for each, other in itertools.pairwise(routines)):
        return False
    return name_at(routines, call_stub_return) == "call_stub" and all(
        each.name.isprintable() for each in routines
    )


def _text(memory: ProcessMemory, addr: int) -> str:
    name = memory.read_some(addr, _MAX_NAME_BYTES).partition(b"\0")[0].decode("latin-1")
    plain = name.removeprefix(_PREFIX).removesuffix(_MAKER)
    return name if plain == name else plain.removesuffix("_stub")


_MATHEMATICS = ("dlog", "dexp", "dpow", "dsin", "dcos", "dtan", "dcbrt", "fmod")  # since 25
# What routines do, by a part of their names in lower case, for those who know Java.
_USES = (
    ("arraycopy", "copies arrays (System.arraycopy, Arrays.copyOf, clone, strings)"),
    ("_fill", "fills arrays (Arrays.fill)"),
    ("mismatch", "compares arrays (Arrays.equals, Arrays.mismatch)"),
    *((part, "a function of Math") for part in ("libm", *_MATHEMATICS)),
    ("crc", "a checksum"),
    ("adler", "a checksum"),
    ("base64", "Base64"),
    ("indexof", "String.indexOf"),
    ("sha", "a hash (MessageDigest)"),
    ("md5", "a hash (MessageDigest)"),
    ("aes", "encryption (Cipher)"),
    ("ghash", "encryption (Cipher)"),
    ("tolen", "arithmetic of BigInteger"),
    ("muladd", "arithmetic of BigInteger"),
    ("montgomery", "arithmetic of BigInteger"),
    ("biginteger", "arithmetic of BigInteger"),
    ("sort", "sorts arrays (Arrays.sort)"),
    ("partition", "sorts arrays (Arrays.sort)"),
)


def use_of(name: str) -> str:
    """Return what a routine is for, in words of Java; "" if that is not known."""
    name = name.lower()
    return next((words for part, words in _USES if part in name), "")
