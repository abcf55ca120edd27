"""How long the main thread of a target stands still while Frida's loader does its work, and when
the loader's memory may go."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flametap.inject.frida import loader
from flametap.inject.frida.footprint import LOADER_BYTES
from flametap.inject.frida.loader import SYS_FUTEX, SYS_RECVMSG, Loader, Loaders
from flametap.linux.tasks import Call

RUNNING = -1


def watched(
    monkeypatch: pytest.MonkeyPatch, calls: Iterator[list[int]], ends_after: int = 1000
) -> tuple[int, int]:
    """(looks, the look at which the main thread was let go, 0 for never) for what the threads in
    the loader do at each look."""
    looks = 0
    let_go: list[int] = []
    now: list[int] = []

    def inside(self: Loader) -> list[int]:
        nonlocal looks, now
        looks += 1
        now = next(calls)
        return list(range(len(now)))

    monkeypatch.setattr(Loader, "threads_inside", inside)
    monkeypatch.setattr(loader, "system_call", lambda pid, tid: Call(now[tid]))
    monkeypatch.setattr(time, "sleep", lambda s: None)
    of_nobody = Loader(0, 0, frozenset())
    of_nobody.wait_until_loaded(lambda: let_go.append(looks), lambda: looks >= ends_after)
    assert len(let_go) <= 1
    return looks, let_go[0] if let_go else 0


def then(*parts: tuple[int, list[int]]) -> Iterator[list[int]]:
    for count, calls in parts:
        yield from [calls] * count


LOCKED_LOOKS = round(loader.LOCKED_S / loader.LOAD_INTERVAL_S)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (then((5, [RUNNING]), (1, [SYS_RECVMSG])), (6, False)),
        (then((5, [RUNNING]), (1, [])), (6, False)),
        # Some time in one lock or another is nothing special.
        (
            then((9, [SYS_FUTEX]), (1, [RUNNING]), (LOCKED_LOOKS - 1, [SYS_FUTEX]), (1, [])),
            (35, False),
        ),
        (then((LOCKED_LOOKS + 9, [SYS_FUTEX]), (1, [SYS_RECVMSG])), (35, True)),
        # Another thread of the target's own, which has begun at the same time.
        (then((90, [SYS_FUTEX, RUNNING]), (1, [SYS_FUTEX, SYS_RECVMSG])), (91, False)),
    ],
    ids=["loaded", "gone", "short locks", "a lock for long", "another thread"],
)
def test_main_thread_is_let_go_when_the_loader_waits_for_a_lock(
    monkeypatch: pytest.MonkeyPatch, calls: Iterator[list[int]], expected: tuple[int, bool]
) -> None:
    looks, let_go = watched(monkeypatch, calls)
    assert (looks, let_go > 0) == expected


def test_main_thread_does_not_stand_still_for_a_starved_loader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, let_go = watched(monkeypatch, then((10**6, [RUNNING])), ends_after=10**6)
    assert looks * loader.LOAD_INTERVAL_S == pytest.approx(loader.LOAD_LIMIT_S, rel=0.01)
    assert let_go * loader.LOAD_INTERVAL_S == pytest.approx(loader.STANDING_LIMIT_S, rel=0.01)


def test_main_thread_is_let_go_when_we_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, then((99, [RUNNING])), ends_after=7) == (7, 7)


# --- what Frida may have a thread call with the address of code that has run there

PID, START = 7, 0x7F00_0000_1000


@pytest.mark.parametrize(
    ("tid", "start", "inside", "is_replaced", "expected"),
    [
        (PID, START, [], False, True),
        (PID, START, [8], False, False),
        (PID, START, [], True, False),
        (9, START, [8], True, True),  # of another thread nothing is known
        (PID, 0, [8], False, True),
    ],
    ids=["empty", "in use", "another program", "another thread", "another place"],
)
def test_memory_is_unmapped_when_nobody_is_in_it_and_the_program_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
    tid: int,
    start: int,
    inside: list[int],
    is_replaced: bool,
    expected: bool,
) -> None:
    loaders = Loaders(PID, lambda: is_replaced)
    loaders.add(PID, START, frozenset((8,)))
    monkeypatch.setattr(Loader, "threads_inside", lambda self, size_bytes: inside)
    assert loaders.may_call(tid, start, LOADER_BYTES) is expected


def test_memory_that_we_have_unmapped_is_not_unmapped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaders = Loaders(PID, lambda: False)
    loaders.add(PID, START, frozenset((8,)))
    loaders.add(PID, START + LOADER_BYTES, frozenset())  # has started nothing: none of ours
    monkeypatch.setattr(Loader, "unmap", lambda self: True)
    monkeypatch.setattr(Loader, "threads_inside", lambda self, size_bytes: [])
    loaders.unmap()
    assert not loaders.may_call(PID, START, LOADER_BYTES)
    assert loaders.may_call(PID, START + LOADER_BYTES, LOADER_BYTES)
    # Another function may come to lie there.
    loaders.add(PID, START, frozenset((8,)))
    assert loaders.may_call(PID, START, LOADER_BYTES)
