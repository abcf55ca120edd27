"""Have Swift names read in a process of their own.

The library reads them with Swift's own code, which ends its process for names that no compiler
makes, and a hostile program may have such names. A name that ends the process stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Sequence

from ...linux.helper_process import start as start_process
from .swift_process import MAX_PACKET_BYTES

MAX_MANGLED = 4096  # characters; the longest in Swift's standard library have 600
_MAX_DEATHS = 4  # in one call
_TIMEOUT_S = 10.0  # for one name: microseconds, and 0.1 s for the start of the process


def read_swift_names(symbols: Sequence[str]) -> list[tuple[str, str]]:
    """Return short and full names; ``""`` for those that cannot be read.

    It starts a process, and ends it: 0.1 s. Names behind the fourth that ends its process are not
    read.
    """
    names = [("", "")] * len(symbols)
    at = 0
    for _ in range(_MAX_DEATHS):
        at += _read(symbols, at, names) + 1
        if at >= len(symbols):
            break
    return names


def _read(symbols: Sequence[str], first: int, names: list[tuple[str, str]]) -> int:
    """Fill in names from ``first`` on; return how many were read before the process ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process: subprocess.Popen[bytes] | None = None
    with ours, theirs:
        try:
            module = f"{__package__}.swift_process"
            process = start_process(module, theirs.fileno(), descriptors=[theirs.fileno()])
            theirs.close()
            ours.settimeout(_TIMEOUT_S)
            for at in range(first, len(symbols)):
                if len(symbols[at]) > MAX_MANGLED:
                    continue
                ours.send(symbols[at].encode())
                answer = ours.recv(MAX_PACKET_BYTES)
                if not answer:
                    return at - first
                short, full = json.loads(answer)
                names[at] = str(short), str(full)
        except (OSError, ValueError):
            return at - first if process else len(symbols)
        finally:
            ours.close()
            if process is not None:
                with contextlib.suppress(OSError):
                    process.kill()
                process.wait()
    return len(symbols) - first
