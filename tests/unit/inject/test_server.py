"""What the process that holds Frida says of the end."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from types import SimpleNamespace
from typing import cast

from flametap.inject import server
from flametap.inject.frida.session import Session
from flametap.inject.rpc import MAX_PACKET_BYTES, decode
from flametap.linux.execs import Program

DEADLINE_S = 120.0


def told_reason(program: Program) -> object:
    """What it tells of a session that has ended, and whose reason Frida has not given yet."""
    ended = threading.Event()
    ended.set()
    session = cast(Session, SimpleNamespace(attached=program, ended=ended, end_reason=""))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        server._tell_end(theirs, session)
        return decode(ours.recv(MAX_PACKET_BYTES))["ended"]


def test_exec_is_told_also_when_fridas_word_for_it_comes_late() -> None:
    command = ["sh", "-c", "echo ready; read line; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdin is not None
        assert target.stdout is not None
        assert target.stdout.readline() == b"ready\n"
        program = Program(target.pid)
        assert told_reason(program) == ""
        target.stdin.write(b"go\n")
        target.stdin.flush()
        deadline = time.monotonic() + DEADLINE_S
        while not program.is_replaced() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told_reason(program) == "the target replaced itself by another program (exec)"
        target.stdin.close()
