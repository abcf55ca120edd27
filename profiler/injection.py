"""Repairs what Frida does from within our process when it injects its agent.

Frida 17 stops the target's main thread, has it call a few functions (mmap, its bootstrapper, its
loader, at the end munmap) and lets it go. It calls libc's ``ptrace`` and ``waitpid`` through slots
of its library, in which ``guard`` puts functions of ours. They repair seven things:

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
main thread blocks all signals while it runs Frida's code, but those that report a fault (the kernel
resets the disposition of one that is blocked) and the two that the C library sends to every thread
(setuid(2) waits for the answers).

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
that before the main thread is stopped (``loader``). An agent that was late leaves when it sees that
nobody wants it any more; ``unmap_loader`` is for the memory that Frida has given up by then.

**What Frida prints.** See ``quiet``.

**A main thread that holds a lock.** It is let go when the loader waits for it. See ``loader``.

**Another program.** When the target becomes another program (exec) in the middle of the attach,
Frida would clean up in it by functions at the addresses of the one before. It may not.

All of this runs on one thread (``tracer``), which can keep the main thread longer than Frida knows
(``hold``); ``ctypes`` takes the GIL, which the caller of an attach has released.
ptrace(2), <sys/ptrace.h>, <sys/user.h>, <elf.h>.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import signal
import threading
import time
from dataclasses import dataclass, field

from flametap import execs, hold, interpose, ptrace, quiet, rewait
from flametap.loader import LOCKED_S, SYS_FUTEX, Loader, system_call, tasks
from flametap.ptrace import (
    NT_PRSTATUS,
    NT_X86_XSTATE,
    PTRACE_ATTACH,
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_GETREGS,
    PTRACE_GETREGSET,
    PTRACE_INTERRUPT,
    PTRACE_SEIZE,
    PTRACE_SETREGS,
    PTRACE_SETREGSET,
    REGISTERS_BYTES,
    XSTATE_BYTES_MAX,
)

_ptrace, _waitpid = ptrace.ptrace, ptrace.waitpid

# Words of struct user_regs_struct that are looked at.
RSI, RDI, RIP = 13, 14, 16
# Signals that threads of Frida's take all the same: faults, and glibc's SIGCANCEL and SIGSETXID.
UNBLOCKED = (
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGSEGV,
    signal.SIGSYS,
    32,
    33,
)
FRIDA_MASK = (1 << 64) - 1 - sum(1 << (number - 1) for number in UNBLOCKED)

# How long a function may run in the target; it is mostly a few milliseconds.
CALL_LIMIT_S = 15.0
# … and how long it may wait for a lock, which may be one that the thread itself holds.
CALL_LOCKED_S = 1.0
# How long a thread may take to stop when told to: for ever in uninterruptible sleep, or frozen.
STOP_LIMIT_S = 5.0
# Between two looks. It adds to the time that the target's main thread stands still.
LOOK_INTERVAL_S = 0.0002


@dataclass
class _Tracee:
    """A thread while Frida traces it."""

    is_seized: bool = True  # or attached to, with a signal
    options: int = 0
    registers: ptrace.Bytes | None = None  # as it came: general …
    vector_registers: ptrace.Bytes | None = None  # … and all others
    mask: int | None = None  # the signals it blocks: bit n - 1 is signal n
    called: int = 0  # runtime_addr of the function that it is to call
    is_calling: bool = False
    loader: Loader | None = None  # what the last call has started
    is_released: bool = False  # by us: Frida believes that it has it
    tasks_before: frozenset[int] = field(default_factory=frozenset)  # of its process


_tracees: dict[int, _Tracee] = {}
# (pid, runtime_addr of code of Frida's that the main thread has run) → what it started
_loaders: dict[tuple[int, int], Loader] = {}
_unmapped: set[tuple[int, int]] = set()  # of these by us
_must_end = threading.Event()


def _ptrace_for_frida(request: int, tid: int, where: int | None, data: int | None) -> int:
    tracee = _tracees.get(tid)
    if request in (PTRACE_ATTACH, PTRACE_SEIZE):
        hold.release(tid)
        quiet.silence()
        for loader in _loaders_of(tid):
            loader.wait_until_left()
        hold.stop_others(tid)
        _tracees[tid] = _Tracee(request == PTRACE_SEIZE, data or 0)
    elif tracee is None:
        pass
    elif tracee.is_released:
        if request == PTRACE_DETACH:
            _tracees.pop(tid, None)
            return 0
        ctypes.set_errno(errno.ESRCH)
        return -1
    elif request in (PTRACE_GETREGS, PTRACE_GETREGSET) and tracee.registers is None:
        rewait.prepare(tid)
        tracee.registers = ptrace.saved(tid, NT_PRSTATUS, REGISTERS_BYTES)
        tracee.vector_registers = ptrace.saved(tid, NT_X86_XSTATE, XSTATE_BYTES_MAX)
        tracee.mask = ptrace.blocked(tid)
        if tracee.mask is not None:
            ptrace.block(tid, tracee.mask | FRIDA_MASK)
    elif request in (PTRACE_SETREGS, PTRACE_SETREGSET) and data:
        if not _prepare_call(tid, tracee, request, data):
            ctypes.set_errno(errno.ESRCH)  # the one error that Frida takes as it is
            return -1
    elif request == PTRACE_CONT and tracee.called:
        tracee.tasks_before = tasks(tid)
        tracee.is_calling = True
    elif request == PTRACE_DETACH:
        _restore(tid, tracee)
        if hold.keeps(tid, data or 0):
            _tracees.pop(tid, None)
            return 0
    ctypes.set_errno(0)
    result = int(_ptrace(request, tid, where, data))
    if result == 0 and tracee is not None and request in (PTRACE_SETREGS, PTRACE_SETREGSET):
        _wait_for_loader(tid, tracee)
        ctypes.set_errno(0)
    if result == 0 and request == PTRACE_DETACH:
        failure = ctypes.get_errno()
        _tracees.pop(tid, None)
        ctypes.set_errno(failure)
    return result


def _restore(tid: int, tracee: _Tracee) -> None:
    """Gives back what Frida does not, right before the thread is let go."""
    if tracee.vector_registers is not None:
        ptrace.transfer(PTRACE_SETREGSET, tid, NT_X86_XSTATE, tracee.vector_registers)
    if tracee.mask is not None:
        ptrace.block(tid, tracee.mask)


def _prepare_call(tid: int, tracee: _Tracee, request: int, data: int) -> bool:
    """Looks at registers that Frida is about to set; False if it must not.

    They are those that the thread came with, or those of a function to be called, with its first
    argument. Whoever passes the address of code that has run here wants to unmap that.
    """
    if request == PTRACE_SETREGSET:
        vector = ptrace.Vector.from_address(data)
        if vector.size_bytes < REGISTERS_BYTES or not vector.base:
            return True
        data = vector.base
    registers = (ctypes.c_uint64 * (REGISTERS_BYTES // 8)).from_address(data)
    is_own = tracee.registers is not None and bytes(registers) == tracee.registers.raw
    tracee.called = 0 if is_own else int(registers[RIP])
    start, size_bytes = int(registers[RDI]), int(registers[RSI])
    loader = _loaders.get((tid, start))
    return is_own or not (
        execs.is_replaced(tid)
        or (tid, start) in _unmapped
        or (loader is not None and bool(loader.threads_inside(size_bytes)))
    )


def _wait_for_loader(tid: int, tracee: _Tracee) -> None:
    def let_go() -> None:
        _restore(tid, tracee)
        tracee.is_released = not _ptrace(PTRACE_DETACH, tid, None, None)
        hold.release_others(tid)

    def must_end() -> bool:
        hold.expire()
        return _must_end.is_set()

    if tracee.loader is not None and not tracee.called:
        tracee.loader.wait_until_loaded(let_go, must_end)
        tracee.loader = None


def _waitpid_for_frida(pid: int, status: int | None, options: int) -> int:
    kept = ctypes.c_int()
    tracee = _tracees.get(pid)
    if tracee is not None and options & os.WNOHANG:
        found = _wait_for_stop(pid, tracee, kept, options)
    else:
        ctypes.set_errno(0)
        found = int(_waitpid(pid, ctypes.addressof(kept), options))
    failure = ctypes.get_errno()
    if found > 0:
        if os.WIFEXITED(kept.value) or os.WIFSIGNALED(kept.value):
            _tracees.pop(found, None)
        if status:
            ctypes.c_int.from_address(status).value = kept.value
    ctypes.set_errno(failure)
    return found


def _wait_for_stop(tid: int, tracee: _Tracee, status: ctypes.c_int, options: int) -> int:
    """waitpid(2) for a thread that is going to stop."""
    limit_s = CALL_LIMIT_S if tracee.is_calling else STOP_LIMIT_S
    waited_s = locked_s = 0.0
    while True:
        ctypes.set_errno(0)
        found = int(_waitpid(tid, ctypes.addressof(status), options))
        if found == tid and tracee.is_calling and ptrace.is_stop_of_process(status.value):
            # The whole process stops, and stays so; this thread only when it has come back.
            is_told = status.value >> 16 != PTRACE_EVENT_STOP
            _ptrace(PTRACE_CONT, tid, None, signal.SIGSTOP if is_told else None)
            continue
        if found != 0:
            if tracee.is_calling:
                tracee.is_calling = False
                born = tasks(tid) - tracee.tasks_before
                loader = Loader(tid, tracee.called, born)
                _loaders[tid, tracee.called] = loader
                tracee.loader = loader if born else None
                _unmapped.discard((tid, tracee.called))
                tracee.called = 0
            elif tracee.is_seized and tracee.registers is None and os.WIFSTOPPED(status.value):
                is_event = status.value >> 16 == PTRACE_EVENT_STOP
                number = 0 if is_event else os.WSTOPSIG(status.value)
                given = hold.bring_out(tid, number, tracee.options)
                if given is None:
                    return 0
                status.value = (given or PTRACE_EVENT_STOP << 8 | signal.SIGTRAP) << 8 | 0x7F
            return found
        hold.expire()
        if tracee.is_calling and waited_s > LOCKED_S:
            hold.release_others(tid)
        is_over = waited_s > limit_s or locked_s > CALL_LOCKED_S
        if is_over or (_must_end.is_set() and tracee.is_calling):
            if not tracee.is_calling:
                return 0
            _give_back(tid, tracee)
            ctypes.set_errno(errno.ECHILD)
            return -1
        # Counted, not taken from a clock: a machine that stood still proves nothing.
        interval_s = LOOK_INTERVAL_S if waited_s < 0.5 else 50 * LOOK_INTERVAL_S
        time.sleep(interval_s)
        waited_s += interval_s
        is_locked = tracee.is_calling and system_call(tid, tid) == SYS_FUTEX
        locked_s = locked_s + interval_s if is_locked else 0.0


def _give_back(tid: int, tracee: _Tracee) -> None:
    """Takes a thread out of a call that does not return, and lets it go with what it came with."""
    hold.release_others(tid)
    _ptrace(PTRACE_INTERRUPT, tid, None, None)
    status = _next_stop(tid)
    if status is not None and os.WIFSTOPPED(status) and ptrace.is_pending(tid, signal.SIGSEGV):
        # It has just returned to nowhere, as it should, and that would be reported next.
        _ptrace(PTRACE_CONT, tid, None, None)
        status = _next_stop(tid)
    if status is not None and os.WIFSTOPPED(status):
        if tracee.registers is not None:
            ptrace.transfer(PTRACE_SETREGSET, tid, NT_PRSTATUS, tracee.registers)
        _restore(tid, tracee)
        _ptrace(PTRACE_DETACH, tid, None, None)
    _tracees.pop(tid, None)


def _next_stop(tid: int) -> int | None:
    """Waits until a thread stops or ends; returns its status, None when it is not ours.

    Without an end: a thread that is let go in the middle of a call dies. If it does not stop it is
    frozen, and whoever did that goes on in the end.
    """
    status = ctypes.c_int()
    while (found := int(_waitpid(tid, ctypes.addressof(status), os.WNOHANG))) == 0:
        time.sleep(50 * LOOK_INTERVAL_S)
    return status.value if found == tid else None


def _ptrace_on_tracer(request: int, tid: int, where: int | None, data: int | None) -> int:
    return hold.tracer.run(lambda: _ptrace_for_frida(request, tid, where, data))


def _waitpid_on_tracer(pid: int, status: int | None, options: int) -> int:
    return hold.tracer.run(lambda: _waitpid_for_frida(pid, status, options))


# Frida calls them for as long as the process lives.
_REPLACEMENTS = {
    b"ptrace": ctypes.CFUNCTYPE(
        ctypes.c_long,
        *(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p),
        use_errno=True,
    )(_ptrace_on_tracer),
    b"waitpid": ctypes.CFUNCTYPE(
        ctypes.c_int, *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), use_errno=True
    )(_waitpid_on_tracer),
}


@functools.cache
def guard(library: str) -> bool:
    """Has Frida's library call our functions from now on. Done once a process.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's: another way of injecting, which this module
        knows nothing about.
    """
    return all(
        [interpose.redirect(library, name, function) for name, function in _REPLACEMENTS.items()]
    )


def unmap_loader(pid: int) -> None:
    """Has a process unmap what Frida's loader ran in, where that is still there and no thread is
    in it any more. Frida may not do so afterwards: something else may be there.
    """
    for loader in _loaders_of(pid):
        if not execs.is_replaced(pid) and loader.born and loader.unmap():
            _unmapped.add((pid, loader.start))


def _loaders_of(pid: int) -> list[Loader]:
    return [loader for (of, _), loader in list(_loaders.items()) if of == pid]


def is_calling() -> bool:
    """True while some thread runs a function for Frida: to end now is to kill it."""
    return any(tracee.is_calling for tracee in list(_tracees.values()))


def end() -> None:
    """Has the thread that runs a function for Frida, if there is one, given back at once."""
    _must_end.set()
    hold.let_all_go()


def release() -> None:
    """Has Frida call libc itself again: our functions end with the interpreter."""
    with contextlib.suppress(OSError):
        interpose.release()
