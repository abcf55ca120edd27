"""Which connections of an attach are hung up on: a pair that we made, and one that came to us."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from flametap.inject.frida.stall_watch import Handshake

CALLER = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(bytes.fromhex(sys.argv[1]))
print(line.recv(1))
"""


def test_the_agent_is_hung_up_on_before_the_loader() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel finds a name that is in no file system
        listener.listen()
        name = listener.getsockname().hex()
        handshake = Handshake(os.getpid())
        with (
            subprocess.Popen(
                [sys.executable, "-c", CALLER, name], stdout=subprocess.PIPE, text=True
            ) as caller,
            listener.accept()[0] as loader,
        ):
            agent, agents_end = socket.socketpair()
            with agent, agents_end:
                agents_end.settimeout(10)
                handshake.hang_up_on_agent()
                assert agents_end.recv(1) == b""
                assert caller.poll() is None
                loader.send(b"x")
                assert caller.communicate(timeout=60)[0] == "b'x'\n"
                handshake.hang_up()
                assert loader.recv(1) == b""
