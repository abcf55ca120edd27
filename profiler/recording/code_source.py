"""Define where the texts and instructions of functions come from: a live target, or a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..model import Function, SymbolSource
from ..symbols.locate.source_text import SourceText

NO_FILE = "its file cannot be opened"


@dataclass(frozen=True)
class CodeRow:
    """An instruction."""

    addr: int  # file_addr
    data: bytes
    text: str
    target: str  # the symbol that it calls or refers to, "" if unknown
    self_ns: int
    total_ns: int
    file: str  # source file of the innermost function inlined here
    line: int  # 0 if unknown
    inlined: str  # name of the innermost function inlined here, "" if none is


class Listing(NamedTuple):
    """The instructions of a function by address, without weights, and notes on omitted code."""

    rows: list[CodeRow]
    notes: list[str]


class CodeSource(Protocol):
    """The code of what was recorded. Any thread may call."""

    def sources(self) -> list[SymbolSource]:
        """Return the source of names of each module that occurs in a stack."""
        ...

    def text(self, function: Function, file: str) -> SourceText:
        """Return the lines of a source file; a function of the module says which one is meant."""
        ...

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """Return the instructions of a function that contain some addresses, in one module.

        Raises:
            LookupError: they cannot be read, and why.
        """
        ...


class NoCode:
    """What a program has of code before its files are known. A ``CodeSource``."""

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        return []

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        return SourceText(None, "no lines are known")

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """See ``CodeSource.listing``."""
        raise LookupError("its file is unknown")
