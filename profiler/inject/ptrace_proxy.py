"""Repairs what Frida does from within our process when it injects its agent.

Frida 17 stops the target's main thread, has it call a few functions (mmap, its bootstrapper, its
loader, at the end munmap) and lets it go. It calls libc's ``ptrace`` and ``waitpid`` through slots
of its library, in which ``ptrace_hook`` puts functions of ours. They repair this:

**Vector registers.** Frida puts the general registers back, but not the vector registers, which
those functions use. A thread that was computing with them goes on with other numbers. Of ten
attaches to a loop that holds a pattern in xmm0 to xmm15 nine changed it
(``tests/targets/vectors.c``, frida 17.26), and every tenth attach to the command ``openssl speed
ecdsap256`` ended it with a SIGSEGV. So when Frida first reads a thread's registers all the others
are read, too (NT_X86_XSTATE: x87, SSE, AVX, AVX-512), and written back right before it lets go.

**Signals.** The threads that Frida starts in the target inherit the mask of the main thread, which
mostly blocks nothing. So they would take the process's signals whenever all its own threads block
them: run its handlers on a thread of Frida's while the main one is in a critical section, or lose
what it fetches with sigwait(3) or signalfd(2) (``tests/targets/critical.c``, ``urgent.c``). So the
main thread blocks all signals while it runs Frida's code, but those that report a fault and the two
that the C library sends to every thread. See ``fault_signals``.

**A machine that stands still.** Frida waits 5 s for a call to return and then gives up, in the
middle of it: the thread returns to nowhere and the target is dead. On an overloaded machine, or one
that was suspended meanwhile, that happens (6 of 40 attaches whose host was stopped for 7 s killed
their target). So we do the waiting, without a break, until the thread stops. When it does not for
``CALL_LIMIT_S`` (the call waits for a lock that this very thread holds) the thread is interrupted,
gets back the registers and the signal mask it came with and is let go as if nothing had been. What
the call had opened or mapped until then stays. A thread that is frozen in the middle of a call (a
control group) cannot be helped before it is thawed: until then we wait.

**The loader's memory.** When its agent does not answer in time, Frida unmaps the code that the
thread it has started is running in. We let it do so only when that thread has left it, and wait for
that before the main thread is stopped (``frida_loader``). An agent that was late leaves when it
sees that nobody wants it any more; ``unmap_loader`` is for the memory that Frida has given up by
then.

**What Frida prints.** See ``frida_quirks``.

**A main thread that holds a lock.** Released when the loader waits for it. See ``frida_loader``.

**Another program.** When the target becomes another program (exec) in the middle of the attach,
Frida would clean up in it by functions at the addresses of the one before. It may not.

**The stack and the code of others.** See ``shown_stack`` and ``bootstrap_code``.

All of this runs on one thread (``attach``, ``ptrace_thread``), which can keep the main thread
longer than Frida knows (``fork_hold``). ptrace(2), <sys/ptrace.h>, <sys/user.h>, <elf.h>.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import signal
import threading
import time
from collections.abc import Callable

from ..linux import ptrace
from ..linux.ptrace import (
    PTRACE_ATTACH,
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_INTERRUPT,
    PTRACE_PEEKDATA,
    PTRACE_POKEDATA,
    PTRACE_SEIZE,
    RDI,
    RIP,
    RSI,
)
from ..linux.tasks import system_call, tasks
from . import frida_quirks
from .fork_hold import ForkHold
from .frida_loader import LOCKED_S, SYS_FUTEX, Loader
from .tracee import GET_REGISTERS, SET_REGISTERS, Tracee, Words, registers_at

_ptrace, _waitpid = ptrace.ptrace, ptrace.waitpid

READ_OR_WRITE = (*GET_REGISTERS, PTRACE_PEEKDATA, PTRACE_POKEDATA)

# How long a function may run in the target; it is mostly a few milliseconds.
CALL_LIMIT_S = 15.0
# … and how long it may wait for a lock, which may be one that the thread itself holds.
CALL_LOCKED_S = 1.0
# How long a thread may take to stop when told to: for ever in uninterruptible sleep, or frozen.
STOP_LIMIT_S = 5.0
# Between two looks. It adds to the time that the target's main thread stands still.
LOOK_INTERVAL_S = 0.0002


class PtraceProxy:
    """What Frida does to one process by ptrace(2) and waitpid(2) during one attach.

    Only on the thread that traces, but for ``unmap_loader``, ``is_calling`` and ``end_calls``.

    Args:
        pid: the process.
        hold: what is kept of it.
        is_replaced: tells whether it has become another program.
    """

    def __init__(self, pid: int, hold: ForkHold, is_replaced: Callable[[], bool]) -> None:
        self._pid = pid
        self._hold = hold
        self._is_replaced = is_replaced
        self._tracees: dict[int, Tracee] = {}
        # (pid, runtime_addr of code of Frida's that the main thread has run) → what it started
        self._loaders: dict[tuple[int, int], Loader] = {}
        self._unmapped: set[tuple[int, int]] = set()  # of these by us
        self._silenced: set[tuple[int, int]] = set()  # see ``frida_quirks.silence``
        self._must_end = threading.Event()

    def ptrace(self, request: int, tid: int, where: int | None, data: int | None) -> int:
        """ptrace(2) as Frida calls it; ``data`` is an address, or a number."""
        tracee = self._tracees.get(tid)
        if request in (PTRACE_ATTACH, PTRACE_SEIZE):
            if any(main.leaves_others_alone() for main in self._beside(tid)):
                return _refuse()  # nothing that it executes is overwritten: see ``bootstrap_code``
            self._hold.release(tid)
            frida_quirks.silence(self._silenced)
            for loader in self._loaders_of(tid):
                loader.wait_until_left()
            self._hold.stop_others(tid)
            self._tracees[tid] = Tracee(tid, request == PTRACE_SEIZE, data or 0)
        elif tracee is None:
            pass
        elif tracee.is_released or (tracee.is_over and request not in READ_OR_WRITE):
            if request == PTRACE_DETACH:
                self._tracees.pop(tid, None)
                return self._hold.release(tid)
            return _refuse()
        elif request in GET_REGISTERS and tracee.registers is None:
            tracee.save()
        elif request in SET_REGISTERS and data:
            registers = registers_at(request, where, data)
            if registers is not None and bytes(registers) == tracee.shown:
                return self._end_call(tracee)
            if registers is not None and not self._prepare_call(tracee, registers):
                return _refuse()
        elif request == PTRACE_CONT and tracee.called:
            tracee.tasks_before = tasks(tid)
            tracee.is_calling = tracee.has_called = True
        elif request == PTRACE_DETACH:
            tracee.restore()
            if self._hold.keeps(tid, data or 0):
                self._tracees.pop(tid, None)
                return 0
        if tracee is not None and request in (PTRACE_PEEKDATA, PTRACE_POKEDATA):
            where = tracee.place(request, where or 0)
            if where is None:
                ctypes.set_errno(0)
                return 0
        ctypes.set_errno(0)
        result = int(_ptrace(request, tid, where, data))
        if result == 0 and tracee is not None and request in GET_REGISTERS:
            tracee.show(request, where, data or 0)
        if result == 0 and request == PTRACE_DETACH:
            failure = ctypes.get_errno()
            self._tracees.pop(tid, None)
            ctypes.set_errno(failure)
        return result

    def _beside(self, tid: int) -> list[Tracee]:
        """The main thread of its process, if Frida has that, and it is another one."""
        return [main for pid, main in self._tracees.items() if pid != tid and tid in tasks(pid)]

    def _end_call(self, tracee: Tracee) -> int:
        """Gives a thread the registers that it came with; waits for what the call has started."""
        tracee.called = 0
        if not tracee.set_own():
            return _refuse()
        self._wait_for_loader(tracee)
        ctypes.set_errno(0)
        return 0

    def _prepare_call(self, tracee: Tracee, registers: Words) -> bool:
        """Looks at registers that Frida is about to set, and makes them real; False if it must not.

        They are those of a function to be called, with its first argument.
        """
        tid = tracee.tid
        tracee.make_real(registers)
        tracee.called = int(registers[RIP])
        return self._may_call(tid, int(registers[RDI]), int(registers[RSI]))

    def _may_call(self, tid: int, start: int, size_bytes: int) -> bool:
        """Tell whether a function with these arguments may be called: whoever passes
        the address of code that has run here wants to unmap that.

        Args:
            tid: the thread.
            start: runtime_addr, or whatever else the function is given.
            size_bytes: the same.
        """
        loader = self._loaders.get((tid, start))
        return not (
            (tid == self._pid and self._is_replaced())
            or (tid, start) in self._unmapped
            or (loader is not None and bool(loader.threads_inside(size_bytes)))
        )

    def _wait_for_loader(self, tracee: Tracee) -> None:
        def let_go() -> None:
            tracee.restore()
            tracee.is_released = not _ptrace(PTRACE_DETACH, tracee.tid, None, None)
            self._hold.release_others(tracee.tid)

        def must_end() -> bool:
            self._hold.expire()
            return self._must_end.is_set()

        if tracee.loader is not None and not tracee.called:
            tracee.loader.wait_until_loaded(let_go, must_end)
            tracee.loader = None

    def waitpid(self, pid: int, status: int | None, options: int) -> int:
        """waitpid(2) as Frida calls it; ``status`` is an address."""
        kept = ctypes.c_int()
        tracee = self._tracees.get(pid)
        if tracee is not None and tracee.is_over:
            ctypes.set_errno(errno.ECHILD)
            return -1
        if tracee is not None and options & os.WNOHANG:
            found = self._wait_for_stop(pid, tracee, kept, options)
        else:
            ctypes.set_errno(0)
            found = int(_waitpid(pid, ctypes.addressof(kept), options))
        failure = ctypes.get_errno()
        if found > 0:
            if os.WIFEXITED(kept.value) or os.WIFSIGNALED(kept.value):
                self._tracees.pop(found, None)
            if status:
                ctypes.c_int.from_address(status).value = kept.value
        ctypes.set_errno(failure)
        return found

    def _wait_for_stop(self, tid: int, tracee: Tracee, status: ctypes.c_int, options: int) -> int:
        """waitpid(2) for a thread that is going to stop."""
        limit_s = CALL_LIMIT_S if tracee.is_calling else STOP_LIMIT_S
        waited_s = locked_s = 0.0
        while True:
            ctypes.set_errno(0)
            found = int(_waitpid(tid, ctypes.addressof(status), options))
            if found == tid and tracee.is_calling and ptrace.is_stop_of_process(status.value):
                # The whole process stops, and stays so; this thread only when it has come back.
                _ptrace(PTRACE_CONT, tid, None, ptrace.signal_of(status.value))
                continue
            if found == tid and tracee.is_calling and _is_taken(tracee, status.value):
                _ptrace(PTRACE_CONT, tid, None, None)
                continue
            if found != 0:
                if tracee.is_calling:
                    tracee.is_calling = False
                    born = tasks(tid) - tracee.tasks_before
                    loader = Loader(tid, tracee.called, born)
                    self._loaders[tid, tracee.called] = loader
                    tracee.loader = loader if born else None
                    self._unmapped.discard((tid, tracee.called))
                    tracee.called = 0
                elif tracee.is_seized and tracee.registers is None and os.WIFSTOPPED(status.value):
                    given = self._hold.bring_out(
                        tid, ptrace.signal_of(status.value), tracee.options
                    )
                    if given is None:
                        return 0
                    status.value = (given or PTRACE_EVENT_STOP << 8 | signal.SIGTRAP) << 8 | 0x7F
                return found
            self._hold.expire()
            if tracee.is_calling and waited_s > LOCKED_S:
                self._hold.release_others(tid)
            is_over = waited_s > limit_s or locked_s > CALL_LOCKED_S
            if is_over or (self._must_end.is_set() and tracee.is_calling):
                if not tracee.is_calling:
                    return 0
                self._give_back(tid, tracee)
                ctypes.set_errno(errno.ECHILD)
                return -1
            # Counted, not taken from a clock: a machine that stood still proves nothing.
            interval_s = LOOK_INTERVAL_S if waited_s < 0.5 else 50 * LOOK_INTERVAL_S
            time.sleep(interval_s)
            waited_s += interval_s
            is_locked = tracee.is_calling and system_call(tid, tid).number == SYS_FUTEX
            locked_s = locked_s + interval_s if is_locked else 0.0

    def _give_back(self, tid: int, tracee: Tracee) -> None:
        """Takes a thread out of a call that does not return."""
        self._hold.release_others(tid)
        _ptrace(PTRACE_INTERRUPT, tid, None, None)
        status = _next_stop(tid)
        if status is not None and ptrace.is_in(tid, b"SigPnd", signal.SIGSEGV):
            # It has just returned to nowhere, as it should, and that would be reported next.
            _ptrace(PTRACE_CONT, tid, None, None)
            status = _next_stop(tid)
        if status is None or not self._put_back(tracee, ptrace.signal_of(status)):
            self._tracees.pop(tid, None)

    def _put_back(self, tracee: Tracee, number: int) -> bool:
        """Has a thread that stands still go on with what it came with, and a signal or 0, as soon
        as Frida has cleaned up, which it does by this very thread. False if it does not stand
        still.
        """
        is_own = number == signal.SIGSTOP if tracee.is_calling else number <= signal.SIGRTMAX
        if not tracee.put_back():
            return False
        self._hold.keep(tracee.tid, number if is_own else 0)
        return True

    def abandon(self, tid: int) -> None:
        """Puts a thread back, whatever Frida was about to do with it: after an error of ours."""
        tracee = self._tracees.get(tid)
        if tracee is None or tracee.is_released or tracee.is_over:
            return
        self._hold.release_others(tid)
        # A function that is called may hold a lock of the C library: let it return, if it does.
        return_s = CALL_LOCKED_S if tracee.is_calling else STOP_LIMIT_S
        for limit_s in (0.0, return_s):  # it may stand still, and somebody have taken note of it
            status = ptrace.next_stop(tid, limit_s, LOOK_INTERVAL_S)
            if self._put_back(tracee, 0 if status is None else ptrace.signal_of(status)):
                return
        if tracee.is_calling:
            self._give_back(tid, tracee)
        else:
            self._tracees.pop(tid, None)

    def abandon_all(self) -> None:
        """``abandon`` every thread that Frida has."""
        for tid in list(self._tracees):
            self.abandon(tid)

    def unmap_loader(self) -> None:
        """Has the process unmap what Frida's loader ran in, where that is still there and no thread
        is in it any more. Frida may not do so afterwards: something else may be there.
        """
        for loader in self._loaders_of(self._pid):
            with contextlib.suppress(OSError):  # who is in it cannot be told now
                if not self._is_replaced() and loader.born and loader.unmap():
                    self._unmapped.add((self._pid, loader.start))

    def _loaders_of(self, pid: int) -> list[Loader]:
        return [loader for (of, _), loader in list(self._loaders.items()) if of == pid]

    def is_calling(self) -> bool:
        """True while some thread runs a function for Frida: to end now is to kill it."""
        return any(tracee.is_calling for tracee in list(self._tracees.values()))

    def end_calls(self) -> None:
        """Has the thread that runs a function for Frida, if there is one, given back at once."""
        self._must_end.set()


def _refuse() -> int:
    ctypes.set_errno(errno.ESRCH)  # the one error that Frida takes as it is
    return -1


def _is_taken(tracee: Tracee, status: int) -> bool:
    """Has it stopped with a fault signal that somebody sent? It gets that one afterwards."""
    if tracee.pending is None or not os.WIFSTOPPED(status):
        return False
    return tracee.pending.take(ptrace.signal_of(status))


def _next_stop(tid: int) -> int | None:
    """Waits until a thread stops or ends: without an end, as one that is let go in the middle of a
    call dies. If it does not stop it is frozen, and whoever did that goes on in the end.
    """
    return ptrace.next_stop(tid, math.inf, 50 * LOOK_INTERVAL_S)
