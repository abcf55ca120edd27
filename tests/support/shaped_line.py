"""A bad connection, for ``--via``: it is slow, far away, silent for a while, or cut.

python shaped_line.py [--rate BYTES_A_SECOND] [--delay S] [--silent FROM_S-UNTIL_S] [--cut S]
    [--state FILE] COMMAND...

With ``--state``, a connection that was cut once is not cut again: FILE is made then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from pathlib import Path

_PIECE = 4096


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=float("inf"))
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--silent", default="0-0")
    parser.add_argument("--cut", type=float, default=float("inf"))
    parser.add_argument("--state", type=Path, default=None)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    child = subprocess.Popen(options.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    is_cut = options.cut < float("inf") and not (options.state and options.state.exists())
    for read_fd, write_fd in ((0, child.stdin.fileno()), (child.stdout.fileno(), 1)):
        way = _Way(read_fd, write_fd, options)
        threading.Thread(target=way.take, daemon=True).start()
        threading.Thread(target=way.give, daemon=True).start()
    if is_cut:
        time.sleep(options.cut)
        if options.state:
            options.state.touch()
        os._exit(1)
    child.wait()
    time.sleep(options.delay + 0.2)
    os._exit(child.returncode)


class _Way:
    """One direction: what comes is written as late and as slowly as the options say."""

    def __init__(self, read_fd: int, write_fd: int, options: argparse.Namespace) -> None:
        self._read_fd, self._write_fd, self._options = read_fd, write_fd, options
        self._begin_s = time.monotonic()
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._room = threading.Semaphore(64)  # pieces: a line holds little
        self._changed = threading.Condition()

    def take(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._read_fd, _PIECE):
                self._room.acquire()
                self._put(data)
        self._put(b"")

    def _put(self, data: bytes) -> None:
        with self._changed:
            self._pieces.append((time.monotonic() + self._options.delay, data))
            self._changed.notify()

    def give(self) -> None:
        from_s, until_s = (float(each) for each in self._options.silent.split("-"))
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces)
                due_s, data = self._pieces.popleft()
            time.sleep(max(0.0, due_s - time.monotonic()))
            passed_s = time.monotonic() - self._begin_s
            if from_s <= passed_s < until_s:
                time.sleep(until_s - passed_s)
            time.sleep(len(data) / self._options.rate)
            self._room.release()
            with contextlib.suppress(OSError):
                os.write(self._write_fd, data) if data else os.close(self._write_fd)


if __name__ == "__main__":
    main()
