"""Know what code each process has mapped, from the kernel's records, also after its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from ..linux.file_rights import ProcessUser
from ..linux.maps import Mapping
from .events import Mapped
from .files import Code, CodeFile

MOST_PROCESSES = 4096  # those that were seen last are known


@dataclass(frozen=True, eq=False)
class Region:
    """Code of a file in the memory of a process, from ``start`` to ``end``: runtime_addrs."""

    start: int
    end: int
    file_offset: int
    file: CodeFile

    def code(self, runtime_addr: int) -> Code:
        """See ``CodeFile.code``."""
        return self.file.code(runtime_addr - self.start + self.file_offset)


class Spaces:
    """The mapped code of processes. One thread uses it.

    Args:
        root: below which files are; "" for ours.
        user: with whose rights they are opened; None for ours.
    """

    def __init__(self, root: str = "", user: ProcessUser | None = None) -> None:
        self._root, self._user = root, user
        self._files: dict[tuple[str, int], CodeFile] = {}
        # pid → starts and regions, in order; lists are never changed: children have the same.
        self._of: dict[int, tuple[list[int], list[Region]]] = {}

    def begin(self, pid: int, mappings: Iterable[Mapping]) -> None:
        """Take what a process has mapped already, in order."""
        self._put(
            pid,
            [
                self._region(each.start, each.end, each.file_offset, each.path, each.inode)
                for each in mappings
                if each.is_executable and each.path
            ],
        )

    def knows(self, pid: int) -> bool:
        """Return whether it is known what a process has mapped."""
        return pid in self._of

    def fork(self, pid: int, parent: int) -> None:
        """Note that a process begins with all that its parent has mapped."""
        regions = self._regions(parent)
        if regions:
            self._put(parent, regions)  # it was seen again
        self._put(pid, regions)

    def replace(self, pid: int) -> None:
        """Note that a process has another program, and nothing mapped yet."""
        self._put(pid, [])

    def end(self, pid: int) -> None:
        """Forget a process."""
        self._of.pop(pid, None)

    def add(self, mapped: Mapped) -> None:
        """Note a mapping; what was in its place has gone."""
        start, end = mapped.start, mapped.end
        others = [
            each for each in self._regions(mapped.pid) if each.end <= start or each.start >= end
        ]
        others.append(self._region(start, end, mapped.file_offset, mapped.path, mapped.inode))
        self._put(mapped.pid, sorted(others, key=lambda each: each.start))

    def at(self, pid: int, addr: int) -> Region | None:
        """Return the code around a runtime_addr of a process; None if there is none."""
        starts, regions = self._of.get(pid, ([], []))
        place = bisect_right(starts, addr) - 1
        return regions[place] if place >= 0 and addr < regions[place].end else None

    def _regions(self, pid: int) -> list[Region]:
        return self._of[pid][1] if pid in self._of else []

    def _region(self, start: int, end: int, file_offset: int, path: str, inode: int) -> Region:
        key = path, inode
        if key not in self._files:
            self._files[key] = CodeFile(path, inode, self._root, self._user)
        return Region(start, end, file_offset, self._files[key])

    def _put(self, pid: int, regions: list[Region]) -> None:
        self._of.pop(pid, None)
        self._of[pid] = [each.start for each in regions], regions
        if len(self._of) > MOST_PROCESSES:
            del self._of[next(iter(self._of))]
