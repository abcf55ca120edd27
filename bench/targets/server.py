"""The request loop of server.c in Python: ``server.py SOCKET THREADS``."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

DEPTH = 15
STEPS_A_REQUEST = 4000  # about 200 µs


def work(depth: int, value: int) -> int:
    if depth > 0:
        return work(depth - 1, value) + 1
    for _ in range(STEPS_A_REQUEST):
        value = value * 5 & 0xFFFF
    return value


def serve(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the client is gone
        while byte := connection.recv(1):
            connection.sendall(bytes([work(DEPTH, byte[0]) & 0xFF]))


def accept_all(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def main() -> None:
    path, thread_count = sys.argv[1:]
    threading.stack_size(256 << 10)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(int(thread_count))
        threading.Thread(target=accept_all, args=(listener,), daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
