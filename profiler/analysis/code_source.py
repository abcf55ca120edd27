"""Define where the texts and instructions of functions come from: a live target, or a recording."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..model import Function, SymbolSource
from ..symbols.locate.source_text import SourceText
from .annotation import CodeRow


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
