"""Open the files whose code was sampled: for their build-ids and their call frame information.

They are those that the kernel mapped, by inode, or none; its own code in all programs, the vDSO, is
read from our memory. They are opened with the rights of the program's user, or with ours if we have
started it.
"""

from __future__ import annotations

import contextlib
import os
import struct

from ..linux.elf_headers import PT_LOAD
from ..linux.file_rights import ProcessUser
from ..linux.open_beneath import open_regular
from ..linux.vdso import VDSO, own_vdso
from ..recording.kernel_samples import Place
from ..symbols.object.elf import ElfFile
from ..symbols.object.object_file import ObjectError, Segment
from .call_frames import RSP, CallFrames, Rules

MAX_FILE_BYTES = 1 << 30
MOST_ADDR = 1 << 40  # agent/abi.h: frames
# Of the code that a program begins with: _start, and what the dynamic loader has behind it.
START_BYTES, ENTRY_BYTES = 47, 64
NO_CALLER = Rules(RSP, 8, ())
_ENTRY, _ENTRY_AT = struct.Struct("<Q"), 24  # e_entry
Code = tuple[Place | None, Rules | None]


class CodeFile:
    """A file with code; one that cannot be read has none.

    Args:
        path: its name.
        inode: the number of the file that was mapped.
        root: below which it is; "" for ours.
        user: with whose rights it is opened; None for ours.
    """

    def __init__(
        self, path: str, inode: int, root: str = "", user: ProcessUser | None = None
    ) -> None:
        self._path, self._inode, self._root, self._user = path, inode, root, user
        self._was_read = False
        self._build_id, self._entry_addr = "", 0
        self._segments: list[Segment] = []
        self._frames: CallFrames | None = None
        self._known: dict[int, Code] = {}  # by file_offset

    def _read(self) -> None:
        is_vdso = self._path == VDSO and not self._inode
        descriptor = (
            _vdso_file() if is_vdso else open_regular(self._path, self._root, user=self._user)
        )
        try:
            facts = os.fstat(descriptor)
            if not is_vdso and facts.st_ino != self._inode:
                return
            if facts.st_size > MAX_FILE_BYTES:
                return
            elf = ElfFile(lambda at, size: os.pread(descriptor, size, at), facts.st_size)
            self._build_id = elf.build_id
            self._segments = [each for each in elf.segments if each.kind == PT_LOAD]
            (self._entry_addr,) = _ENTRY.unpack(os.pread(descriptor, _ENTRY.size, _ENTRY_AT))
            self._frames = _call_frames(elf)
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
                rules = self._frames.at(addr) if self._frames else None
                # Some have no rules there, others the usual ones.
                behind = addr - self._entry_addr
                if 0 <= behind < (START_BYTES if rules else ENTRY_BYTES):
                    rules = NO_CALLER
                return Place(self._path, self._build_id, addr), rules
        return None, None


def _call_frames(elf: ElfFile) -> CallFrames | None:
    header, frames = elf.section(".eh_frame_hdr"), elf.section(".eh_frame")
    if header is None or frames is None:
        return None
    with contextlib.suppress(ValueError):
        return CallFrames(elf.data(header), header.addr, elf.data(frames), frames.addr)
    return None


def _vdso_file() -> int:
    descriptor = os.memfd_create("vdso", os.MFD_CLOEXEC)
    os.write(descriptor, own_vdso())
    return descriptor
