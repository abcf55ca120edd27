"""Has a target a /proc, and is it its own?

The agent lists the target's threads there, by what the target sees; Frida's first steps read
/proc/self/auxv. chroot(2), pid_namespaces(7).
"""

from __future__ import annotations

import contextlib
import os

from ..errors import CannotAttachError
from ..linux import procfs
from .finding import Finding, Severity, Target


def check_own_procfs(name: str, target: Target) -> Finding:
    """Refuse a target whose root has no /proc, or one that does not list the target under the pid
    that it has in its pid namespace.

    The latter happens in a pid namespace without a /proc of its own: the threads of another process
    would be found there.
    """
    root = f"{target.proc}/{target.pid}/root"
    own_pid = target.status.own_pid
    if not _has_procfs(root):
        raise CannotAttachError(
            f"{target.subject} has a root of its own without /proc, which the attach needs",
            "mount proc there, in its mount and pid namespaces",
        )
    if own_pid != target.pid:
        with contextlib.suppress(OSError):
            if procfs.read_start_ticks(own_pid, f"{root}/proc") != procfs.read_start_ticks(
                target.pid, target.proc
            ):
                raise CannotAttachError(
                    f"{target.subject} is in a pid namespace without a /proc of its own: its "
                    "threads could not be found",
                    "mount /proc in that namespace: unshare --mount-proc instead of unshare --pid",
                )
    return Finding(name, Severity.OK, "its /proc is its own")


def _has_procfs(root: str) -> bool:
    """False only for a root that can be looked into, and has none."""
    try:
        os.lstat(f"{root}/proc/self")
    except FileNotFoundError:
        return not os.path.isdir(f"{root}/")
    except OSError:
        pass
    return True
