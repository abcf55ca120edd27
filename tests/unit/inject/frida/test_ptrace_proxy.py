"""What reaches the kernel of Frida's calls, and what Frida is told, without a process."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Iterator

import pytest

from flametap.inject.frida import ptrace_proxy
from flametap.inject.frida.attach import Attach
from flametap.inject.frida.attach_state import Phase
from flametap.inject.frida.loader import Loader, Loaders
from flametap.inject.frida.ptrace_proxy import PtraceProxy
from flametap.inject.frida.tracee import Tracee, Words
from flametap.linux import ptrace as linux_ptrace
from flametap.linux.arch_x86_64 import REGISTERS_BYTES, RIP
from flametap.linux.ptrace import (
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_GETREGS,
    PTRACE_INTERRUPT,
    PTRACE_PEEKDATA,
    PTRACE_SEIZE,
    PTRACE_SETREGS,
)
from flametap.linux.tasks import Call

# No number of a process: what is read of it in /proc says that it has gone.
PID, OTHER = 1 << 30, (1 << 30) + 1
FUNCTION = 0x7F00_0000_1000
WAITING = 0
STOPPED = signal.SIGSTOP << 8 | 0x7F
INTERRUPTED = PTRACE_EVENT_STOP << 16 | signal.SIGTRAP << 8 | 0x7F
RETURNED = signal.SIGSEGV << 8 | 0x7F
KILLED = signal.SIGKILL


class Kernel:
    """Stands for the kernel and one thread: notes what reaches it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, int]] = []
        self.statuses: list[int] = []  # what waitpid tells next; 0 is nothing
        self.did: list[str] = []
        self.attach = Attach(PID)
        self.own_registers: Words = (ctypes.c_uint64 * (REGISTERS_BYTES // 8))()
        monkeypatch.setattr(ptrace_proxy, "_ptrace", self.ptrace)
        monkeypatch.setattr(ptrace_proxy, "_waitpid", self.waitpid)
        monkeypatch.setattr(ptrace_proxy, "tasks", lambda pid: frozenset((PID,)))
        monkeypatch.setattr(ptrace_proxy, "system_call", lambda pid, tid: Call())
        monkeypatch.setattr(ptrace_proxy, "LOOK_INTERVAL_S", 0.0)
        monkeypatch.setattr(Tracee, "leaves_others_alone", lambda tracee: False)
        monkeypatch.setattr(Tracee, "save", lambda tracee: self.save(tracee))
        for name in ("restore", "set_own", "put_back"):
            monkeypatch.setattr(Tracee, name, self.noting(name))
        monkeypatch.setattr(self.attach.hold, "stop_others", lambda tid: None)
        monkeypatch.setattr(self.attach.hold, "bring_out", lambda pid, number, options: number)

    @property
    def proxy(self) -> PtraceProxy:
        return self.attach.proxy

    @property
    def phase(self) -> Phase | None:
        thread = self.attach.progress.state.threads.get(PID)
        return None if thread is None else thread.phase

    def noting(self, name: str):
        def note(tracee: Tracee) -> bool:
            self.did.append(name)
            return True

        return note

    def save(self, tracee: Tracee) -> None:
        self.did.append("save")
        tracee.registers = ctypes.create_string_buffer(bytes(self.own_registers))

    def ptrace(self, request: int, tid: int, where: int | None, data: int | None) -> int:
        self.calls.append((request, data or 0))
        return 0

    def waitpid(self, pid: int, status: int, options: int) -> int:
        told = self.statuses.pop(0)
        ctypes.c_int.from_address(status).value = told
        return pid if told else 0

    def wait(self, *statuses: int) -> tuple[int, int]:
        """What Frida's waitpid(2) returns, and the status it gets."""
        self.statuses += statuses
        status = ctypes.c_int()
        found = self.proxy.waitpid(PID, ctypes.addressof(status), os.WNOHANG)
        assert not self.statuses
        return found, status.value

    def stop(self) -> None:
        """What Frida does first."""
        assert self.proxy.ptrace(PTRACE_SEIZE, PID, None, None) == 0
        self.wait(WAITING, INTERRUPTED)
        shown = (ctypes.c_uint64 * (REGISTERS_BYTES // 8))()
        assert self.proxy.ptrace(PTRACE_GETREGS, PID, None, ctypes.addressof(shown)) == 0
        self.shown = shown

    def call(self) -> int:
        """Frida has the thread run a function: what it is told."""
        registers = type(self.shown)(*self.shown)
        registers[RIP] = FUNCTION
        if self.proxy.ptrace(PTRACE_SETREGS, PID, None, ctypes.addressof(registers)):
            return -1
        return self.proxy.ptrace(PTRACE_CONT, PID, None, None)

    def end_call(self) -> int:
        return self.proxy.ptrace(PTRACE_SETREGS, PID, None, ctypes.addressof(self.shown))

    def end(self) -> None:
        """Wait until the tracer has ended: its last look must not reach another test."""
        self.attach.end()
        thread = self.attach.hold.tracer._thread
        if thread is not None:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel(monkeypatch)
    yield kernel
    kernel.end()


def test_attach_that_nothing_disturbs(kernel: Kernel) -> None:
    kernel.stop()
    assert kernel.phase is Phase.STANDING
    assert kernel.call() == 0
    assert kernel.attach.is_calling()
    assert kernel.wait(WAITING, RETURNED) == (PID, RETURNED)
    assert kernel.end_call() == 0
    assert kernel.proxy.ptrace(PTRACE_DETACH, PID, None, None) == 0
    assert kernel.phase is None
    assert kernel.did == ["save", "set_own", "restore"]
    requests = [request for request, _ in kernel.calls]
    assert requests == [PTRACE_SEIZE, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_CONT, PTRACE_DETACH]


def test_thread_that_is_to_be_held_is_not_detached_from(kernel: Kernel) -> None:
    kernel.attach.hold.ask()
    kernel.stop()
    kernel.calls.clear()
    assert kernel.proxy.ptrace(PTRACE_DETACH, PID, None, signal.SIGUSR1) == 0
    assert (kernel.calls, kernel.did) == ([], ["save", "restore"])
    assert kernel.attach.progress.state.held[PID].number == signal.SIGUSR1


def test_call_that_may_not_be_does_not_reach_the_thread(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.stop()
    kernel.calls.clear()
    monkeypatch.setattr(Loaders, "may_call", lambda self, tid, start, size_bytes: False)
    assert kernel.call() == -1
    assert ctypes.get_errno() == errno.ESRCH
    assert kernel.calls == []


def test_stop_of_the_process_does_not_end_a_call(kernel: Kernel) -> None:
    kernel.stop()
    kernel.call()
    kernel.calls.clear()
    assert kernel.wait(STOPPED, WAITING, RETURNED) == (PID, RETURNED)
    assert kernel.calls == [(PTRACE_CONT, signal.SIGSTOP)]


def test_call_is_taken_back_when_we_end(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.stop()
    kernel.call()
    kernel.calls.clear()
    kernel.attach.hurry()
    monkeypatch.setattr(ptrace_proxy, "_next_stop", lambda tid: STOPPED)
    monkeypatch.setattr(kernel.attach.hold, "expire", lambda: True)
    assert kernel.wait(WAITING) == (-1, 0)
    assert ctypes.get_errno() == errno.ECHILD
    assert (kernel.calls, kernel.phase) == ([(PTRACE_INTERRUPT, 0)], Phase.OVER)
    assert kernel.attach.progress.state.held[PID].number == signal.SIGSTOP
    # Frida cleans up: it may look, and let go, and nothing else.
    kernel.calls.clear()
    assert kernel.proxy.ptrace(PTRACE_CONT, PID, None, None) == -1
    assert kernel.end_call() == -1
    assert kernel.proxy.waitpid(PID, None, os.WNOHANG) == -1
    assert kernel.calls == []
    assert kernel.proxy.ptrace(PTRACE_PEEKDATA, PID, 0, None) == 0
    assert [request for request, _ in kernel.calls] == [PTRACE_PEEKDATA]


def test_thread_that_ends_amid_a_call_is_forgotten(kernel: Kernel) -> None:
    kernel.stop()
    kernel.call()
    assert kernel.wait(KILLED) == (PID, KILLED)
    assert kernel.phase is None


def test_thread_is_let_go_where_the_loader_waits_for_a_lock(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    births = [frozenset((PID,)), frozenset((PID, OTHER))]
    monkeypatch.setattr(ptrace_proxy, "tasks", lambda pid: births.pop(0))
    monkeypatch.setattr(Loader, "wait_until_loaded", lambda loader, let_go, must_end: let_go())
    kernel.stop()
    kernel.call()
    kernel.wait(RETURNED)
    kernel.calls.clear()
    assert kernel.end_call() == 0
    assert (kernel.calls, kernel.phase) == ([(PTRACE_DETACH, 0)], Phase.RELEASED)
    assert kernel.did == ["save", "set_own", "restore"]
    assert kernel.proxy.ptrace(PTRACE_PEEKDATA, PID, 0, None) == -1
    assert kernel.proxy.ptrace(PTRACE_DETACH, PID, None, None) == 0
    assert (len(kernel.calls), kernel.phase) == (1, None)


def test_error_of_ours_puts_the_thread_back(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tid: int, status: ctypes.c_int, options: int) -> int:
        raise OSError(errno.EMFILE, "no descriptor left")

    kernel.stop()
    monkeypatch.setattr(kernel.proxy, "_wait_for_stop", fail)
    monkeypatch.setattr(linux_ptrace, "next_stop", lambda tid, limit_s, interval_s: None)
    monkeypatch.setattr(kernel.attach.hold, "expire", lambda: False)
    assert kernel.attach.waitpid(PID, None, os.WNOHANG) == -1
    assert kernel.phase is Phase.OVER
    assert kernel.did == ["save", "put_back"]
    kernel.attach.hold.tracer.end(lambda: 0)


def test_end_of_an_attach_gives_back_what_frida_has(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go: list[tuple[int, int]] = []

    def ptrace(request: int, tid: int, where: int | None, data: int | None) -> int:
        let_go.append((request, tid))
        return 0

    monkeypatch.setattr(linux_ptrace, "ptrace", ptrace)
    monkeypatch.setattr(linux_ptrace, "next_stop", lambda tid, limit_s, interval_s: None)
    kernel.stop()
    tracer = kernel.attach.hold.tracer
    tracer.run(lambda: 0)
    kernel.end()
    assert tracer._thread is not None
    assert kernel.did == ["save", "put_back"]
    assert let_go == [(PTRACE_DETACH, PID)]
    assert not kernel.attach.progress.state.held


def test_thread_beside_one_that_leaves_others_alone_is_not_stopped(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracee, "leaves_others_alone", lambda tracee: True)
    monkeypatch.setattr(ptrace_proxy, "tasks", lambda pid: frozenset((PID, OTHER)))
    kernel.stop()
    kernel.calls.clear()
    assert kernel.proxy.ptrace(PTRACE_SEIZE, OTHER, None, None) == -1
    assert kernel.calls == []
