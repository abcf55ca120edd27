"""Why an attach failed, and why a session ended, in our words instead of Frida's."""

from __future__ import annotations

import frida

from ...errors import (
    AttachFailedError,
    CannotAttachError,
    FlametapError,
    NoSuchProcessError,
    PermissionRefusedError,
)
from ..link.endings import has_ended
from .timed_call import NoAnswerError

# Of an attach that failed by chance: where threads end all the time, one in fifty does. Where 30
# busy threads share a CPU, one that Frida gave up after 10 s may be followed by one that succeeds.
REPEATS = 3
# What an attach ends with when a message was lost between Frida's two halves, or was late.
LOST_MESSAGE = (
    NoAnswerError,
    frida.TimedOutError,
    frida.TransportError,
    frida.ProcessNotRespondingError,
    frida.InvalidOperationError,
)
NO_AUXV = "auxv-not-found"  # Frida's bootstrapper


def repeats(error: Exception, pid: int) -> int:
    """How many times an attach that ended so is tried again: 0 where that would not help.

    Frida takes the end of a thread, just as it looks at the threads, for that of the process.
    """
    if isinstance(error, frida.ProcessNotFoundError):
        return 0 if has_ended(pid) else REPEATS
    return REPEATS if isinstance(error, LOST_MESSAGE) else 0


def _is_late(error: Exception) -> bool:
    """True for an attach that Frida gave up after 10 s, as on a CPU with many busy threads."""
    # "Unexpectedly timed out trying to sync up with agent"; Frida has two classes for time-outs.
    is_timeout = isinstance(error, frida.ProcessNotRespondingError) and "timed out" in str(error)
    return is_timeout or isinstance(error, frida.TimedOutError)


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
    if NO_AUXV in reason:
        return CannotAttachError(
            f"process {pid} may not read /proc/self/auxv, which the attach needs: a sandbox of its "
            "own (Landlock) forbids it",
            "allow it to read /proc; or record it with perf",
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
    if _is_late(error):
        return AttachFailedError(
            f"process {pid} was too slow to be attached to: {reason}",
            "the target continues; try again when its CPU is less busy, or let it use more CPUs "
            "(taskset -ap)",
        )
    return AttachFailedError(
        f"attaching to process {pid} failed: {reason}",
        "the target continues; try again, or see flametap doctor PID",
    )
