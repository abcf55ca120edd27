"""Limit the names that a file can make us keep: the length of each, and of all together.

A name of 300 bytes may stand for a readable one of a megabyte, and a file may hold a million of
them. A name that is too long is cut, and ends with a mark. Once the names of a module, or of all
modules, take too much memory, further functions of the module share one name. Both are counted, and
the module's note says so.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

from ...model import FrameKind, Function

MAX_NAME_CHARACTERS = 4096  # half of the longest name that we have found in a C++ program
MARK = "…"
# A hundred thousand functions, which is more than any recording of ours has met, with names of 300.
MAX_MODULE_CHARACTERS = 32 << 20
MAX_CHARACTERS = 128 << 20
LEFT_OUT = "[name left out]"


def cut(text: str) -> str:
    """Return the text, cut to ``MAX_NAME_CHARACTERS`` with a mark at its end if it is longer."""
    return text if len(text) <= MAX_NAME_CHARACTERS else text[: MAX_NAME_CHARACTERS - 1] + MARK


class Budget:
    """What all modules may use together. Any thread may use it."""

    def __init__(self, total: int) -> None:
        self._left = total
        self._lock = threading.Lock()

    def take(self, amount: int) -> bool:
        """Reserve a part; return False if less is left."""
        with self._lock:
            if amount > self._left:
                return False
            self._left -= amount
            return True


@dataclass(frozen=True)
class Budgets:
    """What the modules of one session may use together."""

    names: Budget = field(default_factory=lambda: Budget(MAX_CHARACTERS))
    table_bytes: Budget = field(default_factory=lambda: Budget(_max_table_bytes()))


def _max_table_bytes() -> int:
    """Return the memory for symbol tables and lines: a quarter of the machine's, at least 1 GiB.

    Chromium with all its debug information needs 0.8 GB.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(total // 4, 1 << 30)


class ModuleNames:
    """Makes the functions of one module within the limits. Used by one thread at a time.

    Args:
        module_name: name of the module.
        budget: the characters for all modules.
        characters: what this one may use of them.
    """

    def __init__(
        self,
        module_name: str,
        budget: Budget | None = None,
        characters: int = MAX_MODULE_CHARACTERS,
    ) -> None:
        self._module_name = module_name
        self._budget = budget or Budget(MAX_CHARACTERS)
        self._left = characters
        self._cut = self._left_out = 0

    @property
    def is_used_up(self) -> bool:
        """True once a name was left out: it is not worth the time to make further ones."""
        return self._left_out > 0

    def function(
        self, name: str, file: str, kind: FrameKind, full_name: str, symbol: str = ""
    ) -> Function:
        """Return a function of the module; call this once for each.

        Args:
            name, file, kind, full_name: see ``Function``; the names may have any length.
            symbol: what is kept beside the names.
        """
        self._cut += max(len(name), len(full_name)) > MAX_NAME_CHARACTERS
        name, file, full_name = cut(name), cut(file), cut(full_name)
        if full_name == name:
            full_name = ""
        size = len(name) + len(full_name) + len(symbol)
        if self._left_out or size > self._left or not self._budget.take(size):
            self._left_out += 1
            return Function(LEFT_OUT, self._module_name, kind=FrameKind.UNKNOWN)
        self._left -= size
        return Function(name, self._module_name, file, kind, full_name)

    @property
    def note(self) -> str:
        """What is missing, one line for the user; ``""`` if nothing is."""
        notes = []
        if self._cut:
            notes.append(f"{self._cut:,} names of over {MAX_NAME_CHARACTERS:,} characters are cut")
        if self._left_out:
            notes.append(f"{self._left_out:,} functions have no name: names take too much memory")
        return "; ".join(notes)
