"""Keeps a target's main thread from going on while threads of Frida's hold locks of the C library.

They do while they load the agent and while it leaves: the loader's, the locale's, that of the list
of functions to call at exit. A child of fork(2) that is made meanwhile has only a copy of the
thread that made it: it finds the lock taken for ever, or a list half changed
(``tests/targets/heirs.c``). Once the agent is there it takes none. Most programs that fork do so in
their main thread, so that stands still in the meantime, with the registers and the signal mask it
came with: whatever becomes of us, the kernel then lets it go on as if nothing had been (ptrace(2)).

- ``ask`` before an attach: when Frida lets go of the thread, it is kept (``keeps``).
- ``stop`` before the agent leaves.
- ``let_go`` in both cases; without it the thread goes on after ``LIMIT_S``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time

from flametap import midfork, ptrace
from flametap.tracer import Tracer

# How long the thread is kept at the most. To load the agent takes 0.05 s, to leave 0.01 s; on an
# overloaded machine either takes a second.
LIMIT_S = 3.0
# How long it may take to stop: it waits for a CPU, or for the end of a big fork. In uninterruptible
# sleep (vfork, too) it does not stop at all, and forks nothing.
STOP_LIMIT_S = 1.0
LOOK_INTERVAL_S = 0.02
STOP_LOOK_INTERVAL_S = 0.0005

_asked: set[int] = set()
_until: dict[int, float] = {}  # the threads that we keep, and when that ends (monotonic clock)
_signals: dict[int, int] = {}  # what each is to be given when it goes on; 0 is nothing


def ask(pid: int) -> None:
    """Has the main thread kept when Frida lets go of it."""
    _asked.add(pid)


def keeps(tid: int, number: int) -> bool:
    """Keeps a thread that was to be let go with a signal, or 0; False if nobody has asked for it.

    Only on the thread that traces.
    """
    if tid not in _asked:
        return False
    _asked.discard(tid)
    _until[tid] = time.monotonic() + LIMIT_S
    _signals[tid] = number
    return True


def stop(pid: int) -> None:
    """Stops the main thread and keeps it. Nothing happens where that cannot be had."""
    tracer.run(lambda: _stop(pid))


def let_go(pid: int) -> None:
    """Has the main thread go on, if it is kept, and forgets that it was to be."""
    _asked.discard(pid)
    if pid in _until:
        tracer.run(lambda: release(pid))


def is_held(pid: int) -> bool:
    """True while the main thread is kept."""
    return pid in _until


def let_all_go() -> None:
    """The same for all that we keep."""
    for pid in [*_asked, *_until]:
        let_go(pid)


def release(tid: int, limit_s: float = STOP_LIMIT_S) -> int:
    """``let_go`` on the thread that traces. Returns 0 if we trace it no longer."""
    if tid not in _until:
        return 0
    for _ in range(round(limit_s / STOP_LOOK_INTERVAL_S)):
        if ptrace.ptrace(ptrace.PTRACE_DETACH, tid, None, _signals[tid]) == 0 or _has_ended(tid):
            del _until[tid], _signals[tid]
            return 0
        time.sleep(STOP_LOOK_INTERVAL_S)  # it has not stopped yet
    return 1


def _stop(tid: int) -> int:
    if tid in _until or ptrace.ptrace(ptrace.PTRACE_SEIZE, tid, None, None) != 0:
        return 0
    _until[tid] = time.monotonic() + LIMIT_S
    _signals[tid] = 0
    ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
    for _ in range(round(STOP_LIMIT_S / STOP_LOOK_INTERVAL_S)):
        if _has_stopped(tid):
            _signals[tid] = midfork.finish(tid, _signals[tid]) or 0
            break
        time.sleep(STOP_LOOK_INTERVAL_S)
    return 0


def _has_stopped(tid: int) -> bool:
    """Takes note of the signal that it may have stopped with. True also when it has ended."""
    status = ctypes.c_int()
    found = ptrace.waitpid(tid, ctypes.addressof(status), os.WNOHANG | ptrace.WALL)
    if found != tid or not os.WIFSTOPPED(status.value):
        return bool(found)
    if status.value >> 16 != ptrace.PTRACE_EVENT_STOP:
        _signals[tid] = os.WSTOPSIG(status.value)
    return True


def _has_ended(tid: int) -> bool:
    """Whether there is nothing to let go; a thread that has only just stopped is not that."""
    _has_stopped(tid)
    with contextlib.suppress(OSError), open(f"/proc/{tid}/status") as file:
        return f"\nTracerPid:\t{threading.get_native_id()}\n" not in file.read()
    return True


def _look() -> bool:
    """Ends what has lasted long enough. True while there is something to look after."""
    now = time.monotonic()
    for tid in list(_until):
        if now > _until[tid] or _is_dead(tid):
            release(tid, STOP_LOOK_INTERVAL_S)  # a frozen one cannot be let go: others have to be
    return bool(_until)


def _is_dead(tid: int) -> bool:
    """A dead one is seen by its parent only when we have let go of it."""
    with contextlib.suppress(OSError), open(f"/proc/{tid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in "ZX"
    return True


tracer = Tracer(_look, LOOK_INTERVAL_S)
