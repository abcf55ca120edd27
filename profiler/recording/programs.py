"""Sum up the processes of a recording by what they run."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..model import ThreadInfo
from .figures import duration
from .profile.store import Profile

SHOWN = 8


class Program(NamedTuple):
    """All processes of one program."""

    name: str
    n_processes: int
    cpu_ns: int


def programs(profile: Profile, threads: list[ThreadInfo] | None = None) -> list[Program]:
    """Return the programs of a recording of several processes, the busiest first; else none.

    Args:
        profile: it.
        threads: ``profile.thread_infos()``, if they are there.
    """
    processes = profile.processes
    if len(processes) < 2:
        return []
    cpu_ns: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for process in processes.values():
        if process.pid:
            times[process.program] += 1
    for thread in profile.thread_infos() if threads is None else threads:
        owner = processes.get(thread.process)
        if owner is not None and owner.pid:
            cpu_ns[owner.program] += thread.cpu_ns
        else:  # counted by name: "cc1 × 41"
            name, _, number = thread.name.partition(" × ")
            cpu_ns[name] += thread.cpu_ns
            number = number.replace(",", "")
            times[name] += int(number) if number.isdigit() else 1
    names = sorted(times, key=lambda name: -cpu_ns[name])
    return [Program(name, times[name], cpu_ns[name]) for name in names]


def program_line(profile: Profile, threads: list[ThreadInfo] | None = None) -> str:
    """Return the programs in one line; "" for a recording of one process."""
    found = programs(profile, threads)
    shown = [
        f"{each.name or '?'}{f' × {each.n_processes:,}' if each.n_processes > 1 else ''}"
        f" {duration(each.cpu_ns / 1e9)}"
        for each in found[:SHOWN]
    ]
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return f"{', '.join(shown)}{more}" if found else ""
