"""What a process has mapped, as ``/proc/PID/maps`` says, and the bytes there.

Source: proc(5), "/proc/pid/maps", "/proc/pid/map_files", "/proc/pid/mem".
"""

from __future__ import annotations

import os

from ...linux.maps import Mapping, read_maps
from ...model import Module


def is_of(mapping: Mapping, module: Module) -> bool:
    """True when this is what the module was announced for, and no later tenant."""
    return (
        mapping.is_executable
        and mapping.start <= module.start < mapping.end
        and mapping.path == module.path
    )


class Mappings:
    """The mappings of one process, read again when an address is not among them.

    Args:
        proc: ``/proc/PID``, or ``None`` for no process: nothing is mapped then.
    """

    def __init__(self, proc: str | None) -> None:
        self._proc = proc
        self._lines: list[Mapping] = []
        self._executable: list[Mapping] = []  # one in ten or fewer

    def of(self, module: Module) -> Mapping | None:
        """The executable mapping that a module starts with."""
        for line in self._executable:
            if is_of(line, module):
                return line
        self._lines = self.read()
        self._executable = [line for line in self._lines if line.is_executable]
        at_start = (line for line in self._executable if line.start <= module.start < line.end)
        return next(at_start, None)

    def file_start(self, mapping: Mapping) -> int | None:
        """The runtime_addr at which the first byte of a mapped file is mapped, next below."""
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
        """All that have a name, as they are now; none if they cannot be read."""
        if self._proc is None:
            return []
        try:
            return [mapping for mapping in read_maps(self._proc) if mapping.path]
        except OSError:
            return []


def read_memory(proc: str, runtime_addr: int, size: int) -> bytes:
    """Up to ``size`` bytes of a process's memory; fewer where it ends, none without the right."""
    try:
        with open(f"{proc}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), size, runtime_addr)
    except (OSError, OverflowError, MemoryError):
        return b""
