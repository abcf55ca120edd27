"""Is anything of Frida's still at work in a process? Told from ``/proc`` alone.

Threads are not counted: those that came since may be the target's own.
"""

from __future__ import annotations

from ...linux import procfs
from ...linux.maps import read_maps

AGENT_NAME = "frida-agent"
# Frida's loader in the target: 8 KiB of code and a stack of 64 KiB (frida-core, linux, 17.26).
LOADER_BYTES = 72 << 10
# An anonymous rwx mapping of this size stays of each attach. Those of several may be one mapping.
BOOTSTRAP_BYTES = 28 << 10
BOOTSTRAPS_MAX = 8


class Presence:
    """What of the kind was there before an attach: a forked child keeps its parent's mappings, and
    a killed host leaves a loader behind.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._before = _count(pid)
        except procfs.GONE:
            self._before = (0, 0)

    def has_left(self) -> bool:
        """True when there is no more of it than before, and no tracer; also when the process has
        gone.
        """
        try:
            agents, loaders = _count(self._pid)
        except procfs.GONE:
            return True
        return agents <= self._before[0] and loaders <= self._before[1] and not is_traced(self._pid)

    def is_loader_left(self) -> bool:
        """True when nothing of it is at work any more, but the memory of a loader is left."""
        try:
            agents, loaders = _count(self._pid)
        except procfs.GONE:
            return False
        return agents <= self._before[0] and loaders > self._before[1] and not is_traced(self._pid)

    def has_agent(self) -> bool:
        """True while Frida's agent is mapped once more than before."""
        try:
            return _count(self._pid)[0] > self._before[0]
        except procfs.GONE:
            return False


def is_traced(pid: int) -> bool:
    """Has the process a tracer (ptrace(2))? False when it has gone."""
    try:
        return procfs.read_status(pid).tracer != 0
    except procfs.GONE:
        return False


def is_left_by_frida(size_bytes: int) -> bool:
    """Is an anonymous rwx mapping of this size what attaches have left? Nobody executes it."""
    left = [LOADER_BYTES, *(BOOTSTRAP_BYTES * count for count in range(1, BOOTSTRAPS_MAX + 1))]
    return size_bytes in left


def loaders(pid: int) -> list[int]:
    """Where anonymous mappings begin that look like those of Frida's loader."""
    return _look(pid)[1]


def _count(pid: int) -> tuple[int, int]:
    """Mappings of Frida's agent, and anonymous ones that look like its loader's."""
    agents, starts = _look(pid)
    return agents, len(starts)


def _look(pid: int) -> tuple[int, list[int]]:
    agents = 0
    starts = []
    for mapping in read_maps(f"/proc/{pid}"):
        if not mapping.path and mapping.permissions == "rwxp" and mapping.size == LOADER_BYTES:
            starts.append(mapping.start)
        agents += AGENT_NAME in mapping.path
    return agents, starts
