"""Check before an attach whether there is memory for the agent, so that the kernel kills nobody.

A process in a control group with a limit (a container) often uses nearly all of it. When the limit
is reached, the kernel kills a process of the group, mostly the largest: the target. The same goes
for the whole machine. Pages of files count as free: the kernel takes them back first.

Source: Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.current, memory.stat,
memory.swap.max), cgroup-v1/memory.rst; proc(5) (meminfo).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..linux import procfs
from .finding import Finding, Severity, Target

# By whether the way in is the direct one. An attach takes 2 MiB of the target's group at once, by
# Frida 11; a recording of many threads 4 MiB more.
AGENT_BYTES = {True: 24 << 20, False: 48 << 20}
# flametap and its helper processes, with the names of a large program.
OWN_BYTES = 192 << 20
_RECLAIMED_FIRST = ("inactive_file", "active_file", "slab_reclaimable")
_MIB = 1 << 20


@dataclass(frozen=True)
class _Room:
    """How much memory may still be used until a limit is reached."""

    name: str  # of the limit, in messages
    spare_bytes: int
    agent_bytes: int  # what the agent may take of it
    is_ours: bool

    @property
    def needed_bytes(self) -> int:
        """How much an attach may take of it."""
        return self.agent_bytes + OWN_BYTES * self.is_ours

    @property
    def missing_bytes(self) -> int:
        """How much an attach may take beyond it."""
        return self.needed_bytes - self.spare_bytes


def check_spare_memory(name: str, target: Target) -> Finding:
    """Refuse a process where the agent, or flametap itself, may not find memory; see ``checks``."""
    rooms = _rooms(target.pid, target.proc, AGENT_BYTES[target.is_direct])
    least = max(rooms, key=lambda room: room.missing_bytes, default=None)
    if least is None or least.missing_bytes <= 0:
        return Finding(name, Severity.OK, "there is memory for the agent")
    victim = target.subject if least.agent_bytes else "flametap, with the target in its hands,"
    message = (
        f"{victim} may be killed by the kernel for want of memory: {least.name} has "
        f"{max(least.spare_bytes, 0) // _MIB} MiB left, and an attach may take "
        f"{least.needed_bytes // _MIB} MiB"
    )
    hint = "raise that limit"
    if least.is_ours and least.spare_bytes >= least.agent_bytes:
        hint += ", or run flametap outside of that group"
    hint += "; to accept the risk: --force"
    return Finding.unless_forced(name, message, hint)


def _rooms(pid: int, proc: str, agent_bytes: int) -> Iterator[_Room]:
    own = procfs.control_group_folders(os.getpid(), "memory", proc)
    targets = procfs.control_group_folders(pid, "memory", proc)
    memory = procfs.read_memory_info(proc)
    free_swap = memory.get("SwapFree", 0)
    for folder in dict.fromkeys((*targets, *own)):
        spare = _spare_v2(folder, free_swap)
        if spare is None:
            spare = _spare_v1(folder)
        if spare is not None:
            yield _Room(
                f"control group {folder}", spare, agent_bytes * (folder in targets), folder in own
            )
    if "MemAvailable" in memory:
        yield _Room("the machine", memory["MemAvailable"] + free_swap, agent_bytes, True)


def _spare_v2(folder: str, free_swap: int) -> int | None:
    names = ("max", "current", "swap.max", "swap.current")
    limit, used, swap_limit, swap_used = (
        procfs.read_group_number(f"{folder}/memory.{name}") for name in names
    )
    if limit is None or used is None:
        return None
    swap = free_swap if swap_limit is None else min(free_swap, swap_limit - (swap_used or 0))
    facts = _read_stat(f"{folder}/memory.stat")
    return limit - used + sum(facts.get(key, 0) for key in _RECLAIMED_FIRST) + max(swap, 0)


def _spare_v1(folder: str) -> int | None:
    limit = procfs.read_group_number(f"{folder}/memory.limit_in_bytes")
    used = procfs.read_group_number(f"{folder}/memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    facts = _read_stat(f"{folder}/memory.stat")
    return limit - used + sum(facts.get(f"total_{key}", 0) for key in _RECLAIMED_FIRST)


def _read_stat(path: str) -> dict[str, int]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
