"""Busy below so many frames: deep.py FRAMES. Prints "ready"; ends with its standard input."""

import os
import sys
import threading


def descend(frames: int) -> int:
    if frames:
        return descend(frames - 1)
    value = 1
    while True:
        value = value * 69069 + 1 & 0xFFFFFFFF


def main() -> None:
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print("ready", flush=True)
    descend(int(sys.argv[1]) - 3)  # with this one, the module and the last


main()
