"""Say how to come from a function to its caller, by the call frame information of a file.

``symbolic`` reads ``.eh_frame`` and writes it as text, a line for each function and for each place
inside where something changes. It leaves out what is neither a sum nor a read of memory. A line is
parsed when a stack needs it.

Source: Breakpad's symbol files, "STACK CFI records"; x86-64 psABI, 3.7.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from .events import REGISTERS

RSP, RIP, RBP = (REGISTERS.index(name) for name in ("$rsp", "$rip", "$rbp"))
_NUMBERS = {name: number for number, name in enumerate(REGISTERS)} | {".ra": RIP}
_FUNCTION = re.compile(rb"^STACK CFI INIT ([0-9a-f]+) ([0-9a-f]+) (.*)$", re.MULTILINE)
_CHANGE = re.compile(rb"\nSTACK CFI ([0-9a-f]+) (.*)")
_RULE = re.compile(rb"(\.cfa|\.ra|\$\w+): ([^:]*?)(?= \.cfa:| \.ra:| \$\w+:|$)")
_SUM = re.compile(rb"(\$\w+) (-?\d+) \+")
_SAVED = re.compile(rb"\.cfa (-?\d+) \+ \^")


class Rules(NamedTuple):
    """How to find the caller's registers: by number, as in ``REGISTERS``.

    The canonical frame address (CFA) is ``base`` plus ``offset``; the values of the caller's
    registers are at these distances from it. Others are as they were.
    """

    base: int
    offset: int
    saved: tuple[tuple[int, int], ...]

    @property
    def is_root(self) -> bool:
        """Whether nothing has called this function."""
        return all(register != RIP for register, _ in self.saved)


class CallFrames:
    """The rules of one file. Addresses count from where its first segment lies.

    Args:
        text: what ``symbolic`` writes of the file.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._functions = sorted(
            (int(each[1], 16), int(each[2], 16), each.start(3)) for each in _FUNCTION.finditer(text)
        )
        self._starts = [start for start, _, _ in self._functions]

    def at(self, addr: int) -> Rules | None:
        """Return the rules at an address; None if there are none."""
        place = bisect_right(self._starts, addr) - 1
        if place < 0:
            return None
        start, size, at = self._functions[place]
        if addr >= start + size:
            return None
        end = self._text.find(b"\n", at)
        end = len(self._text) if end < 0 else end
        rules = dict(_RULE.findall(self._text[at:end]))
        while (change := _CHANGE.match(self._text, end)) and int(change[1], 16) <= addr:
            rules |= dict(_RULE.findall(change[2]))
            end = change.end()
        return _compiled(rules)


def _compiled(rules: dict[bytes, bytes]) -> Rules | None:
    base = _SUM.fullmatch(rules.pop(b".cfa", b""))
    register = base and _NUMBERS.get(base[1].decode("ascii", "replace"))
    if base is None or register is None:
        return None
    saved = []
    for name, rule in rules.items():
        number, place = _NUMBERS.get(name.decode("ascii", "replace")), _SAVED.fullmatch(rule)
        if number is not None and place:
            saved.append((number, int(place[1])))
    return Rules(register, int(base[2]), tuple(saved))
