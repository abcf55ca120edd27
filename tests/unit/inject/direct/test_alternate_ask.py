"""When the thread that was asked has left the stub."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from flametap.inject.direct.alternate_ask import AlternateAsk
from flametap.inject.direct.divert import Result
from flametap.wire import control_abi as abi
from running import wait_until

SIGURG_BIT = 1 << (signal.SIGURG - 1)
NOWHERE = range(16, 32)


class Memory:
    """Of this process; the answer has come."""

    pid = os.getpid()

    def read(self, addr: int, size_bytes: int) -> bytes:
        del addr
        return bytes(size_bytes)

    def write(self, addr: int, data: bytes) -> None:
        del addr
        assert len(data) == abi.ALTERNATE.size


class Diverter:
    """Sends a thread nowhere; ``mask`` is what it blocked then."""

    tid, mask, answer_offset = threading.get_native_id(), 0, 0

    def set_answer(self, addr: int) -> None:
        del addr

    def divert(self, tid: int) -> Result:
        self.tid = tid
        return Result.DONE


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A thread that blocks SIGURG."""
    is_over, tids = threading.Event(), list[int]()
    begun = threading.Event()

    def sleep() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        tids.append(threading.get_native_id())
        begun.set()
        is_over.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    begun.wait()
    yield tids[0]
    is_over.set()
    thread.join()


def asked(tid: int, let_in: int) -> AlternateAsk:
    ask = AlternateAsk(cast(Any, Memory()), cast(Any, Diverter()), NOWHERE, 0)
    assert ask.ask(tid, let_in) is not None
    return ask


def test_thread_that_blocks_more_than_before_is_in_a_handler(sleeper: int) -> None:
    assert not asked(sleeper, let_in=0).is_free()


def test_thread_that_blocks_again_what_we_had_let_in_is_not(sleeper: int) -> None:
    wait_until(asked(sleeper, let_in=SIGURG_BIT).is_free, "it may not sleep yet")
