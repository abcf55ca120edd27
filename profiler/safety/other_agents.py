"""Whether somebody else is at work in a process: another flametap, or another tool that uses Frida.

Of two agents of Frida's the first to leave takes the process along. Remains of one do no harm: a
forked child has its parent's mappings, but not its threads.
"""

from __future__ import annotations

import array
import contextlib
import os
from collections.abc import Iterator

from ..errors import CannotAttachError
from ..inject.frida_footprint import AGENT_NAME
from ..linux import procfs, tasks
from .finding import Finding, Severity, Target

# A thread of Frida's agent waits in libc, called by the agent: its return address lies within that
# many bytes of the stack pointer (tried on 17.26: 0 and 72).
STACK_BYTES = 512


def check_other_agent(name: str, target: Target) -> Finding:
    """The check that stands before an attach; see ``checks``."""
    if any("flametap-ring" in mapping.path for mapping in target.mappings()):
        first = next(_users_of_ring(target), None)
        if first is not None:
            raise CannotAttachError(
                f"{target.subject} is already recorded by flametap (process {first})",
                f"wait for its end, or end it: kill -INT {first}",
            )
    if any(AGENT_NAME in mapping.path for mapping in target.mappings()):
        message = f"{target.subject} already holds a Frida agent: another flametap or Frida tool"
        hint = "end that one first: of two, the first to leave takes the process along"
        if _is_at_work(target):
            return Finding(
                name,
                Severity.REFUSAL,
                message,
                f"{hint}; if it never leaves: --force",
                CannotAttachError(message, f"{hint}; if it never leaves: --force"),
                can_be_forced=True,
            )
        return Finding(name, Severity.WARNING, message, hint)
    return Finding(name, Severity.OK, "no other Frida agent")


def _is_at_work(target: Target) -> bool:
    """Has the process a thread of Frida's? Newer agents give theirs no names, so it is told from
    where their stacks return to.
    """
    code = [
        range(mapping.start, mapping.end)
        for mapping in target.mappings()
        if AGENT_NAME in mapping.path and "x" in mapping.permissions
    ]
    # The main thread is never one of theirs, and in a forked child has what its parent left there.
    for tid in set(procfs.list_tasks(target.pid, target.proc)) - {target.pid}:
        with contextlib.suppress(OSError):  # gone, or not ours to look at
            if procfs.read_task_name(target.pid, tid, target.proc) == "gum-js-loop":
                return True
            top = _top_of_stack(target, tid)
            if any(word in part for word in top for part in code):
                return True
    return False


def _top_of_stack(target: Target, tid: int) -> array.array[int]:
    """The words above the stack pointer of a thread that waits; none of one that runs."""
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
    """The processes that have mapped the ring of the agent in the target: its host."""

    def rings(pid: int) -> set[int]:
        mappings = procfs.read_mappings(pid, target.proc)
        # A forked child of the target has its parent's, but its parent's agent, too.
        if pid != target.pid and any(AGENT_NAME in mapping.path for mapping in mappings):
            return set()
        return {mapping.inode for mapping in mappings if "flametap-ring" in mapping.path}

    wanted = rings(target.pid)
    for pid in procfs.list_pids(target.proc):
        with contextlib.suppress(OSError):  # gone, or not ours to look at
            if pid != target.pid and rings(pid) & wanted:
                yield pid
