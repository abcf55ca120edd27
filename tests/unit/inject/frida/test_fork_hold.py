"""Main threads that are kept until the agent is there."""

from __future__ import annotations

import signal
import time

import pytest

from flametap.inject.frida import fork_hold
from flametap.inject.frida.attach_events import HeldStands, PutBack, Seized, Traced
from flametap.inject.frida.attach_state import Progress
from flametap.inject.frida.fork_hold import ForkHold
from flametap.linux import ptrace as linux_ptrace

PID, OTHER = 7, 8


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(thread, signal) of each that is let go; all of them stand still."""
    gone: list[tuple[int, int]] = []

    def ptrace(request: int, tid: int, where: int | None, data: int | None) -> int:
        assert request == linux_ptrace.PTRACE_DETACH
        gone.append((tid, data or 0))
        return 0

    monkeypatch.setattr(linux_ptrace, "ptrace", ptrace)
    monkeypatch.setattr(fork_hold, "_is_dead", lambda tid: False)
    return gone


def test_signal_that_a_kept_thread_is_owed_goes_with_it(let_go: list[tuple[int, int]]) -> None:
    progress = Progress(PID)
    hold = ForkHold(progress)
    progress.apply(Traced(PID))
    progress.apply(PutBack(PID, signal.SIGUSR1, hold.until_s()))
    assert hold.is_held()
    assert hold.expire()
    assert hold.release(PID) == 0
    assert let_go == [(PID, signal.SIGUSR1)]
    assert not hold.is_held()


def test_threads_go_on_when_their_time_is_over(let_go: list[tuple[int, int]]) -> None:
    progress = Progress(PID)
    hold = ForkHold(progress)
    progress.apply(Seized(PID, time.monotonic() + 60))
    progress.apply(Seized(OTHER, time.monotonic() - 1))
    assert hold.expire()
    assert let_go == [(OTHER, 0)]


def test_all_that_is_kept_is_let_go_on_the_thread_that_traces(
    let_go: list[tuple[int, int]],
) -> None:
    progress = Progress(PID)
    hold = ForkHold(progress)
    for tid in (OTHER, PID):
        progress.apply(Seized(tid, hold.until_s()))
    progress.apply(HeldStands(OTHER, signal.SIGUSR2))
    hold.let_go()
    hold.tracer.end(lambda: 0)
    assert let_go == [(PID, 0), (OTHER, signal.SIGUSR2)]
    assert not progress.state.held
