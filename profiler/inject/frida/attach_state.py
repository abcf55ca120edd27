"""What an attach has come to, and what each event makes of it: a pure function.

``advance`` takes a state and an event and returns the next state and what is to be done. Nothing
here reads or changes a process: ``ptrace_proxy`` and ``fork_hold`` say what has happened, do what
is to be done, and say what came of it. Facts that a decision needs come with the event.

A thread that Frida traces goes through ``Phase``::

    Traced → STOPPING → STANDING → READY → CALLING → STANDING → … → Ended

From STANDING the thread may become RELEASED, and from each of these it may become OVER. Besides, a
thread may be held: kept stopped by us, before Frida stops it or after Frida has detached from it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from .attach_events import (
    Action,
    Asked,
    BringOut,
    CallRegisters,
    Do,
    Ended,
    Event,
    Failed,
    HeldEvent,
    HeldGoes,
    HeldStands,
    LetGo,
    MustEnd,
    Noted,
    NoteLoader,
    NothingYet,
    NotPutBack,
    OwnRegisters,
    PutBack,
    PutBackWithin,
    Release,
    Released,
    Reported,
    Request,
    Requested,
    Restored,
    Seized,
    Stop,
    ThreadEvent,
    Tick,
    Traced,
)

# How long a function may run in the target; it is mostly a few milliseconds.
CALL_LIMIT_S = 15.0
# … and how long it may wait for a lock, which may be one that the thread itself holds.
CALL_LOCKED_S = 1.0
# … and how long before others that we hold go on: one of them may have what it waits for. As for
# the loader, see ``loader.LOCKED_S``.
CALL_ALONE_S = 0.05
# How long a thread may take to stop when told to: for ever in uninterruptible sleep, or frozen.
STOP_LIMIT_S = 5.0


class Phase(Enum):
    """How far Frida has got with a thread."""

    STOPPING = "was asked to stop; the state it came with is not noted"
    STANDING = "stands still; the state it came with is noted"
    READY = "has the registers of a function to call"
    CALLING = "runs that function"
    RELEASED = "released by us, while Frida believes that it has it"
    OVER = "has its own state again, and stands until Frida is done with the rest"


@dataclass(frozen=True)
class Thread:
    """A thread that Frida traces."""

    phase: Phase = Phase.STOPPING
    is_seized: bool = True  # or attached to, with a signal
    options: int = 0  # PTRACE_O_
    function_addr: int = 0  # what it is to call, or calls: runtime_addr; 0 for nothing


@dataclass(frozen=True)
class Held:
    """A thread that we hold."""

    pid: int  # of its process; its own number where it was put back
    until_s: float  # monotonic clock
    is_brief: bool = False  # it computed just before: a wait it is stopped in has just begun
    number: int = 0  # the signal that it is to be given when it continues; 0 is nothing


@dataclass(frozen=True)
class State:
    """One attach to one process."""

    pid: int
    is_asked: bool = False  # keep the main thread stopped when Frida detaches from it
    must_end: bool = False  # no function may run any longer
    threads: Mapping[int, Thread] = field(default_factory=dict)  # of Frida's
    held: Mapping[int, Held] = field(default_factory=dict)  # of ours

    def is_calling(self, tid: int | None = None) -> bool:
        """True while a thread, or any, runs a function for Frida: to end now is to kill it."""
        calling = {each for each, its in self.threads.items() if its.phase is Phase.CALLING}
        return bool(calling) if tid is None else tid in calling

    def others(self, pid: int) -> list[int]:
        """The held threads of a process, but for the main one."""
        return [tid for tid, held in self.held.items() if held.pid == pid != tid]

    def _having(self, tid: int, thread: Thread | None) -> State:
        rest = {each: self.threads[each] for each in self.threads if each != tid}
        return replace(self, threads=rest if thread is None else {**rest, tid: thread})

    def _holding(self, tid: int, held: Held | None) -> State:
        rest = {each: self.held[each] for each in self.held if each != tid}
        return replace(self, held=rest if held is None else {**self.held, tid: held})


_WAITS = (Request.WAIT, Request.POLL)
Step = tuple[State, tuple[Action, ...]]


def advance(state: State, event: Event) -> Step:
    """Return the state after an event, and what is to be done, in this order."""
    if isinstance(event, (Asked, Seized, HeldStands, HeldGoes, LetGo, Tick)):
        return _advance_held(state, event)
    if isinstance(event, MustEnd):
        return replace(state, must_end=True), ()
    if isinstance(event, Traced):
        thread = Thread(is_seized=event.is_seized, options=event.options)
        return state._having(event.tid, thread), ()
    if isinstance(event, Ended):
        return state._having(event.tid, None), ()
    known = state.threads.get(event.tid)
    if isinstance(event, Requested):
        return _request(state, event, known)
    return (state, ()) if known is None else _advance_thread(state, event, known)


def _advance_held(state: State, event: HeldEvent) -> Step:
    match event:
        case Asked():
            return replace(state, is_asked=True), ()
        case Seized(tid, until_s, is_brief):
            return state._holding(tid, Held(state.pid, until_s, is_brief)), ()
        case HeldStands(tid, number):
            return state._holding(tid, replace(state.held[tid], number=number)), ()
        case HeldGoes(tid):
            return state._holding(tid, None), ()
        case LetGo():
            tids = [tid for tid in (state.pid,) if tid in state.held] + state.others(state.pid)
            return replace(state, is_asked=False), tuple(Release(tid) for tid in tids)
        case Tick(now_s, dead):
            return state, tuple(
                Release(tid)
                for tid, held in state.held.items()
                if now_s > held.until_s or tid in dead
            )


def _request(state: State, event: Requested, thread: Thread | None) -> Step:
    tid, request = event.tid, event.request
    if thread is None:
        return state, (Do.WAIT if request in _WAITS else Do.PASS,)
    if request in _WAITS:
        if thread.phase is Phase.OVER:
            return state, (Do.REFUSE,)
        return state, (Do.WAIT if request is Request.WAIT else Do.POLL,)
    is_readable = request in (Request.READ_REGISTERS, Request.WORD)
    if thread.phase is Phase.RELEASED or (thread.phase is Phase.OVER and not is_readable):
        if request is Request.DETACH:
            return state._having(tid, None), (Do.RELEASE,)
        return state, (Do.REFUSE,)
    if request is Request.READ_REGISTERS:
        # To note it is to block its signals until it is put back: this one has been.
        return state, (Do.PASS,) if thread.phase is Phase.OVER else (Do.NOTE, Do.PASS)
    if request is Request.WRITE_REGISTERS:
        return state, (Do.COMPARE,)
    if request is Request.GO_ON and thread.function_addr:
        called = replace(thread, phase=Phase.CALLING)
        return state._having(tid, called), (Do.BEGIN_CALL, Do.PASS)
    if request is Request.DETACH:
        return state, (Do.RESTORE,)
    return state, (Do.PASS,)


def _advance_thread(state: State, event: ThreadEvent, thread: Thread) -> Step:
    tid = event.tid
    is_calling = thread.phase is Phase.CALLING
    match event:
        case Noted():
            is_first = thread.phase is Phase.STOPPING
            standing = replace(thread, phase=Phase.STANDING) if is_first else thread
            return state._having(tid, standing), ()
        case OwnRegisters():
            standing = replace(thread, phase=Phase.STANDING, function_addr=0)
            return state._having(tid, standing), (Do.END_CALL,)
        case CallRegisters(_, function_addr, may_call):
            ready = replace(thread, phase=Phase.READY, function_addr=function_addr)
            return state._having(tid, ready), (Do.PASS if may_call else Do.REFUSE,)
        case Restored(_, number, until_s):
            if tid != state.pid or not state.is_asked:
                return state, (Do.PASS,)
            kept = replace(state, is_asked=False)._having(tid, None)
            return kept._holding(tid, Held(tid, until_s, number=number)), (Do.SUCCEED,)
        case Reported(_, stop):
            return _reported(state, tid, thread, stop)
        case NothingYet(_, waited_s, locked_s):
            return state, _still_waiting(state, thread, waited_s, locked_s)
        case PutBack(_, number, until_s):
            # While it runs a function only SIGSTOP is the target's own; else what is no event is.
            is_own = number == signal.SIGSTOP if is_calling else number <= signal.SIGRTMAX
            held = Held(tid, until_s, number=number if is_own else 0)
            over = replace(thread, phase=Phase.OVER)
            return state._having(tid, over)._holding(tid, held), ()
        case Failed():
            if thread.phase in (Phase.RELEASED, Phase.OVER):
                return state, ()
            # A function that is called may hold a lock of the C library: let it return, if it does.
            limit_s = CALL_LOCKED_S if is_calling else STOP_LIMIT_S
            return state, (Do.RELEASE_OTHERS, PutBackWithin(limit_s))
        case NotPutBack():
            if is_calling:
                return state, (Do.RELEASE_OTHERS, Do.GIVE_BACK)
            return state._having(tid, None), ()
        case Released():
            return state._having(tid, replace(thread, phase=Phase.RELEASED)), ()


def _reported(state: State, tid: int, thread: Thread, stop: Stop) -> Step:
    if thread.phase is Phase.CALLING:
        if stop is Stop.BY_PROCESS:
            # The whole process stops, and stays so; this thread only when it has come back.
            return state, (Do.GO_ON_WITH_SIGNAL,)
        if stop is Stop.BY_OTHERS:
            return state, (Do.GO_ON,)
        returned = replace(thread, phase=Phase.STANDING, function_addr=0)
        return state._having(tid, returned), (NoteLoader(thread.function_addr), Do.ANSWER)
    if thread.phase is Phase.STOPPING and thread.is_seized and stop is not Stop.ENDED:
        return state, (BringOut(thread.options), Do.ANSWER)
    return state, (Do.ANSWER,)


def _still_waiting(
    state: State, thread: Thread, waited_s: float, locked_s: float
) -> tuple[Action, ...]:
    if thread.phase is not Phase.CALLING:
        return (Do.GIVE_UP if waited_s > STOP_LIMIT_S else Do.LOOK_AGAIN,)
    is_over = waited_s > CALL_LIMIT_S or locked_s > CALL_LOCKED_S or state.must_end
    if is_over:
        return (Do.RELEASE_OTHERS, Do.GIVE_BACK)
    return (Do.RELEASE_OTHERS, Do.LOOK_AGAIN) if waited_s > CALL_ALONE_S else (Do.LOOK_AGAIN,)


class Progress:
    """The state that an attach is in now. Any thread may read it, and say what has happened.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self.state = State(pid)
        self._changing = threading.Lock()

    def apply(self, event: Event) -> tuple[Action, ...]:
        """Go on to the state after an event; return what is to be done."""
        with self._changing:
            self.state, actions = advance(self.state, event)
        return actions
