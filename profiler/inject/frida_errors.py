"""Why an attach failed, and why a session ended, in our words instead of Frida's."""

from __future__ import annotations

import errno
import os

import frida

from ..errors import (
    AttachFailedError,
    CannotAttachError,
    FlametapError,
    NoSuchProcessError,
    PermissionRefusedError,
)
from ..linux import procfs

END_REASONS = {
    "process-terminated": "the target ended",
    "process-replaced": "the target replaced itself by another program (exec)",
    "connection-terminated": "the connection to the target was lost",
    "device-lost": "the device was lost",
}


def explain(error: Exception, pid: int) -> FlametapError:
    """Frida's error as one of ours."""
    if isinstance(error, FlametapError):
        return error
    reason = (str(error).splitlines() or [""])[0]  # after a crash registers follow
    is_over = has_ended(pid)
    if isinstance(error, frida.ProcessNotFoundError) and is_over:
        return NoSuchProcessError(f"process {pid} is gone", "see what runs: flametap ps")
    if is_over:
        return AttachFailedError(
            f"process {pid} ended while it was being attached to: {reason}",
            "what ended it is in its own output or exit status, or in dmesg",
        )
    if isinstance(error, frida.PermissionDeniedError):
        return PermissionRefusedError(
            f"no permission to attach to process {pid}: {reason}",
            "run as the same user or as root; flametap doctor PID tells what is missing",
        )
    if isinstance(error, frida.NotSupportedError | frida.InvalidArgumentError):
        return CannotAttachError(
            f"process {pid} cannot be attached to: {reason}",
            "flametap doctor PID lists what stands in the way",
        )
    return AttachFailedError(
        f"attaching to process {pid} failed: {reason}",
        "the target goes on; try again, or see flametap doctor PID",
    )


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
