"""The processes that a process has started, and how much CPU time they have used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

NS_PER_S = 1_000_000_000
MAX_PROCESSES = 256  # looked at, so that a process with thousands of children costs no more


def child_processes(pid: int) -> list[tuple[int, str, int]]:
    """Return the processes below ``pid``, those that used most CPU time first.

    Each as its pid, its name as the kernel has it (up to 15 bytes), and the CPU time of its threads
    in nanoseconds. Processes that end meanwhile, or may not be read, are left out.
    """
    below = (_read(each) for each in islice(descendants([pid]), MAX_PROCESSES - 1))
    found = [process for process in below if process is not None]
    return sorted(found, key=lambda process: -process[2])


def descendants(pids: Iterable[int]) -> Iterator[int]:
    """Yield the processes below some, each once."""
    waiting = list(pids)
    seen = set(waiting)
    while waiting:
        for child in children_of(waiting.pop()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def children_of(pid: int) -> list[int]:
    """Return the processes that the threads of a process have started and that have not ended."""
    children: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")[:MAX_PROCESSES]
    except OSError:
        return children
    for task in tasks:
        try:
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
        except OSError:
            continue
        children += map(int, text.split())
    return children


def _read(pid: int) -> tuple[int, str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    _, _, rest = text.partition(" (")
    name, _, fields = rest.rpartition(") ")  # the name may have parentheses and spaces
    user, system = map(int, fields.split()[11:13])
    ticks = os.sysconf("SC_CLK_TCK")
    return pid, name, (user + system) * NS_PER_S // ticks
