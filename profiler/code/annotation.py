"""Define the answers to the page about modules, source lines and instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import SymbolSource
from ..recording.code_source import CodeRow
from .module_shares import ModuleShare


@dataclass(frozen=True)
class ModuleSymbols:
    """One module: the source of its names, and its share of the profile."""

    source: SymbolSource
    share: ModuleShare


@dataclass(frozen=True)
class SymbolReport:
    """All known modules, heaviest first. Weights are nanoseconds of the requested clock."""

    total_ns: int  # of the whole profile
    nowhere_ns: int  # of stacks without any known frame
    modules: list[ModuleSymbols]


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file."""

    file: str  # "" if unknown
    line: int  # 0 for weight whose line is unknown
    self_ns: int
    total_ns: int
    text: str | None  # None if the text cannot be read


@dataclass(frozen=True)
class AnnotatedSource:
    """The lines of one function, by file, ascending.

    A gap in the line numbers means omitted lines. The function's own file comes first; code from
    #include is in other files.
    """

    file: str  # the function's own file
    self_ns: int  # of the function: the sum of its lines
    total_ns: int
    whole_ns: int  # of the whole profile
    lines: list[SourceLine]
    notes: list[str]


@dataclass(frozen=True)
class AnnotatedCode:
    """The machine code of one function, by address.

    A gap in the addresses means omitted code. Functions inlined into it are part of it.
    """

    module: str
    self_ns: int  # of stacks that end in its code and not in a system call
    total_ns: int
    whole_ns: int  # of the whole profile
    rows: list[CodeRow]
    notes: list[str]


def rows_of(rows: Sequence[CodeRow], addrs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the row of the instruction that contains each address; -1 if none does."""
    starts = np.array([each.addr for each in rows], np.int64)
    ends = starts + np.array([len(each.data) for each in rows], np.int64)
    row = np.searchsorted(starts, addrs, side="right").astype(np.int64) - 1
    inside = row >= 0
    inside[inside] = addrs[inside] < ends[row[inside]]
    return np.where(inside, row, -1)
