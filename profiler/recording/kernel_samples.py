"""Stacks that the kernel has sampled, of processes that no agent was in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..model import Verdict

# The kernel looks at the clock of a thread so often, and tells what it saw last.
TICK_NS = 4_000_000


class Place(NamedTuple):
    """Code in a file. Of a caller, ``file_addr`` is in its call."""

    path: str
    build_id: str
    file_addr: int


class Stack(NamedTuple):
    """A stack, leaf first. One without places and name is not known."""

    places: tuple[Place, ...]
    verdict: Verdict
    name: str = ""  # of what stands for a stack, where there is none


# The kernel puts a program in the place of another one, or an end to a process.
STARTING = Stack((), Verdict.COMPLETE, "[execve]")
ENDING = Stack((), Verdict.COMPLETE, "[exit]")
UNKNOWN = Stack((), Verdict.NO_STACK)


class Seen(NamedTuple):
    """A sample of a process: one of its threads was on a CPU. It stands for so much CPU time."""

    time_ns: int
    cpu_ns: int
    stack: Stack
    is_first: bool = True  # the first thread of the process


class Sampled(NamedTuple):
    """What the kernel has seen of a process, in order of time."""

    seen: Sequence[Seen] = ()

    @property
    def cpu_ns(self) -> int:
        """What all samples stand for."""
        return sum(each.cpu_ns for each in self.seen)

    @property
    def others_ns(self) -> int:
        """What those stand for that are not of the first thread."""
        return sum(each.cpu_ns for each in self.seen if not each.is_first)

    @property
    def with_stack(self) -> Sampled:
        """Those of which the stack is known."""
        return Sampled([each for each in self.seen if each.stack != UNKNOWN])

    def followed_by(self, later: Sampled) -> Sampled:
        """Return these and others."""
        return Sampled([*self.seen, *later.seen])

    def scaled(self, most_ns: int) -> Sampled:
        """Return them so that they do not stand for more than some CPU time."""
        cpu_ns = self.cpu_ns
        if cpu_ns <= most_ns:
            return self
        return Sampled(
            [each._replace(cpu_ns=each.cpu_ns * most_ns // cpu_ns) for each in self.seen]
        )

    def split(self, cpu_ns: int) -> tuple[Sampled, Sampled]:
        """Return the first, until they stand for some CPU time, and the others."""
        n_first = 0
        while n_first < len(self.seen) and cpu_ns > 0:
            cpu_ns -= self.seen[n_first].cpu_ns
            n_first += 1
        return Sampled(self.seen[:n_first]), Sampled(self.seen[n_first:])

    def last(self, cpu_ns: int) -> Sampled:
        """Return the last, until they stand for some CPU time."""
        found, _ = Sampled(self.seen[::-1]).split(cpu_ns)
        return Sampled(found.seen[::-1])


NOT_SAMPLED = Sampled()
