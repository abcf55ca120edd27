"""The functions that flametap itself adds to stacks: threads, system calls, what has no stack."""

from __future__ import annotations

from ..linux.syscalls import LOCK, QUEUED, syscall_name
from ..model import FrameKind, Function, Thread
from ..recording.profile.stacks import TABLE_FULL, TRUNCATED, UNATTRIBUTED

UNATTRIBUTED_FUNCTION = Function("[unattributed]", "", kind=FrameKind.SYNTHETIC)
TABLE_FULL_FUNCTION = Function("[stack table full]", "", kind=FrameKind.SYNTHETIC)
TRUNCATED_FUNCTION = Function("[truncated]", "", kind=FrameKind.SYNTHETIC)
NO_PYTHON_FUNCTION = Function("[no Python frames]", "", kind=FrameKind.SYNTHETIC)
NO_JAVA_FUNCTION = Function("[no Java frames]", "", kind=FrameKind.SYNTHETIC)
NO_JAVASCRIPT_FUNCTION = Function("[no JavaScript frames]", "", kind=FrameKind.SYNTHETIC)
NO_RUBY_FUNCTION = Function("[no Ruby frames]", "", kind=FrameKind.SYNTHETIC)

SYNTHETIC = {
    UNATTRIBUTED: UNATTRIBUTED_FUNCTION,
    TABLE_FULL: TABLE_FULL_FUNCTION,
    TRUNCATED: TRUNCATED_FUNCTION,
}
"""Synthetic nodes of the trie → their functions."""


def syscall_function(sysno: int) -> Function:
    """Return the leaf frame of a thread that waits or runs in a system call."""
    kind = FrameKind.SYNTHETIC if sysno in (LOCK, QUEUED) else FrameKind.SYSCALL
    return Function(f"[{syscall_name(sysno)}]", "", kind=kind)


def thread_function(thread: Thread) -> Function:
    """Return the root frame of a thread.

    The kernel may reuse a tid, so the full name has our thread id, too.
    """
    name = f"{thread.name} ({thread.tid})"
    return Function(name, "", "", FrameKind.SYNTHETIC, f"{name}, thread {thread.thread_id}")
