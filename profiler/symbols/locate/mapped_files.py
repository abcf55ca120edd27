"""List the files whose code a process has mapped, one entry for each time one is loaded.

Pure, but for ``read_maps`` of the caller. A file that is loaded twice (dlmopen) is two entries; a
file that is only read through a mapping, without code, is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...linux.maps import Mapping


class MappedFile(NamedTuple):
    """One loaded file."""

    start: int  # runtime_addr of its first byte
    code: Mapping  # its first executable mapping

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it apart from all that is or was mapped: device, inode and place."""
        return self.code.device, self.code.inode, self.start

    @property
    def path(self) -> str:
        """The path as the process sees it."""
        return self.code.path


def mapped_files(mappings: Iterable[Mapping]) -> list[MappedFile]:
    """Return the loaded files of a process, in ascending order of address.

    Args:
        mappings: its mappings in ascending order.
    """
    found: list[MappedFile] = []
    starts: dict[tuple[str, int], int] = {}  # of the file's mappings that we are among
    for mapping in mappings:
        if not mapping.inode:
            continue
        file = mapping.device, mapping.inode
        if mapping.file_offset == 0:
            starts[file] = mapping.start
        if mapping.is_executable and file in starts:
            start = starts[file]
            if not any(each.start == start for each in found[-4:]):
                found.append(MappedFile(start, mapping))
    return found
