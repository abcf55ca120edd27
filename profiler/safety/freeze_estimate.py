"""Estimate how long an attach will stop the target's main thread, from the target's mappings.

To find the dynamic loader, Frida 17 searches all named mappings, and the main thread is stopped
meanwhile. A mapping that is not an ELF file on disk (a data file, shared memory, a memfd) is read
completely through ``/proc/PID/mem``, four times, but not beyond the end of the file: databases such
as LMDB map 500 MiB of a file of some KiB. A file mapped in several pieces is read from each piece
to the end of the last one. Observed with strace on 17.26; the contents make no difference.
The other threads keep running unless they wait for the main thread.
"""

from __future__ import annotations

import os

from ..linux import executable, procfs
from ..linux.file_rights import ProcessUser
from ..linux.maps import Mapping
from ..linux.open_beneath import open_mapped_file

WARN_S = 0.2
REFUSE_S = 2.0

# Measured on 2 cores with 128 and 512 MiB of files, shared memory and memfds, and on java 17 and
# PostgreSQL 15: 3.8 to 7.5 ms per MiB.
SECONDS_PER_BYTE = 6e-3 / (1 << 20)
# Inside Frida, a single read of 2 GiB or more fails at once.
MAX_MAPPING_BYTES = 1 << 31
# A smaller file takes less than 2 ms: not worth opening to see whether it is an ELF file.
MIN_FILE_BYTES = 256 << 10
_UNKNOWN_BYTES = 1 << 62  # of a file that cannot be opened: as many as are mapped


def estimate_s(pid: int, mappings: list[Mapping], proc: str = procfs.PROC) -> float:
    """Estimate how long Frida will stop the main thread to read mapped files, in seconds.

    Args:
        pid: the process.
        mappings: its named mappings, in ascending order.
        proc: where procfs is mounted.
    """
    by_file: dict[str, list[Mapping]] = {}
    for mapping in mappings:
        if _is_read_by_frida(mapping):
            by_file.setdefault(mapping.path, []).append(mapping)
    total_bytes = 0
    user = ProcessUser(pid, proc)
    for pieces in by_file.values():
        if sum(piece.size for piece in pieces) < MIN_FILE_BYTES:
            continue
        file_bytes = _file_bytes(user, pieces[0])
        # All anonymous shared memory has one name ("/dev/zero (deleted)"); each mapping of it is
        # read once.
        joined = not pieces[0].is_deleted
        # An unreadable piece is not read, but the pieces after it are read once more for it.
        for index, piece in enumerate(pieces, start=1):
            if piece.permissions.startswith("r") and piece.size < MAX_MAPPING_BYTES:
                read_bytes = min(piece.size, max(file_bytes - piece.file_offset, 0))
                total_bytes += read_bytes * (index if joined else 1)
    return total_bytes * SECONDS_PER_BYTE


def _is_read_by_frida(mapping: Mapping) -> bool:
    if mapping.path.startswith("/dev/"):
        # Shared memory has these two names. Other device memory cannot be read through
        # /proc/PID/mem.
        return mapping.path.startswith(("/dev/zero", "/dev/shm/"))
    return mapping.path.startswith("/")  # not [heap], [stack], [anon:…]


def _file_bytes(user: ProcessUser, mapping: Mapping) -> int:
    """Return how much of the mapped file can be read: nothing of an ELF file, which Frida knows;
    all that is mapped where that cannot be told.
    """
    descriptor = open_mapped_file(user, mapping)
    if descriptor is None:
        return _UNKNOWN_BYTES
    try:
        if executable.is_elf(descriptor):
            return 0
        return os.fstat(descriptor).st_size
    except OSError:
        return _UNKNOWN_BYTES
    finally:
        os.close(descriptor)
