"""The one parser of ``/proc/PID/maps``.

Source: proc(5), "/proc/pid/maps"; fs/proc/task_mmu.c, ``show_map_vma``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_DELETED = " (deleted)"


class Mapping(NamedTuple):
    """One line of maps."""

    start: int  # runtime_addr
    end: int
    permissions: str  # "r-xp"
    file_offset: int
    path: str  # as the process sees it, without " (deleted)"; "" for anonymous memory
    is_deleted: bool = False  # the name is gone
    inode: int = 0  # 0 for what is no file
    device: str = ""  # "major:minor" in hex; of the file's own file system, which a layer may hide

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def name(self) -> str:
        """The file name without its folder."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def shown_path(self) -> str:
        """The path as the kernel shows it, with " (deleted)" behind it when the name is gone."""
        return self.path + _DELETED if self.is_deleted else self.path

    @property
    def span(self) -> str:
        """``START-END``, the name of its link in ``/proc/PID/map_files``.

        Unlike in maps, without leading zeros: the kernel refuses them there.
        """
        return f"{self.start:x}-{self.end:x}"

    @property
    def is_executable(self) -> bool:
        """True for code."""
        return "x" in self.permissions


def read_maps(folder: str) -> Iterator[Mapping]:
    """Yield the mappings of a process in ascending order, while the file is read.

    Args:
        folder: ``/proc/PID``.

    Raises:
        OSError: there is no such process, or we may not trace it.
    """
    path = f"{folder}/maps"
    # The kernel escapes line feeds in paths, and nothing else.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for line in lines:
            yield parse_line(line)


def parse_line(line: str) -> Mapping:
    """Parse one line, with or without a line feed."""
    fields = line.rstrip("\n").split(maxsplit=5)
    start, _, end = fields[0].partition("-")
    path = fields[5] if len(fields) > 5 else ""
    return Mapping(
        start=int(start, 16),
        end=int(end, 16),
        permissions=fields[1],
        file_offset=int(fields[2], 16),
        path=path.removesuffix(_DELETED),
        is_deleted=path.endswith(_DELETED),
        inode=int(fields[4]),
        device=fields[3],
    )
