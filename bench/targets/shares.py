"""A Python program with known shares of CPU time: crc32 three parts, adler32 one.

zlib does the work, so a native profiler sees its functions; two Python functions call it, which a
Python profiler sees. Input and output are those of shares.c.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import zlib

BLOCK = bytes(range(256)) * 2048  # 512 KiB
spent_ns = {"heavy": 0, "light": 0}
lock = threading.Lock()


def heavy() -> None:
    for _ in range(30):
        zlib.crc32(BLOCK)


def light() -> None:
    for _ in range(10):
        zlib.adler32(BLOCK)


def work() -> None:
    while True:
        for function in (heavy, light):
            before = time.thread_time_ns()
            function()
            with lock:
                spent_ns[function.__name__] += time.thread_time_ns() - before


def main() -> None:
    threading.Thread(target=work, daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        with lock:
            print(" ".join(f"{name}={ns}" for name, ns in spent_ns.items()), flush=True)
            spent_ns.update(heavy=0, light=0)
    os._exit(0)


if __name__ == "__main__":
    main()
