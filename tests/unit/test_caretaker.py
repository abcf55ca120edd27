"""Connections taken away from whoever made them: ended here, open at the other end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from flametap import caretaker
from flametap.handshake import Handshake
from running import wait_until


def test_taken_connection_is_ended_for_its_maker_alone() -> None:
    kept_here, kept_there = socket.socketpair()
    handshake = Handshake(os.getpid())
    ours, theirs = socket.socketpair()
    with kept_here, kept_there, ours, theirs:
        taken = handshake.take_over()
        try:
            assert ours.recv(1) == b""
            kept_there.send(b"x")
            assert kept_here.recv(1) == b"x"
            theirs.setblocking(False)
            for descriptor in taken:
                os.write(descriptor, b"y")
        finally:
            for descriptor in taken:
                os.close(descriptor)


def test_line_is_kept_until_a_stopped_process_has_gone_on_for_a_while() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: _state(process.pid) == "T", "the stop")
            ours, theirs = socket.socketpair()
            with theirs:
                caretaker.start(process.pid, [ours.fileno()])
                ours.close()
                theirs.settimeout(3 * caretaker.LOOK_INTERVAL_S * caretaker.LOOKS)
                _assert_open(theirs)
                process.send_signal(signal.SIGCONT)
                theirs.settimeout(30)
                assert theirs.recv(1) == b""
        finally:
            process.kill()


def _assert_open(connection: socket.socket) -> None:
    try:
        assert connection.recv(1) != b""
    except TimeoutError:
        return
    raise AssertionError("nobody holds the other end")


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
