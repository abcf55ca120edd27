"""Hear how much CPU time each process has used that ends: the kernel's task statistics.

Needs CAP_NET_ADMIN. Source: include/uapi/linux/taskstats.h, Documentation/accounting/taskstats.rst,
genetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from .netlink import BUFFER_BYTES, HEADER, PACKET_BYTES, packets

_NETLINK_GENERIC = 16
_GENERIC = struct.Struct("=BBH")  # struct genlmsghdr: command, version
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NLM_F_REQUEST, _NLMSG_ERROR = 1, 2
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_GET, _REGISTER, _DEREGISTER = 1, 3, 4
_PID, _STATS, _OF_PID = 1, 3, 4  # TASKSTATS_TYPE_PID, _STATS, _AGGR_PID
_RAN_AT, _NAME_AT, _NAME_BYTES, _PARENT_AT, _TIMES_AT = 72, 80, 32, 132, 144
_TIMES = struct.Struct("=QQQ")  # elapsed, user, system: microseconds
_ANSWER_S = 1.0


class Ended(NamedTuple):
    """A thread that has ended."""

    tid: int
    parent: int  # the pid of the process that its process was started by
    name: str
    elapsed_ns: int
    cpu_ns: int


class TaskStats:
    """Receives the statistics of each thread of the machine that ends.

    Raises:
        OSError: they may not be heard here.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.settimeout(_ANSWER_S)
            self._socket.bind((0, 0))
            self._family = self._find_family()
            self._cpus = f"0-{(os.cpu_count() or 1) - 1}".encode() + b"\0"
            self._ask(self._family, _GET, _REGISTER, self._cpus)
            self._ask_for_error()
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._socket.fileno()

    def read(self) -> tuple[list[Ended], bool]:
        """Return the threads that have ended since the last call, and whether some were missed."""
        found, was_missed = packets(self._socket)
        return [each for packet in found for each in _ended(packet)], was_missed

    def close(self) -> None:
        """Hear of nothing any more."""
        self._ask(self._family, _GET, _DEREGISTER, self._cpus)
        self._socket.close()

    def _find_family(self) -> int:
        self._ask(_CONTROL, _GET_FAMILY, _FAMILY_NAME, b"TASKSTATS\0")
        packet = self._socket.recv(PACKET_BYTES)
        for kind, value in _attributes(packet[HEADER.size + _GENERIC.size :]):
            if kind == _FAMILY_ID:
                (family,) = struct.unpack("=H", value[:2])
                return int(family)
        raise OSError("the kernel has no task statistics")

    def _ask(self, family: int, command: int, attribute: int, value: bytes) -> None:
        size = _ATTRIBUTE.size + len(value)
        body = _GENERIC.pack(command, 1, 0) + _ATTRIBUTE.pack(size, attribute) + value
        body += bytes(-size % 4)
        # With _NLM_F_ACK, so that a refusal is told.
        flags = _NLM_F_REQUEST | (4 if family != _CONTROL else 0)
        self._socket.send(HEADER.pack(HEADER.size + len(body), family, flags, 0, 0) + body)

    def _ask_for_error(self) -> None:
        packet = self._socket.recv(PACKET_BYTES)
        _, kind, *_ = HEADER.unpack_from(packet)
        if kind == _NLMSG_ERROR:
            (error,) = struct.unpack_from("=i", packet, HEADER.size)
            if error:
                raise OSError(-error, os.strerror(-error))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size or at + size > len(data):
            return
        yield kind, data[at + _ATTRIBUTE.size : at + size]
        at += size + -size % 4


def _ended(packet: bytes) -> Iterator[Ended]:
    for kind, value in _attributes(packet[HEADER.size + _GENERIC.size :]):
        if kind != _OF_PID:
            continue
        own = dict(_attributes(value))
        stats = own.get(_STATS, b"")
        if len(own.get(_PID, b"")) < 4 or len(stats) < _TIMES_AT + _TIMES.size:
            continue
        (tid,) = struct.unpack("=I", own[_PID][:4])
        (parent,) = struct.unpack_from("=I", stats, _PARENT_AT)
        elapsed_us, user_us, system_us = _TIMES.unpack_from(stats, _TIMES_AT)
        # Exact; 0 where the kernel does not say. The two others are counted by timer ticks.
        (ran_ns,) = struct.unpack_from("=Q", stats, _RAN_AT)
        name = stats[_NAME_AT : _NAME_AT + _NAME_BYTES].split(b"\0")[0].decode("utf-8", "replace")
        cpu_ns = ran_ns or (user_us + system_us) * 1000
        yield Ended(tid, parent, name, elapsed_us * 1000, cpu_ns)
