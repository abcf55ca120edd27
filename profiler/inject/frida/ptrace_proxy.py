"""Repair what Frida does from within our process when it injects its agent.

Frida 17 stops the target's main thread, has it call a few functions (mmap, its bootstrapper, its
loader, at the end munmap) and releases it. It calls libc's ``ptrace`` and ``waitpid`` through slots
of its library, in which ``ptrace_hook`` puts functions of ours. They repair this:

**Vector registers.** Frida puts the general registers back, but not the vector registers, which
those functions use. A thread that was computing with them continues with other numbers. Of ten
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
``attach_state.CALL_LIMIT_S`` (the call waits for a lock that this very thread holds) the thread is
interrupted, gets back the registers and the signal mask it came with and is released as if nothing
had been. What the call had opened or mapped until then stays. A thread that is frozen in the middle
of a call (a control group) cannot be helped before it is thawed: until then we wait.

**The loader's memory.** When its agent does not answer in time, Frida unmaps the code that the
thread it has started is running in. We let it do so only when that thread has left it, and wait for
that before the main thread is stopped (``loader``). An agent that was late leaves when it
sees that nobody wants it any more; ``Loaders.unmap`` is for the memory that Frida has given up by
then.

**What Frida prints.** See ``quirks``.

**A main thread that holds a lock.** Released when the loader waits for it. See ``loader``.

**Another program.** When the target becomes another program (exec) in the middle of the attach,
Frida would clean up in it by functions at the addresses of the one before. It may not.

**The stack and the code of others.** See ``shown_stack`` and ``bootstrap_code``.

What is to be done when is decided by ``attach_state``; here it is done. All of this runs on one
thread (``attach``, ``ptrace_thread``), which can keep the main thread longer than Frida knows
(``fork_hold``). ptrace(2), <sys/ptrace.h>, <sys/user.h>, <elf.h>.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import signal
import time
from dataclasses import dataclass

from ...linux import ptrace
from ...linux.arch_x86_64 import RDI, RIP, RSI
from ...linux.ptrace import (
    PTRACE_ATTACH,
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_INTERRUPT,
    PTRACE_PEEKDATA,
    PTRACE_POKEDATA,
    PTRACE_SEIZE,
)
from ...linux.tasks import is_of_kernel, system_call, tasks
from . import bootstrap_code, quirks
from .attach_events import (
    Action,
    BringOut,
    CallRegisters,
    Do,
    Ended,
    Event,
    Failed,
    Noted,
    NoteLoader,
    NothingYet,
    NotPutBack,
    OwnRegisters,
    PutBack,
    PutBackWithin,
    Released,
    Reported,
    Request,
    Requested,
    Restored,
    Traced,
)
from .attach_state import Progress
from .fork_hold import ForkHold
from .loader import SYS_FUTEX, Loaders
from .tracee import GET_REGISTERS, SET_REGISTERS, Tracee, registers_at

_ptrace, _waitpid = ptrace.ptrace, ptrace.waitpid

REQUESTS = {
    **dict.fromkeys(GET_REGISTERS, Request.READ_REGISTERS),
    **dict.fromkeys((PTRACE_PEEKDATA, PTRACE_POKEDATA), Request.WORD),
    PTRACE_CONT: Request.GO_ON,
    PTRACE_DETACH: Request.DETACH,
}

# Between two looks. It adds to the time that the target's main thread stands still.
LOOK_INTERVAL_S = 0.0002


@dataclass(frozen=True)
class _Call:
    """ptrace(2) as Frida calls it."""

    request: int
    tid: int
    where: int | None
    data: int | None  # an address, or a number


class PtraceProxy:
    """What Frida does to one process by ptrace(2) and waitpid(2) during one attach.

    ``attach_state`` says what is to be done, this does it. Only on the thread that traces.

    Args:
        progress: of that attach.
        hold: what is kept of the process.
        loaders: what it has run for Frida.
    """

    def __init__(self, progress: Progress, hold: ForkHold, loaders: Loaders) -> None:
        self._progress = progress
        self._hold = hold
        self._loaders = loaders
        self._tracees: dict[int, Tracee] = {}  # of the threads in the state
        self._silenced: set[tuple[int, int]] = set()  # see ``quirks.silence``
        self._has_called = False  # any function in the process

    def _apply(self, event: Event) -> tuple[Action, ...]:
        actions = self._progress.apply(event)
        for tid in self._tracees.keys() - self._progress.state.threads.keys():
            del self._tracees[tid]
        return actions

    def ptrace(self, request: int, tid: int, where: int | None, data: int | None) -> int:
        """ptrace(2) as Frida calls it; ``data`` is an address, or a number."""
        call = _Call(request, tid, where, data)
        if request in (PTRACE_ATTACH, PTRACE_SEIZE):
            return self._begin(call)
        wanted = REQUESTS.get(request, Request.OTHER)
        if request in SET_REGISTERS and data and registers_at(request, where, data) is not None:
            wanted = Request.WRITE_REGISTERS
        return self._carry_out(self._apply(Requested(tid, wanted)), call)

    def _begin(self, call: _Call) -> int:
        """Make a thread told to stop, if nothing of Frida's is in its way."""
        tid = call.tid
        if any(main.leaves_others_alone() for main in self._beside(tid)):
            return _refuse()  # nothing that it executes is overwritten: see ``bootstrap_code``
        if is_of_kernel(tid, tid):
            return _refuse()
        self._hold.release(tid)
        quirks.silence(self._silenced)
        self._loaders.wait_until_left(tid)
        self._hold.stop_others(tid)
        self._tracees[tid] = Tracee(tid)
        self._apply(Traced(tid, call.request == PTRACE_SEIZE, call.data or 0))
        return self._pass(call)

    def _carry_out(self, actions: tuple[Action, ...], call: _Call) -> int:
        """Do what is to be done about a call of Frida's; return what the call returns."""
        tid = call.tid
        for action in actions:
            match action:
                case Do.NOTE:
                    self._note(self._tracees[tid])
                case Do.COMPARE:
                    return self._carry_out(self._apply(self._compare(call)), call)
                case Do.BEGIN_CALL:
                    self._tracees[tid].tasks_before = tasks(tid)
                    self._tracees[tid].has_called = True
                case Do.END_CALL:
                    return self._end_call(self._tracees[tid])
                case Do.RESTORE:
                    self._tracees[tid].restore()
                    restored = Restored(tid, call.data or 0, self._hold.until_s())
                    return self._carry_out(self._apply(restored), call)
                case Do.RELEASE:
                    return self._hold.release(tid)
                case Do.SUCCEED:
                    return 0
                case Do.REFUSE:
                    return _refuse()
                case Do.PASS:
                    return self._pass(call)
        raise AssertionError(f"no answer to {call}: {actions}")

    def _pass(self, call: _Call) -> int:
        """Make the system call that Frida wants, with a word's place as it is meant."""
        request, tid, where, data = call.request, call.tid, call.where, call.data
        tracee = self._tracees.get(tid)
        if tracee is not None and REQUESTS.get(request) is Request.WORD:
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
            self._apply(Ended(tid))
            ctypes.set_errno(failure)
        return result

    def _beside(self, tid: int) -> list[Tracee]:
        """The main thread of its process, if Frida has that, and it is another one."""
        return [main for pid, main in self._tracees.items() if pid != tid and tid in tasks(pid)]

    def _note(self, tracee: Tracee) -> None:
        if tracee.registers is None:
            tracee.save()
        if tracee.registers is not None:
            self._apply(Noted(tracee.tid))

    def _compare(self, call: _Call) -> OwnRegisters | CallRegisters:
        """Look at registers that Frida is about to set; those of a call are made real.

        These are those of a function to be called, with its first argument.
        """
        tracee = self._tracees[call.tid]
        registers = registers_at(call.request, call.where, call.data or 0)
        assert registers is not None
        if bytes(registers) == tracee.shown:
            return OwnRegisters(call.tid)
        if not self._has_called and tracee.code_swap is None:
            bootstrap_code.require_code_memory(call.tid)
        self._has_called = True
        tracee.make_real(registers)
        may_call = self._loaders.may_call(call.tid, int(registers[RDI]), int(registers[RSI]))
        return CallRegisters(call.tid, int(registers[RIP]), may_call)

    def _end_call(self, tracee: Tracee) -> int:
        """Give a thread the registers that it came with; wait for what the call has started."""
        if not tracee.set_own():
            return _refuse()
        self._wait_for_loader(tracee)
        ctypes.set_errno(0)
        return 0

    def _wait_for_loader(self, tracee: Tracee) -> None:
        def let_go() -> None:
            tracee.restore()
            if not _ptrace(PTRACE_DETACH, tracee.tid, None, None):
                self._apply(Released(tracee.tid))
            self._hold.release_others(tracee.tid)

        def must_end() -> bool:
            self._hold.expire()
            return self._progress.state.must_end

        if tracee.loader is not None:
            tracee.loader.wait_until_loaded(let_go, must_end)
            tracee.loader = None

    def waitpid(self, pid: int, status: int | None, options: int) -> int:
        """waitpid(2) as Frida calls it; ``status`` is an address."""
        kept = ctypes.c_int()
        actions = self._apply(
            Requested(pid, Request.POLL if options & os.WNOHANG else Request.WAIT)
        )
        if Do.REFUSE in actions:
            ctypes.set_errno(errno.ECHILD)
            return -1
        if Do.POLL in actions:
            found = self._wait_for_stop(pid, kept, options)
        else:
            ctypes.set_errno(0)
            found = int(_waitpid(pid, ctypes.addressof(kept), options))
        failure = ctypes.get_errno()
        if found > 0:
            if os.WIFEXITED(kept.value) or os.WIFSIGNALED(kept.value):
                self._apply(Ended(found))
            if status:
                ctypes.c_int.from_address(status).value = kept.value
        ctypes.set_errno(failure)
        return found

    def _wait_for_stop(self, tid: int, status: ctypes.c_int, options: int) -> int:
        """waitpid(2) for a thread that is going to stop."""
        waited_s = locked_s = 0.0
        while True:
            ctypes.set_errno(0)
            found = int(_waitpid(tid, ctypes.addressof(status), options))
            if not found:
                self._hold.expire()
                event: Event = NothingYet(tid, waited_s, locked_s)
            else:
                is_calling = self._progress.state.is_calling(tid)
                seen = status.value if found == tid else 0
                event = Reported(tid, self._tracees[tid].stop(seen, is_calling))
            for action in self._apply(event):
                match action:
                    case Do.GO_ON_WITH_SIGNAL:
                        _ptrace(PTRACE_CONT, tid, None, ptrace.signal_of(status.value))
                    case Do.GO_ON:
                        _ptrace(PTRACE_CONT, tid, None, None)
                    case NoteLoader(function_addr):
                        tracee = self._tracees[tid]
                        born = tasks(tid) - tracee.tasks_before
                        loader = self._loaders.add(tid, function_addr, born)
                        tracee.loader = loader if born else None
                    case BringOut(with_options):
                        number = ptrace.signal_of(status.value)
                        given = self._hold.bring_out(tid, number, with_options)
                        if given is None:
                            return 0
                        stop = given or PTRACE_EVENT_STOP << 8 | signal.SIGTRAP
                        status.value = stop << 8 | 0x7F
                    case Do.RELEASE_OTHERS:
                        self._hold.release_others(tid)
                    case Do.GIVE_BACK:
                        self._give_back(tid)
                        ctypes.set_errno(errno.ECHILD)
                        return -1
                    case Do.GIVE_UP:
                        return 0
                    case Do.ANSWER:
                        return found
                    case Do.LOOK_AGAIN:
                        # Counted, not taken from a clock: a machine that stood still proves
                        # nothing.
                        interval_s = LOOK_INTERVAL_S if waited_s < 0.5 else 50 * LOOK_INTERVAL_S
                        time.sleep(interval_s)
                        waited_s += interval_s
                        is_calling = self._progress.state.is_calling(tid)
                        is_locked = is_calling and system_call(tid, tid).number == SYS_FUTEX
                        locked_s = locked_s + interval_s if is_locked else 0.0

    def _give_back(self, tid: int) -> None:
        """Take a thread out of a call that does not return."""
        _ptrace(PTRACE_INTERRUPT, tid, None, None)
        status = _next_stop(tid)
        if status is not None and ptrace.is_in(tid, b"SigPnd", signal.SIGSEGV):
            # It has just returned to nowhere, as it should, and that would be reported next.
            _ptrace(PTRACE_CONT, tid, None, None)
            status = _next_stop(tid)
        if status is None or not self._put_back(tid, ptrace.signal_of(status)):
            self._apply(Ended(tid))

    def _put_back(self, tid: int, number: int) -> bool:
        """Make a thread that stands still go on with what it came with, and a signal or 0, as soon
        as Frida has cleaned up, which it does by this very thread. False if it does not stand
        still.
        """
        if not self._tracees[tid].put_back():
            return False
        self._apply(PutBack(tid, number, self._hold.until_s()))
        return True

    def abandon(self, tid: int) -> None:
        """Put a thread back, whatever Frida was about to do with it: after an error of ours."""
        for action in self._apply(Failed(tid)):
            match action:
                case Do.RELEASE_OTHERS:
                    self._hold.release_others(tid)
                case PutBackWithin(limit_s):
                    self._put_back_within(tid, limit_s)

    def _put_back_within(self, tid: int, limit_s: float) -> None:
        # It may stand still, and somebody have taken note of it.
        for each_s in (0.0, limit_s):
            status = ptrace.next_stop(tid, each_s, LOOK_INTERVAL_S)
            if self._put_back(tid, 0 if status is None else ptrace.signal_of(status)):
                return
        for action in self._apply(NotPutBack(tid)):
            match action:
                case Do.RELEASE_OTHERS:
                    self._hold.release_others(tid)
                case Do.GIVE_BACK:
                    self._give_back(tid)


def _refuse() -> int:
    ctypes.set_errno(errno.ESRCH)  # the one error that Frida takes as it is
    return -1


def _next_stop(tid: int) -> int | None:
    """Wait until a thread stops or ends: without an end, as one that is released in the middle of a
    call dies. If it does not stop it is frozen, and whoever did that continues in the end.
    """
    return ptrace.next_stop(tid, math.inf, 50 * LOOK_INTERVAL_S)
