"""``flametap serve --stdio``: what the other side talks to first.

It lists, looks and prints for it, or hands the connection on to a recording (``session``), which
goes on when this connection has ended.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import threading
from typing import Any, BinaryIO

from ..linux import helper_process
from ..linux.boot import boot_id
from ..linux.peer import peer_of
from ..version import version
from .messages import PROTOCOL, Line, LineError, Message, write_all
from .session import SILENT_S, address

_PIECE = 1 << 16
_PACKAGE = __name__.partition(".")[0]  # what it runs there is named: it stands higher


def serve(line: Line) -> None:
    """Talk to the other side until it is gone."""
    with contextlib.suppress(OSError, LineError, TimeoutError):
        line.begin()
        line.send_facts("HELO", **_here())
        message = line.receive(SILENT_S)
        if message is None:
            return
        if message.kind == "RUNS":
            _run(line, message.facts)
        elif message.kind == "RECD":
            ours, theirs = socket.socketpair()
            with theirs:
                _start_session(theirs)
            _hand_on(line, message, ours)
        elif message.kind == "BACK":
            _go_on(line, message)


def _here() -> dict[str, Any]:
    names = {"host": platform.node(), "boot": boot_id()}
    return {"protocol": PROTOCOL, "version": version(), **names}


def _run(line: Line, facts: dict[str, Any]) -> None:
    """Run a command, and send what it prints."""
    arguments = facts.get("arguments")
    if not isinstance(arguments, list):
        return
    child = subprocess.Popen(
        helper_process.command(f"{_PACKAGE}.__main__", *map(str, arguments)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": str(facts.get("columns") or 80)},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    pipes = [("OUTS", child.stdout), ("ERRS", child.stderr)]
    threads = [threading.Thread(target=_send_all, args=(line, *each)) for each in pipes]
    threading.Thread(target=_end_with, args=(line, child), daemon=True).start()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    line.send_facts("EXIT", code=child.wait())


def _end_with(line: Line, child: subprocess.Popen[bytes]) -> None:
    """End a command when the other side has gone."""
    with contextlib.suppress(LineError):
        while line.receive() is not None:
            pass
    child.terminate()


def _send_all(line: Line, kind: str, pipe: BinaryIO) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(pipe.fileno(), _PIECE):
            line.send(kind, data)


def _start_session(connection: socket.socket) -> None:
    number = connection.fileno()
    helper_process.start(f"{_PACKAGE}.cli.serving", number, descriptors=[number])


def _go_on(line: Line, message: Message) -> None:
    """Hand the connection on to a recording that has been begun before."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address(str(message.facts.get("session"))))
        # Anybody can take the name of a session that has ended.
        is_ours = peer_of(connection).uid == os.geteuid()
    except OSError:
        is_ours = False
    if not is_ours:
        line.send("GONE")
        return
    _hand_on(line, message, connection)


def _hand_on(line: Line, message: Message, connection: socket.socket) -> None:
    """Pass on all that comes, in both directions."""
    to_session = Line(connection.fileno(), connection.fileno(), connection)
    to_session.send(message.kind, message.data)
    connection.sendall(line.unread())
    threading.Thread(target=_bring_back, args=(connection,), daemon=True).start()
    _copy(0, connection.fileno())
    connection.shutdown(socket.SHUT_RDWR)


def _bring_back(connection: socket.socket) -> None:
    """Pass on what the recording sends, and end with it: nobody reads our input any more."""
    _copy(connection.fileno(), 1)
    os._exit(0)


def _copy(read_fd: int, write_fd: int) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(read_fd, _PIECE):
            write_all(write_fd, data)
