"""Check before an attach whether the target may start the agent's threads, and name the remedy.

The kernel counts threads as processes. It refuses a new one (EAGAIN) if the machine, a control
group or the user has reached a limit. If the agent cannot start a thread, the target aborts. Some
programs forbid themselves new processes, and thereby new threads, by RLIMIT_NPROC 0: haproxy's
workers do. Only root's processes, and those with CAP_SYS_RESOURCE or CAP_SYS_ADMIN, are exempt
from that limit (kernel/fork.c, copy_process).

Another process can raise a limit of a running process (prlimit(2)). Its user may raise it up to
the hard limit. Beyond that, and for another user's process, CAP_SYS_RESOURCE is needed: root has it
on the machine itself, but not always in a container.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..errors import CannotAttachError
from ..linux import procfs
from ..linux.procfs import CAP_SYS_ADMIN, CAP_SYS_RESOURCE, ProcessStatus
from . import permissions
from .finding import Finding, Severity, Target

# By whether the way in is the direct one. We start one thread; Frida up to 8 more, and its failed
# clone aborts the target.
REQUIRED_SPARE_TASKS = {True: 1, False: 10}
# The remedy asks for this many: the user's other programs may start threads meanwhile.
COMFORTABLE_SPARE_TASKS = 32


class TaskLimitKind(Enum):
    """The scope of a limit on tasks."""

    MACHINE = "machine"
    GROUP = "control group"
    USER = "user"


@dataclass(frozen=True)
class TaskLimit:
    """A limit on the number of tasks (threads of any process), and how many exist."""

    name: str  # the name of the limit in messages
    limit: int
    used: int
    kind: TaskLimitKind
    hard_limit: int | None = None  # RLIMIT_NPROC: how far its user may raise it; None: no limit

    @property
    def spare(self) -> int:
        """How many more tasks may be started."""
        return max(0, self.limit - self.used)


def check_spare_tasks(name: str, target: Target) -> Finding:
    """Refuse a process that cannot start the agent's threads; see ``checks``."""
    least: TaskLimit | None = None
    for limit in _task_limits(target.pid, target.status, target.proc):
        if least is None or limit.spare < least.spare:
            least = limit
    required = REQUIRED_SPARE_TASKS[target.is_direct]
    if least is None or least.spare >= required:
        return Finding(name, Severity.OK, "its limits allow the agent's threads")
    raise CannotAttachError(
        f"{target.subject} cannot start {required} more threads: {least.name} is "
        f"{least.limit}, {least.used} in use",
        _remedy(least, target),
    )


def _remedy(limit: TaskLimit, target: Target) -> str:
    if limit.kind is TaskLimitKind.GROUP:
        return "raise that limit (docker update --pids-limit, TasksMax=), or end other threads"
    if limit.kind is TaskLimitKind.MACHINE:
        wanted = limit.used + COMFORTABLE_SPARE_TASKS
        return f"raise that limit: sysctl {limit.name}={wanted}; or end other threads"
    remedy = f"raise that limit while it runs: {_prlimit(limit, target)}"
    if limit.limit == 0 and target.status.name == "haproxy":
        remedy += "; or restart it with insecure-fork-wanted in the global section of its settings"
    return remedy


def _prlimit(limit: TaskLimit, target: Target) -> str:
    """Return the command that raises RLIMIT_NPROC of a running process, and who may run it."""
    wanted = limit.used + COMFORTABLE_SPARE_TASKS
    ours = procfs.read_status(os.getpid(), target.proc)
    is_weak_root = ours.uids[1] == 0 and not ours.capabilities_effective & (1 << CAP_SYS_RESOURCE)
    if limit.hard_limit is None or limit.hard_limit >= wanted:
        owner = permissions.user_name(target.status.uids[0])
        who = f"as {owner}" if is_weak_root else f"as {owner} or root"
        return f"prlimit --pid {target.pid} --nproc={wanted}: ({who})"
    who = "as root"
    if is_weak_root:
        who += "; needs CAP_SYS_RESOURCE, which we lack: run it outside this container"
    return f"prlimit --pid {target.pid} --nproc={wanted} ({who})"


def _task_limits(pid: int, status: ProcessStatus, proc: str) -> Iterator[TaskLimit]:
    """Yield every limit on new threads of the process: kernel, control groups, user."""
    total = _tasks_total(proc)
    for name in ("threads-max", "pid_max"):
        limit = _read_int(f"{proc}/sys/kernel/{name}")
        yield TaskLimit(f"kernel.{name}", limit, total, TaskLimitKind.MACHINE)
    for folder in procfs.control_group_folders(pid, "pids", proc):
        pids_max = procfs.read_group_number(f"{folder}/pids.max")
        used = procfs.read_group_number(f"{folder}/pids.current")
        if pids_max is not None and used is not None:
            name = f"pids.max of control group {folder}"
            yield TaskLimit(name, pids_max, used, TaskLimitKind.GROUP)
    nproc, hard_limit = procfs.read_limits(pid, "Max processes", proc)
    exempt = (1 << CAP_SYS_RESOURCE) | (1 << CAP_SYS_ADMIN)
    if nproc is None or status.uids[0] == 0 or status.capabilities_effective & exempt:
        return  # exempt from the limit: kernel/fork.c
    name = f"RLIMIT_NPROC of user {status.uids[0]}"
    # To count a user's threads, we would read every process. The number of all tasks is already
    # known, and an upper bound.
    used = total if nproc - total >= 64 else _tasks_of_user(status.uids[0], proc)
    yield TaskLimit(name, nproc, used, TaskLimitKind.USER, hard_limit)


def _read_int(path: str) -> int:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return 1 << 62  # this kernel has no such limit


def _tasks_total(proc: str) -> int:
    try:
        return int(Path(proc, "loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _tasks_of_user(uid: int, proc: str) -> int:
    count = 0
    for pid in procfs.list_pids(proc):
        try:
            status = procfs.read_status(pid, proc)
        except procfs.GONE:
            continue
        if status.uids[0] == uid:
            count += status.threads
    return count
