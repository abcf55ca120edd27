"""Find the version of a CPython in memory without calling anything in it.

Since 3.11 there is a constant, ``Py_Version``. Before, ``Py_GetVersion`` refers to the text of the
version: of all values in its few instructions that may be an address, one leads to it. Where that
fails, the name of the library is used; the checks before the first use then find out (``check``).

Source: Include/patchlevel.h; Python/getversion.c.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf

_TEXT = re.compile(rb"(\d)\.(\d{1,2})\.(\d{1,2})(?:(a|b|rc)(\d+))?\+?\0")
_NAME = re.compile(r"(?:lib)?python(\d)\.(\d{1,2})")
_LEVELS = {0xA: "a", 0xB: "b", 0xC: "rc", 0xF: ""}  # PY_RELEASE_LEVEL
_MAX_FUNCTION_BYTES = 256  # of Py_GetVersion: 49 to 91
_COOKIE = b"xdebugpy"  # of struct _Py_DebugOffsets, at the start of _PyRuntime


class Version(NamedTuple):
    """A version of CPython."""

    major: int
    minor: int
    micro: int = -1  # -1 if unknown
    level: str = ""  # "a", "b", "rc"; "" for a final release
    serial: int = 0
    is_free_threaded: bool = False  # built without a global lock

    def __str__(self) -> str:
        """Return "CPython 3.12.1"."""
        micro = "" if self.micro < 0 else f".{self.micro}"
        level = f"{self.level}{self.serial}" if self.level else ""
        threads = " (free-threaded)" if self.is_free_threaded else ""
        return f"CPython {self.major}.{self.minor}{micro}{level}{threads}"

    @property
    def minor_version(self) -> tuple[int, int]:
        """What decides the layout of its structures."""
        return self.major, self.minor


def version_of_hex(number: int) -> Version | None:
    """Return the version of a ``PY_VERSION_HEX``; None if it is none."""
    major, minor, micro, level = (number >> shift & 0xFF for shift in (24, 16, 8, 0))
    if number >> 32 or major != 3 or level >> 4 not in _LEVELS:
        return None
    return Version(major, minor, micro, _LEVELS[level >> 4], level & 15)


def find_version(
    memory: ProcessMemory, elf: LoadedElf, runtime_addr: int, path: str
) -> Version | None:
    """Return the version of the interpreter in a loaded file; None if it cannot be found.

    Args:
        memory: the memory of the process.
        elf: the file.
        runtime_addr: where its ``_PyRuntime`` is.
        path: of the file.
    """
    try:
        head = memory.read(runtime_addr, 24)
        if head.startswith(_COOKIE):
            number, free_threaded = struct.unpack_from("<QQ", head, 8)
            version = version_of_hex(number)
            return version and version._replace(is_free_threaded=free_threaded != 0)
        if symbol := elf.symbol("Py_Version"):
            return version_of_hex(memory.word(symbol.addr))
        if found := _version_in_code(memory, elf):
            return found
    except MemoryReadError:
        pass
    for name in (elf.so_name, path.rpartition("/")[2]):
        if match := _NAME.match(name):
            return Version(int(match[1]), int(match[2]))
    return None


def _version_in_code(memory: ProcessMemory, elf: LoadedElf) -> Version | None:
    """Return the version whose text ``Py_GetVersion`` refers to."""
    symbol = elf.symbol("Py_GetVersion")
    if symbol is None:
        return None
    code = memory.read(symbol.addr, min(symbol.size or 64, _MAX_FUNCTION_BYTES))
    for offset in range(len(code) - 3):
        (value,) = struct.unpack_from("<i", code, offset)
        # Relative to the next instruction, or absolute in a program with a fixed address.
        for addr in (symbol.addr + offset + 4 + value, value):
            if not elf.start <= addr < elf.end:
                continue
            try:
                match = _TEXT.match(memory.read_some(addr, 24))
            except MemoryReadError:
                continue
            if match:
                level, serial = match[4] or b"", match[5] or b"0"
                numbers = (int(match[1]), int(match[2]), int(match[3]))
                return Version(*numbers, level.decode(), int(serial))
    return None
