"""Which sockets of a target lead to us: those through which Frida's agent there talks to our
process.

While we are stopped (SIGSTOP) that connection stays open, and Frida's agent loaded. So our own
agent, once it has given us up, shuts it down from within. It has to know for certain which sockets
those are: the ones whose other end is a descriptor of our own process that was not there before the
attach. The kernel says which ends belong together (sock_diag(7), NETLINK_SOCK_DIAG).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_DONE = 3
UDIAG_SHOW_PEER = 4
UNIX_DIAG_PEER = 2
ALL_STATES = 0xFFFFFFFF
RECEIVE_BYTES = 1 << 16
TIMEOUT_S = 1.0

# struct nlmsghdr; struct unix_diag_req; struct unix_diag_msg; struct rtattr
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_MESSAGE = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")


def sockets(pid: int) -> frozenset[int]:
    """Inode numbers of the sockets among a process's descriptors; empty when it is gone."""
    found = set()
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            with contextlib.suppress(OSError):
                if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"{folder}/{entry}")):
                    found.add(int(match[1]))
    return frozenset(found)


def leading_here(pid: int, ours_before: frozenset[int]) -> list[int]:
    """Inode numbers of the target's sockets whose other end is ours and new.

    Args:
        pid: the target.
        ours_before: our own sockets before the attach.

    Returns:
        as many as the kernel tells of: none when target and profiler are in different network
        namespaces.
    """
    ours = sockets(os.getpid()) - ours_before
    theirs = sockets(pid)
    try:
        peers = _peers()
    except OSError:
        return []
    return sorted(peers[inode] for inode in ours if peers.get(inode) in theirs)


def _peers() -> dict[int, int]:
    """Inode of each connected unix socket of our network namespace → inode of its other end."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, ALL_STATES, 0, UDIAG_SHOW_PEER, 0, 0)
    header = _HEADER.pack(
        _HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0
    )
    peers: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.settimeout(TIMEOUT_S)
        link.send(header + request)
        while True:
            data = link.recv(RECEIVE_BYTES)
            at = 0
            while at + _HEADER.size <= len(data):
                size, kind, *_ = _HEADER.unpack_from(data, at)
                if kind != SOCK_DIAG_BY_FAMILY or size < _HEADER.size:
                    return peers  # the end, or an error
                _take_peer(data[at + _HEADER.size : at + size], peers)
                at += (size + 3) & ~3


def _take_peer(message: bytes, peers: dict[int, int]) -> None:
    _, _, _, _, inode, _, _ = _MESSAGE.unpack_from(message)
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            return
        if kind == UNIX_DIAG_PEER:
            (peers[inode],) = struct.unpack_from("=I", message, at + _ATTRIBUTE.size)
        at += (size + 3) & ~3
