"""Read what the kernel sends over a netlink socket. netlink(7)"""

from __future__ import annotations

import errno
import socket
import struct

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
BUFFER_BYTES = 1 << 22  # of a socket: 30 000 short messages
PACKET_BYTES = 1 << 14


def packets(link: socket.socket) -> tuple[list[bytes], bool]:
    """Return what has come since the last call, and whether some of it was missed.

    Raises:
        OSError: nothing can be read any more.
    """
    found: list[bytes] = []
    was_missed = False
    while True:
        try:
            found.append(link.recv(PACKET_BYTES))
        except BlockingIOError:
            return found, was_missed
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            was_missed = True  # it came faster than we read
