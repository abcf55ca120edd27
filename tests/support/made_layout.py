"""Where the functions of the made-up server lie in its files: addresses, their frames, and code.

Each function has a piece of a file for itself. Each call in it, and each place that itself takes
time, has an instruction of its own. An inlined function is part of the one that calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import wire
from flametap.model import Frame, FrameKind, Function, SymbolSource
from flametap.recording.code_source import CodeRow, Listing
from flametap.symbols.locate.source_text import SourceText
from made_graph import NOTES, SYMBOLS, TAKEN_IN, TAKES_IN, TAKES_IN_FROM, function

FIRST_ADDR = 0x401000
STEP_ADDR = 0x20000  # from one function to the next
SPACING = 3  # instructions from one that is known to the next
CALL_LINE = 131  # of all calls
# The lines that take time themselves, and their shares of it; 0 if the line is not known.
OWN_LINES = ((0, 0.02), (104, 0.03), (120, 0.20), (124, 0.47), (125, 0.27), (900, 0.01))
LAST_LINE = 900  # of the source files
MODULES = {module: number for number, module in enumerate(SYMBOLS, 1)}
SOURCES = [
    SymbolSource(number, module, how, NOTES.get(how, ""), has_lines=how == "symcache")
    for number, (module, how) in enumerate(SYMBOLS.items(), 1)
]


class Layout:
    """The addresses that have been asked for so far.

    Args:
        names: other names for some functions.
        instructions: how many each function has at least.

    Attributes:
        frames: by address as the agent sends it, outermost first; none for what has no symbols.
    """

    def __init__(self, names: Mapping[str, str], instructions: int) -> None:
        self.frames: dict[int, list[Frame]] = {}
        self.instructions = instructions
        self._names = names
        self._functions: dict[str, Function] = {}
        self._words: list[str] = []  # in the order of their code
        self._known: dict[str, dict[tuple[str, ...], int]] = {}
        self._kept: dict[tuple[str, ...], int] = {}

    def stack(self, words: Sequence[str], line: int) -> list[int]:
        """Return the addresses of a stack, root first.

        Args:
            words: its functions, root first.
            line: of the innermost one.
        """
        found, start = [], 0
        for end in range(1, len(words) + 1):
            callee = words[end] if end < len(words) else str(line)
            if callee[-1] != "*":  # what is inlined shares the address of its caller
                found.append(self._address((*words[start:end], callee)))
                start = end
        return found

    def function(self, word: str) -> Function:
        """The function that a word means, always the same object."""
        found = self._functions.get(word)
        if found is None:
            found = function(word)
            found = dataclasses.replace(found, name=self._names.get(found.name, found.name))
            self._functions[word] = found
        return found

    def start(self, name: str) -> int:
        """The address in its file of a function's first instruction."""
        by_name = {self.function(word).name: at for at, word in enumerate(self._words)}
        return FIRST_ADDR + by_name[name] * STEP_ADDR

    def own(self, name: str, line: int) -> int:
        """The address of the instruction of a line that takes time itself; see ``OWN_LINES``."""
        number = [each for each, _ in OWN_LINES].index(line)
        return self.start(name) + 4 * (SPACING * number + SPACING - 1)

    def rows(self, addr: int) -> list[CodeRow]:
        """The instructions of the function that has an address."""
        at = (addr - FIRST_ADDR) // STEP_ADDR
        start, known = FIRST_ADDR + at * STEP_ADDR, list(self._known[self._words[at]].items())
        chain = [Frame(self.function(self._words[at]), 100)]
        found = []
        for number in range(max(self.instructions, SPACING * len(known) + SPACING)):
            text, target = "movq 0x10(%rsp), %rax", ""
            if number % SPACING == SPACING - 1 and number // SPACING < len(known):
                key, encoded = known[number // SPACING]
                chain = self.frames[encoded]
                text = "addq %rdx, %rax"
                if not key[-1].isdecimal():
                    text, target = "callq 0x40a1c0", f"{self.function(key[-1]).name}@plt"
            last = chain[-1]
            inlined = last.function.name if len(chain) > 1 else ""
            data = bytes((0x48, 0x8B, number % 256, 0x24))
            place = (last.file, last.line, inlined)
            found.append(CodeRow(start + 4 * number, data, text, target, 0, 0, *place))
        return found

    def _address(self, key: tuple[str, ...]) -> int:
        """The address of functions, each inlined in the one before it, and what the last calls."""
        encoded = self._kept.get(key)
        if encoded is None:
            encoded = self._kept[key] = self._new_address(key)
        return encoded

    def _new_address(self, key: tuple[str, ...]) -> int:
        word = key[0]
        module = MODULES[self.function(word).module]
        if self.function(word).kind is FrameKind.UNKNOWN:
            return wire.frame(module, int(word.rstrip("?").partition("+")[2], 16))
        if word not in self._known:
            self._known[word] = {}
            self._words.append(word)
            for line, _ in OWN_LINES:
                self._address((word, str(line)))
            if key in self._kept:
                return self._kept[key]
        known = self._known[word]
        start = FIRST_ADDR + self._words.index(word) * STEP_ADDR
        encoded = wire.frame(module, start + 4 * (SPACING * len(known) + SPACING - 1))
        known[key] = encoded
        lines = [CALL_LINE] * (len(key) - 1)
        if key[-1].isdecimal():
            lines[-1] = int(key[-1])
        chain = zip(key[:-1], lines, strict=True)
        self.frames[encoded] = [self._frame(self.function(each), line) for each, line in chain]
        return encoded

    def _frame(self, shown: Function, line: int) -> Frame:
        if not shown.file:
            return Frame(shown)
        is_taken_in = shown.file.endswith(TAKES_IN) and line >= TAKES_IN_FROM
        return Frame(shown, line, TAKEN_IN if is_taken_in else "")


class MadeCode:
    """The source texts and instructions of the made-up server. A ``CodeSource``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        return SOURCES

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        if not file:
            return SourceText(None, "no lines are known")
        return SourceText([_text(line) for line in range(1, LAST_LINE + 1)])

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """See ``CodeSource.listing``."""
        if module_id == MODULES["libvendor.so"]:
            raise LookupError("its file is not there")
        starts = {(addr - FIRST_ADDR) // STEP_ADDR * STEP_ADDR for addr in addrs.tolist()}
        rows = [row for start in sorted(starts) for row in self._layout.rows(start + FIRST_ADDR)]
        if function.kind is FrameKind.INLINED:
            rows = [row for row in rows if row.inlined == function.name]
        return Listing(rows, [])


def _text(line: int) -> str:
    return f"    {'  ' * (line % 4)}item[{line}] = price[{line}] * amount; // <b>{line}</b>"
