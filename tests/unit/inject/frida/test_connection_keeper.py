"""Connections taken away from whoever made them: ended here, open at the other end."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys

import pytest

from flametap.inject.frida import connection_keeper
from flametap.inject.frida.injector import FridaInjector
from flametap.inject.frida.stall_watch import Handshake
from flametap.linux import procfs
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
            wait_until(lambda: procfs.read_task_state(process.pid, process.pid) == "T", "the stop")
            ours, theirs = socket.socketpair()
            with theirs:
                connection_keeper.start(process.pid, [ours.fileno()])
                ours.close()
                theirs.settimeout(3 * connection_keeper.LOOK_INTERVAL_S * connection_keeper.LOOKS)
                assert _is_open(theirs)
                process.send_signal(signal.SIGCONT)
                theirs.settimeout(30)
                assert theirs.recv(1) == b""
        finally:
            process.kill()


def test_injector_keeps_the_line_itself_when_there_is_no_process_for_a_caretaker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int, descriptors: list[int]) -> None:
        raise BlockingIOError(errno.EAGAIN, "no process")

    opened: list[bool] = []
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: procfs.read_task_state(process.pid, process.pid) == "T", "the stop")
            injector = FridaInjector(process.pid)
            early, theirs = socket.socketpair()
            injector._handshake = Handshake(process.pid)
            with early.dup(), theirs:
                early.close()
                theirs.settimeout(0.1)
                monkeypatch.setattr(connection_keeper, "start", refuse)
                monkeypatch.setattr(
                    connection_keeper,
                    "wait_until_it_goes_on",
                    lambda pid: opened.append(_is_open(theirs)),
                )
                injector._leave_standing()
                assert opened == [True]
                assert theirs.recv(1) == b""
        finally:
            process.kill()


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
