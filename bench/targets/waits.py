"""Run waits.c in a Python process: ``waits.py LIBRARY THREADS``.

Prints "ready", and for every line of input a line of JSON: kind of wait → [returns, EINTRs].
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

KINDS = ("poll", "epoll_wait", "select", "nanosleep", "sem_timedwait")


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.waits_count.restype = ctypes.c_uint64
    if library.waits_start(int(sys.argv[2])) != 0:
        sys.exit(1)
    print("ready", flush=True)
    for _ in sys.stdin:
        counted = {
            name: [int(library.waits_count(kind, what)) for what in (0, 1)]
            for kind, name in enumerate(KINDS)
        }
        print(json.dumps(counted), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
