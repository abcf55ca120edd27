"""What the rest of the package sees of an object file, whatever its format.

ELF and Mach-O agree on what matters to names: sections with addresses, segments, an id that says
which build a file is of, function starts that survive stripping. A format's own file reads its
headers and fills these in; what a format does not have stays as it is here.

Address words: a file_addr is an address as linked (ELF's vaddr, Mach-O's vmaddr).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

# (file_offset, size) -> bytes; shorter at the end of the file.
Read = Callable[[int, int], bytes]


class ObjectError(ValueError):
    """Not an object file that we can read; the message says why, in one line."""


@dataclass(frozen=True)
class Section:
    """A section header; ``addr`` is a file_addr, 0 for sections that are not loaded.

    ``kind``, ``flags`` and ``link`` are ELF's ``sh_type``, ``sh_flags`` and ``sh_link``; for Mach-O
    ``kind`` is 1 (or ELF's SHT_NOBITS for a section without contents), ``flags`` are its own.
    """

    name: str
    kind: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Segment:
    """A part of the file that is loaded (or, in ELF, holds notes); ``vaddr`` is a file_addr."""

    kind: int
    offset: int
    vaddr: int
    file_size: int


class FunctionStarts(Protocol):
    """Where functions begin and end: all that a stripped file still tells."""

    def functions_at(self, file_addrs: Sequence[int]) -> list[tuple[int, int] | None]:
        """Start and end (file_addr) of the function that covers each address."""
        ...


class ObjectFile:
    """One object file: read through ``read``, ``size`` bytes long.

    Attributes:
        build_id: lower-case hex: ELF's GNU build-id, Mach-O's UUID; ``""`` if it has none.
        machine: the processor as ELF's ``e_machine``.
        segments, sections: in the order of the file.
    """

    format_name = ""  # "ELF", "Mach-O"
    build_id = ""
    machine = 0
    segments: list[Segment]
    sections: list[Section]

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size

    @property
    def base_addr(self) -> int:
        """The lowest loaded file_addr: symcache addresses count from here."""
        raise NotImplementedError

    @property
    def has_symtab(self) -> bool:
        """True when the full symbol table was not stripped."""
        raise NotImplementedError

    @property
    def debug_info_bytes(self) -> int:
        """Size of DWARF's ``.debug_info`` as stored; 0 when there is none."""
        raise NotImplementedError

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        raise NotImplementedError

    def data(self, section: Section) -> bytes:
        """The section's bytes as stored (``b""`` for one without contents).

        Raises:
            ObjectError: it reaches beyond the end of the file.
        """
        raise NotImplementedError

    def at_addr(self, file_addr: int, size: int) -> bytes:
        """``size`` loaded bytes at a file_addr, ``b""`` when they are not in the file."""
        raise NotImplementedError

    def mini_debug_info(self) -> ObjectFile | None:
        """A compressed object file inside this one, with more symbols."""
        return None

    def fde_table(self) -> FunctionStarts | None:
        """The function starts, if there are any."""
        return None
