"""Hear of each process that begins, runs another program, or ends: the kernel's process events.

Needs CAP_NET_ADMIN, and the first pid namespace. Source: include/uapi/linux/cn_proc.h,
drivers/connector/cn_proc.c, netlink(7).
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from enum import IntEnum
from typing import NamedTuple

from .netlink import BUFFER_BYTES, HEADER, PACKET_BYTES, packets

NETLINK_CONNECTOR = 11
_CN_IDX_PROC = _CN_VAL_PROC = 1
_LISTEN, _IGNORE = 1, 2
_NLMSG_DONE = 3
_MESSAGE = struct.Struct("=IIIIHH")  # struct cn_msg: idx, val, seq, ack, length, flags
_EVENT = struct.Struct("=IIQ")  # struct proc_event: what, cpu, timestamp_ns
_IDS = struct.Struct("=IIII")
_ACKNOWLEDGED_S = 0.2


class What(IntEnum):
    """What has happened to a process."""

    BEGAN = 0x1
    REPLACED = 0x2  # it runs another program: exec
    ENDED = 0x8000_0000


class Event(NamedTuple):
    """One event of a process; none of a thread that is not the first one."""

    what: What
    pid: int
    parent: int  # of one that began; 0 otherwise
    at_ns: int  # CLOCK_MONOTONIC


class ProcEvents:
    """Receives the events of all processes of the machine.

    Raises:
        OSError: they may not be heard here.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_CONNECTOR)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.bind((0, _CN_IDX_PROC))
            self._say(_LISTEN)
            self._wait_for_answer()
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._socket.fileno()

    def read(self) -> tuple[list[Event], bool]:
        """Return what has happened since the last call, and whether some of it was missed."""
        found, was_missed = packets(self._socket)
        events = (_event(packet) for packet in found)
        return [each for each in events if each is not None], was_missed

    def close(self) -> None:
        """Hear of nothing any more."""
        self._say(_IGNORE)
        self._socket.close()

    def _say(self, operation: int) -> None:
        body = struct.pack("=I", operation)
        message = _MESSAGE.pack(_CN_IDX_PROC, _CN_VAL_PROC, 0, 0, len(body), 0) + body
        head = HEADER.pack(HEADER.size + len(message), _NLMSG_DONE, 0, 0, os.getpid())
        self._socket.send(head + message)

    def _wait_for_answer(self) -> None:
        """Wait until the kernel says that it will tell; raise OSError if it does not."""
        end_s = time.monotonic() + _ACKNOWLEDGED_S
        at = HEADER.size + _MESSAGE.size
        while (left_s := end_s - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left_s)[0]:
                break
            packet = self._socket.recv(PACKET_BYTES)
            if len(packet) >= at + _EVENT.size + 4:
                what, *_ = _EVENT.unpack_from(packet, at)
                (error,) = struct.unpack_from("=I", packet, at + _EVENT.size)
                if what == 0 and error:
                    raise OSError(error, os.strerror(error))
                return  # acknowledged, or the first event
        raise OSError("the kernel does not tell of processes")


def _event(packet: bytes) -> Event | None:
    at = HEADER.size + _MESSAGE.size
    if len(packet) < at + _EVENT.size + _IDS.size:
        return None
    what, _, at_ns = _EVENT.unpack_from(packet, at)
    first, first_group, second, second_group = _IDS.unpack_from(packet, at + _EVENT.size)
    if what == What.BEGAN and second == second_group:
        return Event(What.BEGAN, second, first_group, at_ns)
    if what == What.REPLACED:
        return Event(What.REPLACED, first_group, 0, at_ns)
    if what == What.ENDED and first == first_group:
        return Event(What.ENDED, first, 0, at_ns)
    return None
