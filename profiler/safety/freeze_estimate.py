"""How long an attach will stop the target's main thread: an estimate from what it has mapped.

To find the dynamic loader, Frida 17 goes through all mappings that have a name, and meanwhile the
main thread stands still. What is not an ELF file on disk (data files, shared memory, memfds) it
reads whole through ``/proc/PID/mem``, four times over; a file mapped in k pieces is read from each
piece to its end. Seen with strace on 17.26; what the memory holds makes no difference. The other
threads go on, unless they wait for the main thread.
"""

from __future__ import annotations

import os
import stat

from ..linux import executable, procfs
from ..linux.maps import Mapping

WARN_S = 0.2
REFUSE_S = 2.0

# Measured on 2 cores with 128 and 512 MiB of files, shared memory and memfds, and on java 17 and
# PostgreSQL 15: 3.8 to 7.5 ms per MiB.
SECONDS_PER_BYTE = 6e-3 / (1 << 20)
# A single read of 2 GiB or more fails at once inside Frida.
MAX_MAPPING_BYTES = 1 << 31
# Smaller ones take less than 2 ms each and would only cost time to look at.
MIN_FILE_BYTES = 256 << 10


def estimate_s(pid: int, mappings: list[Mapping], proc: str = procfs.PROC) -> float:
    """Seconds that the main thread will stand still because of mapped files.

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
    for pieces in by_file.values():
        if sum(piece.size for piece in pieces) < MIN_FILE_BYTES:
            continue
        if _is_elf_file(pid, pieces[0], proc):
            continue
        # Shared memory without a file has one name too ("/dev/zero"), but is not read together.
        joined = not pieces[0].is_deleted
        # Unreadable pieces are not read, but start a round through the others like any other.
        for index, piece in enumerate(pieces, start=1):
            if piece.permissions.startswith("r") and piece.size < MAX_MAPPING_BYTES:
                total_bytes += piece.size * (index if joined else 1)
    return total_bytes * SECONDS_PER_BYTE


def _is_read_by_frida(mapping: Mapping) -> bool:
    if mapping.path.startswith("/dev/"):
        # Device memory cannot be read through /proc/PID/mem; shared memory has these two names.
        return mapping.path.startswith(("/dev/zero", "/dev/shm/"))
    return mapping.path.startswith("/")  # not [heap], [stack], [anon:…]


def _is_elf_file(pid: int, mapping: Mapping, proc: str) -> bool:
    descriptor = procfs.open_mapped_file(pid, mapping, proc)
    if descriptor is None:
        return False
    try:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_regular and executable.is_elf(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
