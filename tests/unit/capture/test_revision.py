"""Waiting for news: no wakeup is lost, nobody polls."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import wire
from flametap.capture.live import Capture
from flametap.model import Frame, Function
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.revision import Revision
from flametap.wire.decoder import Decoder

PATIENCE_S = 120.0


def test_timeout_returns_what_there_is() -> None:
    revision = Revision(lambda: 7)
    assert revision.wait_newer(-1, 0.0) == 7
    assert revision.wait_newer(7, 0.01) == 7


def test_every_change_wakes_a_waiter() -> None:
    """Each side waits for the other: one lost wakeup, and it takes for ever."""
    count = 0
    here, there = Revision(lambda: count), Revision()

    def answer() -> None:
        for turn in range(300):
            assert here.wait_newer(turn, PATIENCE_S) == turn + 1
            there.step()

    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(answer)
        for turn in range(300):
            count += 1
            here.notify()
            assert there.wait_newer(turn, PATIENCE_S) == turn + 1
        answered.result(PATIENCE_S)


def test_profile_and_table_tell_of_each_change() -> None:
    told: list[int] = []
    profile = Profile(lambda: told.append(profile.revision))
    (batch,) = Decoder().feed(wire.batch(500, threads=[wire.thread(1, 10, "main")]))
    profile.apply(batch)
    assert told == [1]
    table = SymbolTable(on_change=lambda: told.append(table.revision))
    table.set(0, [Frame(Function("f", "m"), 0)])
    table.set_lost([])
    assert told == [1, 1, 2]


def test_close_wakes_who_waits() -> None:
    capture = Capture(1)
    begin_s = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = threading.Event()

        def wait() -> int:
            waiting.set()
            return capture.recording.wait_newer(0, PATIENCE_S)

        found = pool.submit(wait)
        assert waiting.wait(PATIENCE_S)
        capture.close()
        assert found.result(PATIENCE_S) == 1
    assert time.monotonic() - begin_s < PATIENCE_S / 2
