"""The protocol of a way into a process: it knows no way, and the ways know nobody above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .alternate import Alternate
from .stopper import Stopper
from .target_memory import TargetMemory


@dataclass(frozen=True)
class Entry:
    """Our thread in the target.

    Attributes:
        tid: its number as we know it.
        boot_addr: runtime_addr of ``struct boot`` (``agent/entry/control.h``).
        thread_pointer: of a thread of the target's own, runtime_addr; 0 if unknown.
    """

    tid: int
    boot_addr: int
    thread_pointer: int = 0


class Injector(Protocol):
    """One entry into one process: ``enter``, later ``leave``, at last ``close``.

    Attributes:
        memory: of the process, from ``enter`` to ``close``.
        stopper: stops its threads for a moment.
    """

    memory: TargetMemory | None
    stopper: Stopper

    def enter(self, filtered: int) -> Entry:
        """Have a thread of ours run ``agent_main`` in the process.

        Args:
            filtered: which of its threads have seccomp filters: ``seccomp_filters.whose``.

        Raises:
            FlametapError: nothing of ours runs in the process.
        """
        ...

    def ask_alternate(self, tid: int, let_in: int = 0) -> Alternate | None:
        """Have a thread of the process tell its alternate signal stack, by a system call that it
        makes; it is stopped for a moment.

        Args:
            tid: one that runs, has no seccomp filter and no signal of its own to take.
            let_in: what it blocks itself and we let in for now; bit n - 1 is signal n.

        Returns:
            None if it could not be asked now; ``alternate.REFUSED`` if it can never be.
        """
        ...

    def ask_no_more(self) -> None:
        """See to it that no thread answers later: the memory for answers goes."""
        ...

    def give_up(self) -> None:
        """End an ``enter`` that is under way soon. Any thread may call this."""
        ...

    def leave(self) -> None:
        """Take back what ``enter`` has brought; our thread has ended, or will without us."""
        ...

    def close(self) -> None:
        """Let go of the process."""
        ...
