"""Open the files whose code was sampled: for their build-ids and their call frame information.

They are those that the kernel mapped, by inode, or none. They belong to programs that this user has
started, and are read with this user's rights.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError

from ..linux.elf_headers import PT_LOAD
from ..recording.unsampled import Place
from ..symbols.object.elf import ElfFile
from ..symbols.object.object_file import ObjectError, Segment
from .call_frames import CallFrames, Rules

MAX_FILE_BYTES = 1 << 30
MOST_ADDR = 1 << 40  # agent/abi.h: frames
Code = tuple[Place | None, Rules | None]


class CodeFile:
    """A file with code; one that cannot be read has none.

    Args:
        path: its name.
        inode: the number of the file that was mapped.
    """

    def __init__(self, path: str, inode: int) -> None:
        self._path, self._inode = path, inode
        self._was_read = False
        self._build_id, self._base_addr = "", 0
        self._segments: list[Segment] = []
        self._frames: CallFrames | None = None
        self._known: dict[int, Code] = {}  # by file_offset

    def _read(self) -> None:
        # Without waiting for a writer, should it be a FIFO by now.
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_ino != self._inode:
                return
            if facts.st_size > MAX_FILE_BYTES:
                return
            elf = ElfFile(lambda at, size: os.pread(descriptor, size, at), facts.st_size)
            self._build_id, self._base_addr = elf.build_id, elf.base_addr
            self._segments = [each for each in elf.segments if each.kind == PT_LOAD]
            self._frames = _call_frames(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def code(self, file_offset: int) -> Code:
        """Return what is at a place of the file, and how to come to its caller."""
        found = self._known.get(file_offset)
        if found is None:
            found = self._known[file_offset] = self._code(file_offset)
        return found

    def _code(self, file_offset: int) -> Code:
        if not self._was_read:
            self._was_read = True
            # It may not be there any more, be nothing of ours, or no ELF file.
            with contextlib.suppress(OSError, ValueError, ObjectError):
                self._read()
        for segment in self._segments:
            # A mapping begins and ends with a page; an address in the segment is in its bytes.
            if 0 <= file_offset - segment.offset < segment.file_size:
                addr = file_offset - segment.offset + segment.vaddr
                if not 0 <= addr < MOST_ADDR:
                    break
                rules = self._frames.at(addr - self._base_addr) if self._frames else None
                return Place(self._path, self._build_id, addr), rules
        return None, None


def _call_frames(path: str) -> CallFrames | None:
    try:
        found: Any = next(iter(Archive.open(path).iter_objects()))
        return CallFrames(found.make_cficache().open_stream().read())
    except (SymbolicError, StopIteration):
        return None
