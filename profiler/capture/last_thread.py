"""Tell when the last thread of the target has ended."""

from __future__ import annotations

from collections.abc import Iterable

from ..linux import procfs
from ..model import Thread


def only_agents_are_left(pid: int, threads: Iterable[Thread]) -> bool:
    """Return True if all threads of the target have ended, and only the agent's remain.

    glibc ends a process when its last thread ends, and the agent's threads count. A program whose
    main thread calls pthread_exit would therefore wait for our threads.

    Args:
        pid: the target.
        threads: all that have been recorded.
    """
    try:
        if procfs.read_task_state(pid, pid) != "Z":
            return False
    except procfs.GONE:
        return False
    return all(thread.exited for thread in threads if thread.tid != pid)
