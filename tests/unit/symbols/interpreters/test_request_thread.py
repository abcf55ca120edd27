"""Requests and their answers in a thread."""

from __future__ import annotations

import threading

import pytest

from flametap.symbols.interpreters.request_thread import RequestThread

WAIT_S = 30.0


@pytest.mark.parametrize(("at_once", "batches"), [(0, [[1], [2, 3, 4]]), (1, [[1], [2], [3], [4]])])
def test_requests_are_answered_in_order(at_once: int, batches: list[list[int]]) -> None:
    answered: list[list[int]] = []
    has_begun, may_go_on, is_done = (threading.Event() for _ in range(3))

    def answer(requests: list[int]) -> None:
        answered.append(requests)
        has_begun.set()
        assert may_go_on.wait(WAIT_S)
        if requests[-1] == 4:
            is_done.set()

    thread = RequestThread[int]("flametap-test", answer, at_once=at_once)
    thread.ask([1])
    assert has_begun.wait(WAIT_S)
    thread.ask([2, 3])
    thread.ask([4])
    may_go_on.set()
    assert is_done.wait(WAIT_S)
    thread.close()
    assert answered == batches


def test_what_waits_at_the_end_gets_no_answer() -> None:
    answered: list[int] = []
    has_begun, may_go_on, has_ended = (threading.Event() for _ in range(3))

    def answer(requests: list[int]) -> None:
        answered.extend(requests)
        has_begun.set()
        assert may_go_on.wait(WAIT_S)

    thread = RequestThread[int]("flametap-test", answer, at_once=1, on_end=has_ended.set)
    thread.ask([1, 2])
    assert has_begun.wait(WAIT_S)
    thread.end()
    thread.ask([3])
    may_go_on.set()
    assert has_ended.wait(WAIT_S)
    thread.close()
    assert answered == [1]


def test_thread_without_work_is_told_once() -> None:
    is_idle = threading.Semaphore(0)
    thread = RequestThread[int](
        "flametap-test", lambda requests: None, on_idle=is_idle.release, idle_s=0.01
    )
    thread.ask([1])
    assert is_idle.acquire(timeout=WAIT_S)
    assert not is_idle.acquire(timeout=0.1)
    thread.ask([2])
    assert is_idle.acquire(timeout=WAIT_S)
    thread.close()
    RequestThread[int]("flametap-test", lambda requests: None).close()  # it never began
