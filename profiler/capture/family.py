"""Follow what processes start: each process and each program is attached to, or counted.

A child that goes on as its parent began is attached to after ``SETTLE_S``; one that runs another
program, when it does. Attaches run beside each other. What ends before, or cannot be entered, is
counted by name where the kernel tells of it, so that the recording has the CPU time of all.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ..errors import FlametapError
from ..linux import procfs
from ..linux.command_line import has_functions_of_its_own
from ..linux.proc_events import Event, What
from ..linux.process_clock import cpu_ns, shares_memory
from ..linux.task_stats import Ended
from .births import Births, NoBirths, SeenBirths, births

SETTLE_S = 0.003  # most programs that are started run another one by then
RETRY_S, RETRY_LIMIT_S = 0.002, 5.0  # of a child that still has its parent's memory
WAIT_S = 0.05
AT_ONCE = 4  # attaches
UNDECIDED_S, UNHEARD_S = 30.0, 0.1  # an attach on a busy machine; news on their way
MOST_ATTACHED = 128
MOST_KNOWN = 100_000
MOST_SAID = 5  # processes that cannot be recorded


class Recorder(Protocol):
    """What a family has its processes recorded by. Any thread may call."""

    def attach(self, pid: int, parent: int, before_ns: int | None) -> int:
        """Attach to a process; return its number. Raises FlametapError.

        ``before_ns`` is the CPU time that it had used before the family was followed; None if its
        recording begins with the attach.
        """
        ...

    def count(self, pid: int, name: str, elapsed_ns: int, cpu_ns: int) -> None:
        """Count the CPU time of a process that was not attached to."""
        ...

    def settle(self, pid: int, cpu_ns: int) -> None:
        """Take note of the CPU time of the first thread of an attached process that has ended."""
        ...


class State(Enum):
    """What becomes of a process."""

    WAITING = "waiting"
    ATTACHING = "attaching"
    ATTACHED = "attached"
    REFUSED = "refused"


@dataclass
class Member:
    """A process of the family."""

    pid: int
    parent: int  # its pid
    due_s: float  # when it is attached to
    state: State = State.WAITING
    number: int = -1
    name: str = ""
    before_ns: int = 0  # CPU time that it had used before it was followed
    was_replaced: bool = False  # amid the attach
    began_ns: int = field(default_factory=time.monotonic_ns)


class Family:
    """See the module.

    Args:
        pid: the process whose family it is; it is attached to as number 0.
        recorder: attaches.
        make: makes what tells of processes; ``NoBirths`` if nobody is to be followed.
        others: processes that are attached to, too, and whose families are followed.

    Attributes:
        sampled_s: the kernel samples processes meanwhile: one that runs no interpreter is attached
            to when it has run its program for so long.
    """

    def __init__(
        self,
        pid: int,
        recorder: Recorder,
        make: Callable[[], Births] = births,
        others: Sequence[int] = (),
    ) -> None:
        self._recorder = recorder
        self.sampled_s = 0.0
        self._births = make()
        first = Member(pid, 0, 0.0, State.ATTACHED, number=0)
        self._members: dict[int, Member] = {pid: first}
        self._members |= {other: Member(other, 0, 0.0) for other in others}
        self._attached = {pid}  # at any time
        self._refused: Counter[str] = Counter()
        # Ended before they were attached to, and when.
        self._missed: dict[int, tuple[float, Member]] = {}
        self._undecided: list[tuple[Ended, float]] = []
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="flametap-attach")
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flametap-family", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        for member in self._members.values():
            member.before_ns = cpu_ns(member.pid) or 0
        self._thread.start()

    def close(self) -> None:
        """Follow nobody any more; attaches that are under way end before. Idempotent."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(cancel_futures=True)
        with contextlib.suppress(OSError):
            for event in self._births.wait((), 0.0):
                self._take(event)
            self._count_ended(is_last=True)
            self._births.close()

    def replaced(self, pid: int) -> None:
        """Take note that the program of an attached process has been replaced by another one."""
        with self._lock:
            member = self._members.get(pid)
            if member is not None and member.state is State.ATTACHED:
                member.state, member.due_s = State.WAITING, 0.0
                member.began_ns = time.monotonic_ns()
            elif member is not None and member.state is State.ATTACHING:
                member.was_replaced = True  # an agent was in it, and has gone

    def ended(self, pid: int) -> None:
        """Take note that an attached process has ended."""
        with self._lock:
            self._members.pop(pid, None)

    @property
    def expects_more(self) -> bool:
        """Return whether a process is still to be attached to."""
        with self._lock:
            states = {each.state for each in self._members.values()}
        return not states.isdisjoint({State.WAITING, State.ATTACHING})

    def notes(self) -> list[str]:
        """Say which processes could not be recorded, and why."""
        with self._lock:
            refused = self._refused.most_common(MOST_SAID)
            waiting = sum(each.state is State.WAITING for each in self._members.values())
            left = self._refused.total() - sum(times for _, times in refused)
            is_full = len(self._members) - waiting >= MOST_ATTACHED
        notes = [why if times == 1 else f"{why} (and {times - 1:,} more)" for why, times in refused]
        if left:
            notes.append(f"{left:,} more processes are not recorded")
        if waiting and is_full:
            notes.append(
                f"{waiting:,} processes are not recorded: at most {MOST_ATTACHED} are at once"
            )
        return notes

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # whatever it is: the recording goes on, and ends
            with self._lock:
                self._refused[f"nothing more is followed: {type(error).__name__}: {error}"] += 1
                for each in self._members.values():
                    if each.state is State.WAITING:
                        each.state = State.REFUSED

    def _loop(self) -> None:
        if not isinstance(self._births, NoBirths):
            for event in SeenBirths().wait(set(self._members), 0.0):  # those that are there already
                self._take(event, cpu_ns(event.pid) or 0)
        while not self._closing.is_set():
            with self._lock:
                known = set(self._members)
                due_s = [
                    each.due_s for each in self._members.values() if each.state is State.WAITING
                ]
            left_s = min(due_s, default=WAIT_S + time.monotonic()) - time.monotonic()
            try:
                events = self._births.wait(known, min(max(left_s, 0.0), WAIT_S))
            except OSError:  # the kernel tells no more
                self._births, events = SeenBirths(), []
            for event in events:
                self._take(event)
            self._count_ended()
            self._attach_due()

    def _take(self, event: Event, before_ns: int = 0) -> None:
        now_s = time.monotonic()
        with self._lock:
            member = self._members.get(event.pid)
            if event.what is What.BEGAN:
                is_new = member is None and event.parent in self._members
                if is_new and len(self._members) < MOST_KNOWN:
                    member = Member(event.pid, event.parent, now_s + SETTLE_S, before_ns=before_ns)
                    self._members[event.pid] = member
            elif member is None:
                return
            elif event.what is What.REPLACED:
                if member.state in (State.WAITING, State.REFUSED):
                    member.state, member.due_s = State.WAITING, now_s
                    member.began_ns = time.monotonic_ns()
            elif member.state in (State.WAITING, State.REFUSED):
                # One that is attached to is told of by who reads it.
                self._members.pop(event.pid)
                self._missed[event.pid] = now_s, member

    def _count_ended(self, *, is_last: bool = False) -> None:
        """Count the CPU time of processes that ended before they were attached to.

        Args:
            is_last: nobody is attached to any more.
        """
        now_s = time.monotonic()
        heard: list[tuple[Ended, float]] = []
        with contextlib.suppress(OSError):
            heard = [(each, now_s) for each in self._births.ended()]
        undecided, self._undecided = [*self._undecided, *heard], []
        for each, heard_s in undecided:
            with self._lock:
                member = self._members.get(each.tid)
                _, missed = self._missed.pop(each.tid, (0.0, None))
                if member is not None and (
                    member.state is State.REFUSED
                    or (is_last and member.state is not State.ATTACHED)
                ):
                    missed = member
            if missed is not None:
                used_ns = max(0, each.cpu_ns - missed.before_ns)
                self._recorder.count(each.tid, each.name, each.elapsed_ns, used_ns)
            elif each.tid in self._attached:
                self._recorder.settle(each.tid, each.cpu_ns)
            elif member is not None and now_s - heard_s < UNDECIDED_S:
                self._undecided.append((each, heard_s))  # an attach is under way
            elif each.parent in self._members and now_s - heard_s < UNHEARD_S:
                self._undecided.append((each, heard_s))  # a thread, or we hear of its begin later
        with self._lock:
            self._missed = {
                pid: each for pid, each in self._missed.items() if now_s - each[0] < UNDECIDED_S
            }

    def _attach_due(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            members = list(self._members.values())
            busy = sum(each.state in (State.ATTACHING, State.ATTACHED) for each in members)
            due = [
                each
                for each in members
                if each.state is State.WAITING and each.due_s <= now_s and not self._can_wait(each)
            ]
            for each in due[: max(0, MOST_ATTACHED - busy)]:
                each.state = State.ATTACHING
                self._pool.submit(self._attach, each)
            for each in due[max(0, MOST_ATTACHED - busy) :]:
                each.due_s = now_s + WAIT_S

    def _can_wait(self, member: Member) -> bool:
        """Return whether a process need not be attached to yet; then it waits.

        That is one which others have started, and which runs no interpreter.
        """
        left_s = self.sampled_s - (time.monotonic_ns() - member.began_ns) / 1e9
        if left_s <= 0 or not member.parent:
            return False
        with contextlib.suppress(*procfs.GONE, PermissionError):
            program = os.readlink(f"{procfs.PROC}/{member.pid}/exe")
            if has_functions_of_its_own(os.path.basename(program)):
                return False
        member.due_s = time.monotonic() + left_s
        return True

    def _attach(self, member: Member) -> None:
        with self._lock:
            parent = self._members.get(member.parent)
            is_first = member.number < 0
        number = member.number if not is_first else parent.number if parent else -1
        state = State.REFUSED
        try:
            if is_first and member.parent and shares_memory(member.pid, member.parent):
                waited_s = (time.monotonic_ns() - member.began_ns) / 1e9
                if cpu_ns(member.pid) is None:
                    return
                if waited_s < RETRY_LIMIT_S:
                    state = State.WAITING  # vfork: it will soon run another program
                    member.due_s = time.monotonic() + max(RETRY_S, waited_s / 10)
                else:
                    self._refuse(member, "it has the memory of the process that started it")
                return
            before_ns = member.before_ns if member.parent or not is_first else None
            member.number = self._recorder.attach(member.pid, number, before_ns)
            member.before_ns = 0  # what it uses from now on is recorded
            state = State.ATTACHED
        except FlametapError as error:
            self._refuse(member, error.message)
        except Exception as error:  # whatever it is, the recording goes on
            self._refuse(member, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                if state is State.ATTACHED:
                    self._attached.add(member.pid)
                    if member.was_replaced:
                        state, member.was_replaced = State.WAITING, False
                member.state = state

    def _refuse(self, member: Member, why: str) -> None:
        with contextlib.suppress(*procfs.GONE, PermissionError):
            member.name = procfs.read_task_name(member.pid, member.pid)
            os.readlink(f"{procfs.PROC}/{member.pid}/exe")
            if procfs.read_task_state(member.pid, member.pid) in "ZX":
                return  # it has ended, or is about to: nothing is wrong
            with self._lock:
                self._refused[f"{member.name} {member.pid} is not recorded: {why}"] += 1
