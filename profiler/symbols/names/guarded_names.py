"""Have names read in a process of their own that the library may not survive.

The library reads Swift names with Swift's own code, which ends its process for names that no
compiler makes. Its reader of C++ names tries the ways to read nested templates one after another:
time and memory double with each level, if the innermost one cannot be read. A hostile program may
have such names. A name that ends the process, or takes it too long, stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Sequence

from ...linux.helper_process import start as start_process
from .guarded_process import MAX_PACKET_BYTES

MAX_SWIFT = 4096  # characters; the longest in Swift's standard library have 600
_SWIFT = re.compile(r"_?\$[sSe]")
# Template arguments and new expressions: where the reader of C++ names branches. Of node's 62 000
# names one in 500 has more, of LLVM's one in 160.
_BRANCH = re.compile(r"I|nw")
_MAX_BRANCHES = 10
_MAX_DEATHS = 4  # in one call
_TIMEOUT_S = 3.0  # for one name: microseconds, and 0.1 s for the start of the process


def needs_guard(symbol: str) -> bool:
    """Return True for a mangled name that the library may not survive."""
    if _SWIFT.match(symbol):
        return True
    return symbol.startswith(("_Z", "__Z")) and len(_BRANCH.findall(symbol)) > _MAX_BRANCHES


def read_guarded_names(symbols: Sequence[str]) -> list[tuple[str, str]]:
    """Return short and full names; ``""`` for those that cannot be read.

    It starts a process, and ends it: 0.1 s. Names behind the fourth that ends its process are not
    read.
    """
    names = [("", "")] * len(symbols)
    at = 0
    for _ in range(_MAX_DEATHS if symbols else 0):
        at += _read(symbols, at, names) + 1
        if at >= len(symbols):
            break
    return names


def _read(symbols: Sequence[str], first: int, names: list[tuple[str, str]]) -> int:
    """Fill in names from ``first`` on; return how many were read before the process ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process: subprocess.Popen[bytes] | None = None
    at = first
    with ours, theirs:
        try:
            module = f"{__package__}.guarded_process"
            process = start_process(module, theirs.fileno(), descriptors=[theirs.fileno()])
            theirs.close()
            ours.settimeout(_TIMEOUT_S)
            for at in range(first, len(symbols)):
                if len(symbols[at]) > MAX_SWIFT and _SWIFT.match(symbols[at]):
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
