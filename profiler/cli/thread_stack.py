"""What ``flametap dump`` says of one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..linux.syscalls import LOCK, QUEUED, syscall_name
from ..model import Frame

if TYPE_CHECKING:
    # It takes 0.1 s to import, and is of use only for Python.
    from ..symbols.interpreters.python.thread_look import FrameLook

FOR_A_CPU, FOR_THE_LOCK = syscall_name(QUEUED), syscall_name(LOCK)


@dataclass(frozen=True)
class ThreadStack:
    """The newest stack of one thread."""

    tid: int
    name: str
    waits_in: str  # the system call it waits in, or one of the names above; "" for none
    is_complete: bool  # unwound to the root
    frames: list[Frame]  # leaf first; empty if the thread was never sampled
    runs_in: str = ""  # the system call it runs in; "kernel" if the call is unknown; "" for none
    unseen_because: str = ""  # why it has no frames; "" if it has
    comm: str = ""  # the kernel's name of it, if that is another
    has_lock: bool | None = None  # holds an interpreter's lock; None if unknown, or not of Python
    seen: Mapping[int, FrameLook] = field(default_factory=dict)  # by index of the frame
    later: tuple[FrameLook, ...] = ()  # its Python frames when they were read, if it had moved
    unread_because: str = ""  # why variables are missing; "" if none are wanted, or all are there
    is_stuck: bool = False  # it has waited for that for a while
    waits_for: tuple[int, str] | None = None  # tid and name of who holds the lock it waits for

    @property
    def waits_in_call(self) -> str:
        """The system call it waits in; "" for none."""
        return "" if self.waits_in in (FOR_A_CPU, FOR_THE_LOCK) else self.waits_in

    @property
    def held_by(self) -> str:
        """The thread that holds the lock it waits for, in words; "" if that is not known."""
        if self.waits_for is None:
            return ""
        tid, name = self.waits_for
        return f'for a lock that thread {tid} "{name}" holds'

    @property
    def state(self) -> str:
        """One word or more: "active" on a CPU, what else it waits for, "idle", "not seen"."""
        if not self.frames:
            return "not seen"
        if self.waits_in == FOR_A_CPU:
            return f"active, {FOR_A_CPU}"
        if self.waits_in:
            return self.waits_in if self.waits_in == FOR_THE_LOCK else "idle"
        return "active"
