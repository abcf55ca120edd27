"""A Frida portal with one process as its node, as a device that is reached by TCP.

Run by itself (``python device_portal.py PID PORT CERTIFICATE``), because Frida never leaves the
process that has joined a portal, and writes to standard output.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from running import wait_until

TOKEN, NODE_TOKEN = "right", "node"
READY_S = 30.0


@dataclass(frozen=True)
class Portal:
    """A portal that runs: its address, the certificate that proves it, and a line to it."""

    address: str
    certificate: Path
    line: Line


class Line:
    """What leads to a port of this machine, until it is cut. The portal itself has to stay: with
    Frida 17.26, the program dies with a portal through which somebody is attached.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections; there are no new ones."""
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is cut
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(self._to)
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=ends, daemon=True).start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def portal(pid: int, folder: Path) -> Iterator[Portal]:
    """Make a process the node of a portal that wants TLS and a token."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    port, node_port = _free_port(), _free_port()
    words = [sys.executable, __file__, *map(str, (pid, port, node_port, both))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = process.stdout
        wait_until(lambda: lines.readline().strip() in ("ready", ""), "the portal", READY_S)
        line = Line(port)
        try:
            yield Portal(f"127.0.0.1:{port}", certificate, line)
        finally:
            line.cut()
            process.kill()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main(pid: int, port: int, node_port: int, certificate: str) -> None:
    """Be the portal, until standard input ends."""
    import frida

    pem = Path(certificate).read_text()
    nodes = frida.EndpointParameters(
        address="127.0.0.1", port=node_port, authentication=("token", NODE_TOKEN)
    )
    others = frida.EndpointParameters(
        address="127.0.0.1", port=port, certificate=pem, authentication=("token", TOKEN)
    )
    service = frida.PortalService(nodes, others)  # type: ignore[no-untyped-call]
    service.start()
    session = frida.attach(pid)
    session.join_portal(f"127.0.0.1:{node_port}", token=NODE_TOKEN)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
