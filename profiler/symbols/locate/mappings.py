"""What a process has mapped, as ``/proc/PID/maps`` says, and the bytes there.

Source: proc(5), "/proc/pid/maps", "/proc/pid/map_files", "/proc/pid/mem".
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ...model import Module


class Mapping(NamedTuple):
    """One line of maps."""

    start: int
    end: int
    is_executable: bool
    file_offset: int
    device: str  # "major:minor" in hex; of the file's own file system, which a layer may hide
    inode: int  # 0 for what is no file
    span: str  # "START-END" as /proc writes it: the name of its link in map_files
    path: str  # as the process sees it; " (deleted)" behind it when the name is gone

    def is_of(self, module: Module) -> bool:
        """True when this is what the module was announced for, and no later tenant."""
        return (
            self.is_executable
            and self.start <= module.start < self.end
            and self.path.removesuffix(" (deleted)") == module.path
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
            if line.is_of(module):
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
            if (line.device, line.inode, line.path) == (mapping.device, mapping.inode, mapping.path)
            and line.file_offset == 0
            and line.start <= mapping.start
        ]
        return max(starts, default=None)

    def read(self) -> list[Mapping]:
        """All of them, as they are now; none if they cannot be read."""
        if self._proc is None:
            return []
        try:
            with open(f"{self._proc}/maps", encoding="utf-8", errors="surrogateescape") as maps:
                lines = maps.read().split("\n")
        except OSError:
            return []
        return [_parse(fields) for line in lines if len(fields := line.split(maxsplit=5)) == 6]


def read_memory(proc: str, runtime_addr: int, size: int) -> bytes:
    """Up to ``size`` bytes of a process's memory; fewer where it ends, none without the right."""
    try:
        with open(f"{proc}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), size, runtime_addr)
    except (OSError, OverflowError, MemoryError):
        return b""


def _parse(fields: list[str]) -> Mapping:
    start, end = (int(part, 16) for part in fields[0].split("-"))
    return Mapping(
        start,
        end,
        "x" in fields[1],
        int(fields[2], 16),
        fields[3],
        int(fields[4]),
        fields[0],
        fields[5],
    )
