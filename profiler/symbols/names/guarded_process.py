"""Read names in a process without rights that the library may end.

``guarded_names`` starts the process with one end of a socket pair. Each packet is one mangled name;
the answer is a JSON list of its short and its full name. It ends when the socket is closed.
"""

from __future__ import annotations

import json
import resource
import socket

import multi_demangle

from ...linux import sandbox
from .cxx_names import repair
from .limits import MAX_NAME_CHARACTERS

MAX_PACKET_BYTES = 1 << 16
_MEMORY_BYTES = 1 << 29
_CPU_S = 60
_SHORT = multi_demangle.DemangleOptions.name_only()
_FULL = multi_demangle.DemangleOptions.complete()


def main(descriptor: int) -> None:
    """Answer until the socket is closed."""
    connection = socket.socket(fileno=descriptor)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sandbox.confine()
    sandbox.deny_system_calls()
    # The filter lets us receive and send messages, and compute.
    while packet := connection.recvmsg(MAX_PACKET_BYTES)[0]:
        symbol = packet.decode()
        short, full = (
            multi_demangle.demangle_symbol(symbol, each) or symbol for each in (_SHORT, _FULL)
        )
        names = repair(symbol, short, full) if symbol.startswith("_Z") else (short, full)
        answer = json.dumps([name[: MAX_NAME_CHARACTERS + 1] for name in names])
        connection.sendmsg([answer.encode()])
