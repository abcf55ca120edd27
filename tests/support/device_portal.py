"""A Frida portal with one process as its node, as a device that is reached by TCP.

Run by itself (``python device_portal.py PID PORT CERTIFICATE``), because Frida never leaves the
process that has joined a portal, and writes to standard output.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from running import wait_until

TOKEN, NODE_TOKEN = "right", "node"
READY_S = 30.0


@dataclass(frozen=True)
class Portal:
    """A portal that runs: its address, the certificate that proves it, and its process."""

    address: str
    certificate: Path
    process: subprocess.Popen[str]


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
        try:
            yield Portal(f"127.0.0.1:{port}", certificate, process)
        finally:
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
