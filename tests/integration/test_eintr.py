"""No system call fails with EINTR because of us, and every EINTR of the target's own reaches it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import receipt
from books import Book, read_books
from flametap.inject.frida.attach import Attach
from nightly import nightly
from recording import record
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# What exists to be ended by a signal; neither is begun again.
ENDED_BY_SIGNALS = {"pause", "sigsuspend"}
# A handler of the target's that returns in the very microsecond in which our signal is sent cannot
# be told from none (agent/syscalls/eintr_restart.c): 3 of 10 000 EINTRs, where all handlers are
# short.
LOST_SHARE = 0.003


def _books(lines: list[str]) -> dict[str, Book]:
    books = read_books(lines)
    assert len(books) > 45
    return {name: book for name, book in books.items() if name not in ENDED_BY_SIGNALS}


def test_no_wait_of_any_kind_is_ever_ended_by_us(start: Start, seconds: float) -> None:
    target = start("waits", "quiet")
    before = receipt.take(target.pid)
    capture = record(target.pid, seconds, rate_hz=1000)
    counters = capture.status().counters
    # It opens and closes sockets itself.
    found = receipt.harm_after_settling(target.pid, before, timeout_s=1)
    assert [line for line in found if "socket:" not in line] == []
    for name, book in _books(target.finish()).items():
        assert book["returns"] > 10, name
        assert book["eintr"] == book["wrong"] == book["early"] == 0, (name, book, counters)
    assert counters["signals_handled"] > 0


def test_eintrs_of_its_own_signals_reach_it_and_no_others(start: Start, seconds: float) -> None:
    target = start("waits", "signals")
    capture = record(target.pid, seconds, rate_hz=1000)
    counters = capture.status().counters
    books = _books(target.finish())
    own = sum(book["own"] for book in books.values())
    assert own > 100
    for name, book in books.items():
        assert book["wrong"] == book["early"] == 0, (name, book, counters)
    # One in 340 000 waits, where a signal of its own and ours came at once.
    assert sum(book["eintr"] for book in books.values()) <= 1, (books, counters)
    assert sum(book["lost"] for book in books.values()) <= max(3, LOST_SHARE * own), books


@pytest.mark.parametrize(
    "call", ["epoll_wait", "epoll_pwait", *nightly("epoll_pwait2", "semop", "sigwait")]
)
def test_waits_without_an_end_go_on_where_the_agent_comes_and_leaves(
    start: Start, call: str
) -> None:
    target = start("endless", call)
    record(target.pid, 0.2)
    assert target.finish() == [f"{call} returns=1 eintr=0"]


def test_signal_of_its_own_ends_the_wait_of_a_held_thread(start: Start) -> None:
    target = start("endless", "signalled")
    waiting = Path(f"/proc/{target.pid}/syscall")
    wait_until(lambda: waiting.read_text().startswith("232 "), "epoll_wait")
    attach = Attach(target.pid)
    attach.hold.stop()
    try:
        assert attach.hold.is_held()
        os.kill(target.pid, signal.SIGUSR1)
    finally:
        attach.end()
    assert target.finish() == ["signalled returns=1 eintr=1"]
