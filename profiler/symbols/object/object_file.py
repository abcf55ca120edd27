"""Define the interface of object files, whatever their format.

ELF and Mach-O have in common what is needed for names: sections with addresses, segments, an id of
the build, and function starts that survive stripping. The module of a format reads its headers and
sets these attributes. What a format lacks keeps the default here.

A file_addr is an address as linked (ELF's vaddr, Mach-O's vmaddr).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

# (file_offset, size) -> bytes; shorter at the end of the file.
Read = Callable[[int, int], bytes]


class ObjectError(ValueError):
    """Not an object file that we can read; the message gives the reason, in one line."""


class Section(NamedTuple):
    """A section header; ``addr`` is a file_addr, 0 for sections that are not loaded.

    ``kind``, ``flags`` and ``link`` are ELF's ``sh_type``, ``sh_flags`` and ``sh_link``. For
    Mach-O, ``kind`` is 1 (or ELF's SHT_NOBITS for a section without contents), and ``flags`` are
    its own.
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
    """Start and end of functions: the only information that a stripped file still has."""

    def starts_at(self, file_addrs: Sequence[int]) -> list[int]:
        """Return where the function, or the code between two, begins (file_addr) at each address.

        Of an address before all functions, that is itself.
        """
        ...

    def functions_at(self, file_addrs: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return start and end (file_addr) of the function that covers each address."""
        ...


class ObjectFile:
    """One object file.

    Args:
        read: reads bytes of the file.
        size: size of the file in bytes.

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
        """The lowest loaded file_addr: symcache addresses are relative to it."""
        raise NotImplementedError

    @property
    def has_symtab(self) -> bool:
        """True if the full symbol table was not stripped."""
        raise NotImplementedError

    @property
    def debug_info_bytes(self) -> int:
        """Size of DWARF's ``.debug_info`` in the file; 0 if there is none."""
        raise NotImplementedError

    def section(self, name: str) -> Section | None:
        """Return the first section of that name."""
        raise NotImplementedError

    def data(self, section: Section) -> bytes:
        """Return the section's bytes in the file (``b""`` for one without contents).

        Raises:
            ObjectError: it extends beyond the end of the file.
        """
        raise NotImplementedError

    def at_addr(self, file_addr: int, size: int) -> bytes:
        """Return ``size`` loaded bytes at a file_addr, ``b""`` if they are not in the file."""
        raise NotImplementedError

    def fde_table(self) -> FunctionStarts | None:
        """Return the function starts, if there are any."""
        return None
