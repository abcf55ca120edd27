"""What the page is told about the code of a program: pure columns, ready to be encoded."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import SymbolSource
from .module_shares import ModuleShare


@dataclass(frozen=True)
class ModuleSymbols:
    """One module: where its names came from, and what part of the profile it holds."""

    source: SymbolSource
    share: ModuleShare


@dataclass(frozen=True)
class SymbolReport:
    """All modules with weight, heaviest first. Weights are nanoseconds of the clock asked for."""

    total_ns: int  # the whole profile
    nowhere_ns: int  # of it, in stacks of which no frame is known
    modules: list[ModuleSymbols]


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file."""

    file: str  # "" if not known
    line: int  # 0: weight whose line is not known
    self_ns: int
    total_ns: int
    text: str | None  # None: not to be had


@dataclass(frozen=True)
class AnnotatedSource:
    """The lines of one function, by file, ascending; where numbers leave a gap, lines were left
    out. The function's own file comes first; code taken in by #include is in others.
    """

    file: str  # the function's own
    self_ns: int  # the function's: the sum over its lines
    total_ns: int
    whole_ns: int  # the whole profile
    lines: list[SourceLine]
    notes: list[str]


@dataclass(frozen=True)
class CodeRow:
    """An instruction."""

    addr: int  # file_addr
    data: bytes
    text: str
    target: str  # what it calls or refers to, "" if nothing is known
    self_ns: int
    total_ns: int
    file: str  # source file of the innermost function inlined here
    line: int  # 0: not known
    inlined: str  # that function's name, "" where nothing is inlined


@dataclass(frozen=True)
class AnnotatedCode:
    """The machine code of one function, by address; where addresses leave a gap, code was left
    out. Functions that were inlined into it are part of it.
    """

    module: str
    self_ns: int  # of stacks that end in its code, in no system call
    total_ns: int
    whole_ns: int  # the whole profile
    rows: list[CodeRow]
    notes: list[str]
