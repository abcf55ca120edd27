"""Length of turns, set for threads of the test's own process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from flametap.linux import scheduling

NOBODY = 1 << 30


@pytest.fixture
def tid() -> Iterator[int]:
    """A thread that waits until the test ends."""
    is_over, numbers = threading.Event(), []
    is_there = threading.Event()

    def wait() -> None:
        numbers.append(threading.get_native_id())
        is_there.set()
        is_over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    is_there.wait()
    if scheduling.turn_ns(numbers[0]) is None:  # before Linux 6.12, or by its policy
        is_over.set()
        thread.join()
        pytest.skip("this kernel does not tell the length of turns")
    yield numbers[0]
    is_over.set()
    thread.join()


def test_turns_become_short_and_usual_again(tid: int) -> None:
    usual_ns = scheduling.turn_ns(tid)
    assert scheduling.set_short_turns(tid)
    assert scheduling.turn_ns(tid) == scheduling.SHORT_TURN_NS != usual_ns
    assert scheduling.reset_turns(tid)
    assert scheduling.turn_ns(tid) == usual_ns
    assert not scheduling.reset_turns(tid), "they were not short"


def test_nothing_else_of_a_thread_changes(tid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, tid, 3)
    scheduling.set_short_turns(tid)
    assert os.getpriority(os.PRIO_PROCESS, tid) == 3
    assert os.sched_getscheduler(tid) == os.SCHED_OTHER


def test_other_policies_are_left_alone(tid: int) -> None:
    os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
    assert not scheduling.set_short_turns(tid)
    assert scheduling.turn_ns(tid) is None


def test_thread_that_has_gone_is_no_error() -> None:
    assert not scheduling.set_short_turns(NOBODY)
    assert not scheduling.reset_turns(NOBODY)
    with pytest.raises(ProcessLookupError):
        scheduling.turn_ns(NOBODY)
