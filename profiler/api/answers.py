"""What a recording answers scripts: plain objects, all times in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Thread:
    """A thread and its times in a recording, in seconds.

    Attributes:
        tid: its id in the kernel.
        name: as the program names it.
        cpu_s: on a CPU.
        wall_s: all of its time.
        off_cpu_s: asleep, or waiting for a CPU.
        has_exited: whether it ended before the recording did.
    """

    tid: int
    name: str
    cpu_s: float
    wall_s: float
    off_cpu_s: float
    has_exited: bool


@dataclass(frozen=True)
class FunctionTime:
    """A function and its time, in seconds.

    Attributes:
        name: without arguments.
        module: its program or library; "" if it is in none.
        file: its source file; "" if it is not known.
        own_s: the time of its own.
        total_s: with what it calls; recursion counts once.
    """

    name: str
    module: str
    file: str
    own_s: float
    total_s: float


@dataclass
class Node:
    """A function called from somewhere: a node of a call tree. The root has the name "".

    Attributes:
        name: of the function.
        module: its program or library.
        file: the source file of the line.
        line: that was run most; 0 if it is not known.
        own_s: the time that ends here, in seconds.
        total_s: with what it calls.
        children: what it calls, by name.
    """

    name: str
    module: str
    file: str
    line: int
    own_s: float
    total_s: float
    children: list[Node] = field(default_factory=list, repr=False)

    def walk(self) -> Iterator[Node]:
        """Return this node and all below it, callers before what they call."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children[::-1]


@dataclass(frozen=True)
class Lane:
    """What a thread did over time.

    Attributes:
        tid: of the thread.
        name: of the thread.
        start_s: of the first bin, since the start of the recording.
        step_s: the length of a bin.
        shares: by activity ("running", "queued", "waiting" …), its part of each bin, 0 to 1.
    """

    tid: int
    name: str
    start_s: float
    step_s: float
    shares: dict[str, list[float]]
