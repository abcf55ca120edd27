"""Threads that never run: ``idle.py COUNT``. Prints "ready"; ends with its standard input."""

from __future__ import annotations

import os
import sys
import threading

never = threading.Event()


def wait_long() -> None:
    never.wait()


def main() -> None:
    threading.stack_size(256 << 10)
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=wait_long, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
