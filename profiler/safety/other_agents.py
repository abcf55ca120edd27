"""Detect another agent in a process: that of another flametap, or of another tool with Frida.

Two Frida agents cannot coexist: unloading the first one kills the process. Mappings of an agent
without its threads do no harm; a forked child inherits the mappings, but not the threads.
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
from collections.abc import Iterator

from ..errors import CannotAttachError
from ..inject.frida.footprint import AGENT_NAME
from ..linux import procfs, tasks
from .finding import Finding, Severity, Target

# A waiting thread of Frida's agent waits in libc. Its return address into the agent lies within
# this distance of the stack pointer (observed on 17.26: 0 and 72).
STACK_BYTES = 512
# A process with an agent has both. Its host has the ring alone.
_AGENTS_MEMORY = ("flametap-ring", "flametap-control")


def check_other_agent(name: str, target: Target) -> Finding:
    """Refuse a process with a running agent of flametap or Frida; see ``checks``."""
    if all(any(each in mapping.path for mapping in target.mappings()) for each in _AGENTS_MEMORY):
        first = next(_users_of_ring(target), None)
        if first is not None:
            raise CannotAttachError(
                f"{target.subject} is already recorded by flametap (process {first})",
                f"wait for its end, or end it: kill -INT {first}",
            )
    if not target.is_direct and any(AGENT_NAME in mapping.path for mapping in target.mappings()):
        message = f"{target.subject} already holds a Frida agent: another flametap or Frida tool"
        hint = "end that tool first: unloading one of two Frida agents kills the process"
        if _is_at_work(target):
            hint += "; if its agent is never unloaded: --force"
            return Finding.unless_forced(name, message, hint)
        return Finding(name, Severity.WARNING, message, hint)
    return Finding(name, Severity.OK, "no other agent")


def recorders_of(pid: int, proc: str = procfs.PROC) -> list[tuple[int, bool]]:
    """Return the flametaps that record a process, as far as we may see: their ids, and whether they
    save what they keep on SIGUSR1.
    """
    return [
        (each, _catches(each, signal.SIGUSR1, proc)) for each in _users_of_ring(Target(pid, proc))
    ]


def _catches(pid: int, number: signal.Signals, proc: str) -> bool:
    """Return whether a process has a handler for a signal."""
    with contextlib.suppress(OSError), open(f"{proc}/{pid}/status", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            if name == b"SigCgt":
                return bool(int(value, 16) >> (number - 1) & 1)
    return False


def _is_at_work(target: Target) -> bool:
    """Return True if the process has a thread of a Frida agent.

    Newer agents do not name their threads, so we look for a return address into the agent on each
    stack.
    """
    code = [
        range(mapping.start, mapping.end)
        for mapping in target.mappings()
        if AGENT_NAME in mapping.path and "x" in mapping.permissions
    ]
    # The main thread never belongs to Frida, and in a forked child its stack has old words of the
    # parent.
    for tid in set(procfs.list_tasks(target.pid, target.proc)) - {target.pid}:
        with contextlib.suppress(OSError):  # the thread has ended, or we may not read it
            if procfs.read_task_name(target.pid, tid, target.proc) == "gum-js-loop":
                return True
            top = _top_of_stack(target, tid)
            if any(word in part for word in top for part in code):
                return True
    return False


def _top_of_stack(target: Target, tid: int) -> array.array[int]:
    """Return the 8-byte words above the stack pointer of a waiting thread; empty for a running one.

    Raises:
        OSError: the thread has ended, or we may not read it.
    """
    call = tasks.read_call(target.pid, tid, target.proc)
    words = array.array("Q")
    if call is not None:
        fd = os.open(f"{target.proc}/{target.pid}/mem", os.O_RDONLY)
        try:
            data = os.pread(fd, STACK_BYTES, call.sp) if call.sp < 1 << 63 else b""
        finally:
            os.close(fd)
        words.frombytes(data[: len(data) // words.itemsize * words.itemsize])
    return words


def _users_of_ring(target: Target) -> Iterator[int]:
    """Yield the processes that have mapped the ring of the target's agent: its host."""

    def rings(pid: int) -> set[int]:
        mappings = procfs.read_mappings(pid, target.proc)
        # A forked child of the target inherits the mapping of the ring, but also that of the agent.
        if pid != target.pid and any(AGENT_NAME in mapping.path for mapping in mappings):
            return set()
        return {mapping.inode for mapping in mappings if "flametap-ring" in mapping.path}

    wanted = rings(target.pid)
    for pid in procfs.list_pids(target.proc):
        with contextlib.suppress(OSError):  # the process has ended, or we may not read it
            if pid != target.pid and rings(pid) & wanted:
                yield pid
