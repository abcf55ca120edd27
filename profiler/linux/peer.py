"""Who is at the other end of a unix socket. Source: unix(7), SO_PEERCRED."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_UCRED = struct.Struct("=iII")  # struct ucred


class Peer(NamedTuple):
    """A process, as it was when the two were connected; of a socket pair, the one that made it."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return the process at the other end. Raises OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(data))
