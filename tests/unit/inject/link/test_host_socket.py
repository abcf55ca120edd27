"""Our end of a thread's pair of sockets is taken out of that thread's own table."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from flametap.inject.link import host_socket
from own_tables import own_table

pytestmark = pytest.mark.skipif(
    tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 9),
    reason="a thread's own descriptors can be had since Linux 6.9",
)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_no_other_file_is_taken() -> None:
    """The target can put any file there, or none."""
    before = os.listdir("/proc/self/fd")
    stream, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with stream, other_end, open(os.devnull) as file:
        for fd in (stream.fileno(), file.fileno(), -1, 4000):
            assert host_socket.take(threading.get_native_id(), fd) is None
    assert os.listdir("/proc/self/fd") == before


def test_it_is_taken_from_the_threads_own_table() -> None:
    """Our thread in the target shares its table with nobody."""
    with own_table(_pair) as (tid, ends):
        ours, theirs = ends[0].fileno(), ends[1].fileno()
        assert host_socket.take(threading.get_native_id(), theirs) is None
        link, other = host_socket.take(tid, theirs), host_socket.take(tid, ours)
        assert link is not None
        assert other is not None
        with link, other:
            link.send(b"request")
            assert other.recv(64) == b"request"
        for end in ends:
            end.detach()  # these numbers are others' in our table
