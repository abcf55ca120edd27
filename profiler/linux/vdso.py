"""The vDSO, code that the kernel maps into every process: it is the same in all. vdso(7)"""

from __future__ import annotations

import os

from .maps import read_maps

VDSO = "[vdso]"


def own_vdso() -> bytes:
    """Return its bytes; none where there is no vDSO."""
    for mapping in read_maps("/proc/self"):
        if mapping.path == VDSO:
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                return os.pread(memory.fileno(), mapping.end - mapping.start, mapping.start)
    return b""
