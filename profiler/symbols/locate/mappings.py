"""Read the mappings of a process from ``/proc/PID/maps``, and its memory.

Source: proc(5), "/proc/pid/maps", "/proc/pid/map_files", "/proc/pid/mem".
"""

from __future__ import annotations

from ...linux.maps import Mapping, read_maps
from ...linux.process_memory import MemoryReadError, ProcessMemory
from ...model import Module


def is_of(mapping: Mapping, module: Module) -> bool:
    """Return True if the mapping is that of the module, not a later one at the same address."""
    return (
        mapping.is_executable
        and mapping.start <= module.start < mapping.end
        and mapping.path == module.path
    )


class Mappings:
    """The mappings of one process. They are read again if an address is not among them.

    Args:
        proc: ``/proc/PID``, or ``None`` for no process, which has no mappings.
    """

    def __init__(self, proc: str | None) -> None:
        self._proc = proc
        self._lines: list[Mapping] = []
        self._executable: list[Mapping] = []  # at most one in ten

    def of(self, module: Module) -> Mapping | None:
        """Return the executable mapping that contains the start of a module."""
        for line in self._executable:
            if is_of(line, module):
                return line
        self._lines = self.read()
        self._executable = [line for line in self._lines if line.is_executable]
        at_start = (line for line in self._executable if line.start <= module.start < line.end)
        return next(at_start, None)

    def file_start(self, mapping: Mapping) -> int | None:
        """Return the runtime_addr of a mapped file's first byte: the nearest below the mapping."""
        starts = [
            line.start
            for line in self._lines
            if (line.device, line.inode, line.shown_path)
            == (mapping.device, mapping.inode, mapping.shown_path)
            and line.file_offset == 0
            and line.start <= mapping.start
        ]
        return max(starts, default=None)

    def read(self) -> list[Mapping]:
        """Return all current mappings with a name; an empty list if they cannot be read."""
        if self._proc is None:
            return []
        try:
            return [mapping for mapping in read_maps(self._proc) if mapping.path]
        except OSError:
            return []


def read_memory(proc: str, runtime_addr: int, size: int) -> bytes:
    """Return up to ``size`` bytes of a process's memory; none without the right to read it."""
    try:
        with ProcessMemory(proc) as memory:
            return memory.read_some(runtime_addr, size)
    except (OSError, MemoryReadError, MemoryError):
        return b""
