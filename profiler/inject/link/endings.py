"""Why a recording's agent ended, or could not begin, in words."""

from __future__ import annotations

import errno
import os

from ...errors import AttachFailedError
from ...linux import procfs

END_REASONS = {
    "process-terminated": "the target ended",
    "process-replaced": "the target replaced itself by another program (exec)",
    "connection-terminated": "the connection to the target was lost",
}


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended; it has also while its parent has not reaped it."""
    try:
        is_alone = procfs.list_tasks(pid) == [pid]
        return is_alone and procfs.read_task_state(pid, pid) in "ZX"
    except procfs.GONE:
        return True


def could_not_prepare(number: int, pid: int) -> AttachFailedError:
    """The errno with which the agent refused to prepare."""
    if number == errno.ECANCELED:
        return AttachFailedError(
            f"process {pid} has just put itself under a seccomp filter",
            "try again: filters that are there already are looked at first",
        )
    return AttachFailedError(
        f"the agent could not prepare: {os.strerror(number)}",
        "the target needs /proc, memfd_create and about 20 MB of memory",
    )
