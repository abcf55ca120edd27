"""Messages, whatever comes between them; and the bytes that wait until they are taken."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator

import pytest

from flametap.remote import outgoing
from flametap.remote.messages import (
    MAGIC,
    MAX_BANNER_BYTES,
    MAX_MESSAGE_BYTES,
    OFFSET,
    Line,
    LineError,
    Message,
)
from flametap.remote.outgoing import Outgoing
from running import wait_until


class Pipe:
    """Two lines: what is sent by one is received by the other."""

    def __init__(self) -> None:
        self.fds = [*os.pipe(), *os.pipe()]
        self.here = Line(self.fds[0], self.fds[3])
        self.there = Line(self.fds[2], self.fds[1])

    def write(self, data: bytes) -> None:
        """Send raw bytes to here."""
        os.write(self.fds[1], data)

    def hang_up(self) -> None:
        os.close(self.fds[1])
        self.fds[1] = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for fd in made.fds:
        if fd >= 0:
            os.close(fd)


def test_banner_comes_before_the_first_message(pipe: Pipe) -> None:
    pipe.write(b"Welcome to web7\r\nLast login: today\r\n")
    pipe.there.begin()
    pipe.there.send_facts("HELO", protocol=1)
    assert pipe.here.wait_for_begin(5).endswith(b"today\r\n")
    message = pipe.here.receive(5)
    assert message is not None
    assert (message.kind, message.facts) == ("HELO", {"protocol": 1})


def test_messages_come_in_pieces(pipe: Pipe) -> None:
    pipe.there.send("DATA", b"12345")
    pipe.there.send("TICK")
    data = os.read(pipe.fds[0], 1000)
    found: list[Message | None] = []
    reader = threading.Thread(
        target=lambda: found.extend(pipe.here.receive(30) for _ in range(3)), daemon=True
    )
    reader.start()
    for byte in data:
        pipe.write(bytes([byte]))
    pipe.hang_up()
    reader.join(30)
    assert found == [Message("DATA", b"12345"), Message("TICK"), None]


@pytest.mark.parametrize(
    "data",
    [
        b"garbage, and more of it",
        b"DATA" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "little"),
        b"\0\0\0\0\0\0\0\0",
    ],
)
def test_what_is_no_message_is_refused(pipe: Pipe, data: bytes) -> None:
    pipe.write(data)
    with pytest.raises(LineError):
        pipe.here.receive(5)


def test_facts_are_an_object() -> None:
    for data in (b"", b"[1]", b"{", b"1", b"null"):
        with pytest.raises(LineError):
            Message("HELO", data).facts  # noqa: B018


def test_silence_and_the_end_are_told_apart(pipe: Pipe) -> None:
    with pytest.raises(TimeoutError):
        pipe.here.receive(0.01)
    with pytest.raises(TimeoutError):
        pipe.here.wait_for_begin(0.01)
    pipe.write(b"no such command")
    pipe.hang_up()
    with pytest.raises(EOFError) as caught:
        pipe.here.wait_for_begin(5)
    assert caught.value.args == (b"no such command",)


def test_endless_banner_is_refused(pipe: Pipe) -> None:
    def print_on() -> None:
        for _ in range(MAX_BANNER_BYTES // 4096 + 1):
            pipe.write(b"y" * 4096)

    writer = threading.Thread(target=print_on, daemon=True)
    writer.start()
    with pytest.raises(LineError, match="no message of flametap"):
        pipe.here.wait_for_begin(30)
    writer.join(30)  # the pipe has room for the rest


def test_random_bytes_raise_nothing_else(pipe: Pipe) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        line = Line(pipe.fds[0], pipe.fds[3])
        words = [MAGIC, b"DATA", b"HELO", (5).to_bytes(4, "little"), b"{}", rng.randbytes(6)]
        pipe.write(b"".join(rng.choices(words, k=rng.randrange(1, 12))) + b"X" * 8)
        try:
            while True:
                message = line.receive(0)
                assert message is not None
        except (LineError, TimeoutError):
            pass


# ---- what waits


def taken(pipe: Pipe, n_bytes: int) -> tuple[int, bytes]:
    """The position of the next bytes, and so many of them."""
    first, data = -1, b""
    while len(data) < n_bytes:
        message = pipe.here.receive(30)
        assert message is not None
        (offset,) = OFFSET.unpack_from(message.data)
        first = offset if first < 0 else first
        data += message.data[OFFSET.size :]
    return first, data


def test_bytes_are_sent_again_from_where_the_other_side_is(pipe: Pipe) -> None:
    waiting = Outgoing()
    assert waiting.connect(pipe.there, 0)
    waiting.write(b"0123456789")
    assert taken(pipe, 10) == (0, b"0123456789")
    waiting.taken(4)
    waiting.disconnect(pipe.there)
    waiting.write(b"abc")
    other = Pipe()
    assert not waiting.connect(other.there, 3)  # it has been forgotten
    assert not waiting.connect(other.there, 14)  # it has not been written
    assert waiting.connect(other.there, 6)
    assert taken(other, 7) == (6, b"6789abc")
    waiting.close()
    assert waiting._sender.is_alive()
    waiting.taken(13)
    wait_until(lambda: not waiting._sender.is_alive(), "the end of the sender")
    for fd in other.fds:
        os.close(fd)


def test_too_much_that_waits_is_told_until_half_is_taken(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "FULL_BYTES", 100)
    monkeypatch.setattr(outgoing, "LOW_BYTES", 50)
    told: list[bool] = []
    waiting = Outgoing(told.append)
    waiting.connect(pipe.there, 0)
    waiting.write(b"x" * 100)
    assert told == []
    waiting.write(b"x")
    assert told == [True]
    taken(pipe, 101)
    waiting.taken(50)
    assert told == [True]
    waiting.taken(51)
    assert told == [True, False]
    waiting.close()
    waiting.taken(101)
    wait_until(lambda: not waiting._sender.is_alive(), "the end of the sender")


def test_line_that_breaks_is_left(pipe: Pipe) -> None:
    waiting = Outgoing()
    pipe.there.end(5)
    waiting.connect(pipe.there, 0)
    waiting.write(b"123")
    wait_until(lambda: waiting._line is None, "the end of the line")
    other = Pipe()
    assert waiting.connect(other.there, 0)
    assert taken(other, 3) == (0, b"123")
    waiting.close()
    waiting.taken(3)
    for fd in other.fds:
        os.close(fd)
