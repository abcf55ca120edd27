"""What Frida does on its own, and may not do here: print into the target's output, read all of its
memory, and unpack and start programs.

**Print.** Frida's agent has a C library of its own that writes to descriptors 1 and 2, the
target's. When its connection is cut before it has come up, it says so there: "[Frida INFO]
agent.vala:217: Unable to start agent: …". Whatever it logs goes through one format string. The
agent comes to the target as a memory file (memfd_create(2)) of our process, which the target's
loader maps; there that string is made empty, once, before it is first sent.

**Read all memory.** To find the dynamic loader, Frida looks at each named mapping of the target,
while its main thread stands still. What is no ELF file on disk it reads completely from the
target's memory, four times: a data file, the shared memory of a database, at 6 ms per MiB. It does
without what cannot be read. So a large read fails unless an ELF image begins there.

**Unpack.** Frida looks for phones, too: with the first attach it unpacks a daemon for iOS devices
(``idund``, 10 MB) into a new folder of the temporary one and starts it. That outlives us by half a
minute, writes an identity into ``~/.config``, and a folder stays wherever somebody is killed. We
attach on this machine alone. So Frida may make no folders, and none of it happens (frida 17.26).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

import frida

from ...errors import CannotAttachError
from ...linux import elf_headers
from . import plt_hook

AGENT_FILE = "/memfd:frida-agent"
# As the C compiler lays it down: nothing may share its end.
LOG_FORMAT = b"\0[%s %s] %s\n\0"


def restrain(library: str) -> None:
    """Have Frida's library make no folders, and read none of a target's data. Done again it changes
    nothing.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Raises:
        CannotAttachError: it reads in a way that is not known.
    """
    refuse_folders(library)
    if not read_no_data(library):
        raise CannotAttachError(
            f"frida {frida.__version__} reads a process's memory in a way that is not known: the "
            "process might stand still for seconds",
            "install the version that flametap was made for: pip install frida==17.26.2",
        )


def silence(silenced: set[tuple[int, int]]) -> None:
    """Silence each copy of the agent that this process holds. Where the string is not there, as
    it may be with another version of Frida, nothing happens.

    Args:
        silenced: (device, inode) of files that have been looked at; those found now are added.
    """
    for name in os.listdir("/proc/self/fd"):
        # It has been closed; no memory to map it; no ELF file.
        with contextlib.suppress(OSError, ValueError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(AGENT_FILE):
                _silence(int(name), silenced)


def _silence(descriptor: int, silenced: set[tuple[int, int]]) -> None:
    file = os.fstat(descriptor)
    if (file.st_dev, file.st_ino) in silenced:
        return
    silenced.add((file.st_dev, file.st_ino))
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as agent:
        found = (agent.find(LOG_FORMAT, start, end) for start, end in _constants(agent))
        at = next((each for each in found if each >= 0), -1)
    if at >= 0:
        os.pwrite(descriptor, b"\0", at + 1)


def _constants(file: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where in an ELF file that is that can be neither written nor executed: a fifth of 36 MB."""

    def read(offset: int, size: int) -> bytes:
        return file[offset : offset + size]

    header = elf_headers.parse_header(read(0, elf_headers.HEADER.size))
    for segment in elf_headers.read_program_headers(header, read):
        if segment.kind == elf_headers.PT_LOAD and segment.flags == elf_headers.PF_R:
            yield segment.offset, segment.offset + segment.file_size


def _no_folder(path: bytes, mode: int) -> int:
    ctypes.set_errno(errno.EACCES)
    return -1


# A smaller read takes 10 us.
LARGE_READ_BYTES = 16 << 10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.pread64.restype = ctypes.c_ssize_t
_libc.pread64.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)


def _is_memory(descriptor: int) -> bool:
    """Is it the memory of a process, proc(5)?"""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").endswith("/mem")
    except OSError:
        return False


def _read_image(descriptor: int, to: int, size: int, offset: int) -> int:
    """pread(2), as Frida calls it for the target's memory."""
    if size >= LARGE_READ_BYTES and _is_memory(descriptor):
        begin = _libc.pread64(descriptor, to, len(elf_headers.MAGIC), offset)
        if begin != len(elf_headers.MAGIC) or ctypes.string_at(to, begin) != elf_headers.MAGIC:
            ctypes.set_errno(errno.EIO)
            return -1
    return int(_libc.pread64(descriptor, to, size, offset))


_pread = ctypes.CFUNCTYPE(
    *(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    use_errno=True,
)(_read_image)


def read_no_data(library: str) -> bool:
    """Has Frida read of the target's memory what may be a library. Done again it changes nothing.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's pread(2).
    """
    return all([plt_hook.redirect(library, name, _pread) for name in (b"pread", b"pread64")])


# Frida calls it for as long as the process lives.
_mkdir = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, use_errno=True)(_no_folder)


def refuse_folders(library: str) -> bool:
    """Has mkdir(2) fail in Frida's library. Done again it changes nothing.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's.
    """
    return plt_hook.redirect(library, b"mkdir", _mkdir)
