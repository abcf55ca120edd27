"""Check single conditions before an attach: one function and one message for each.

A check only reads ``/proc``, so the target does not notice it. The exception are seccomp filters:
to read them, we stop the threads that have one (``seccomp_filters``). A check returns a finding, or
raises the error that refuses the attach. ``preflight`` runs the checks in the order of ``CHECKS``.

stopped               no thread could run the agent's first steps
already traced        the kernel allows one tracer
no /proc of its own   the agent would look for threads of another process
seccomp, strict mode  the first system call of the agent kills the process
seccomp filter        evaluated for each system call that an attach makes (``seccomp``)
no spare tasks        our thread could not be made; Frida's would abort the process
no spare mappings     the same for memory
no spare memory       the kernel kills the largest process of the control group
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ..errors import CannotAttachError, PermissionRefusedError
from ..linux import procfs, seccomp, seccomp_filters
from ..linux.tasks import is_of_kernel
from . import permissions
from .finding import Finding, Severity, Target
from .other_agents import check_other_agent
from .own_procfs import check_own_procfs
from .program_check import check_program
from .spare_memory import check_spare_memory
from .spare_tasks import check_spare_tasks

# Frida opens up to 14 at a time. With fewer, its agent stays in the target without a connection.
REQUIRED_SPARE_DESCRIPTORS = 24
# Enough for the agent, and for 8 thread stacks of Frida's: with less GLib aborts the process.
REQUIRED_SPARE_BYTES = {True: 96 << 20, False: 256 << 20}  # by whether the way in is the direct one
# An attach takes 13, by Frida some 90.
REQUIRED_SPARE_MAPPINGS = {True: 64, False: 256}

# Uninterruptible sleep (state "D") mostly ends soon: a disk read, a vfork.
UNINTERRUPTIBLE_WAIT_S = 0.5
# Read the own filters of at most this many threads besides the main thread: reading stops a thread.
FILTERED_THREADS_MAX = 64


def _check_self(name: str, target: Target) -> Finding:
    if target.pid == os.getpid():
        raise CannotAttachError(
            f"process {target.pid} is flametap itself", "name the process to be profiled"
        )
    return Finding(name, Severity.OK, f"process {target.pid}: {target.command[:100]}")


def _check_kernel_thread(name: str, target: Target) -> Finding:
    if procfs.is_kernel_thread(target.pid, target.proc):
        raise CannotAttachError(
            f"{target.subject} is a kernel thread: it runs no program",
            "profile the kernel with perf: perf top",
        )
    return Finding(name, Severity.OK, "a user process")


def check_zombie(name: str, target: Target) -> Finding:
    """Refuse a process that has exited, or whose main thread has."""
    status = target.status
    if status.state in "ZX":
        if status.threads > 1:
            raise CannotAttachError(
                f"the main thread of {target.subject} has ended, and an attach needs it",
                "restart the program under flametap: flametap record -o FILE -- COMMAND",
            )
        raise CannotAttachError(
            f"{target.subject} is a zombie: it has exited, and its parent {status.parent} has not "
            "reaped it yet",
            "nothing is left to profile",
        )
    return Finding(name, Severity.OK, "alive")


def _check_tracer(name: str, target: Target) -> Finding:
    tracer = target.status.tracer
    if tracer:
        try:
            who = f"{procfs.read_status(tracer, target.proc).name} (process {tracer})"
        except procfs.GONE:
            who = f"process {tracer}"
        raise CannotAttachError(
            f"{target.subject} is already traced by {who}; the kernel allows one tracer",
            "end the debugger or tracer, or detach it, and try again",
        )
    return Finding(name, Severity.OK, "not traced by a debugger")


def _check_state(name: str, target: Target) -> Finding:
    state = target.status.state
    if state in "Tt":
        raise CannotAttachError(
            f"{target.subject} is stopped; attaching would make it run",
            f"continue it first: kill -CONT {target.pid}",
        )
    deadline = time.monotonic() + UNINTERRUPTIBLE_WAIT_S
    while state == "D" and not target.is_direct:  # it may be any other thread that is stopped
        if time.monotonic() > deadline:
            raise CannotAttachError(
                f"{target.subject} is in uninterruptible sleep (state D); an attach would hang",
                f"wait for the disk, the network file system or its vfork child; see "
                f"/proc/{target.pid}/wchan",
            )
        time.sleep(0.01)
        state = procfs.read_status(target.pid, target.proc).state
    return Finding(name, Severity.OK, "running or asleep, not stopped")


def _check_frozen(name: str, target: Target) -> Finding:
    if procfs.is_frozen(target.pid, target.proc):
        raise CannotAttachError(
            f"{target.subject} is frozen by its control group (a paused container?)",
            "thaw it first: docker unpause, systemctl thaw, or 0 to cgroup.freeze",
        )
    return Finding(name, Severity.OK, "not frozen by a control group")


def _check_permission(name: str, target: Target) -> Finding:
    if not permissions.may_attach(target.status, target.proc):
        raise permissions.explain(permissions.gather(target.status, target.proc), target.subject)
    if procfs.read_status(os.getpid(), target.proc).seccomp and permissions.ptrace_is_filtered():
        raise PermissionRefusedError(
            f"cannot attach to {target.subject}: a seccomp filter around us forbids ptrace",
            "start the container with --cap-add=SYS_PTRACE or --security-opt seccomp=unconfined",
        )
    return Finding(name, Severity.OK, "the kernel allows us to trace it")


def _check_way(name: str, target: Target) -> Finding:
    if target.is_direct:
        return Finding(name, Severity.OK, "direct: one thread is stopped once, for 0.1 ms")
    if not target.fallback_reason:
        return Finding(name, Severity.OK, "frida, as asked for")
    return Finding(
        name,
        Severity.WARNING,
        f"frida, which stops the main thread for 0.1 s and more: {target.fallback_reason}",
    )


def _check_seccomp(name: str, target: Target) -> Finding:
    counts: dict[int, int] = {}  # thread → number of its filters
    for tid in [target.pid, *procfs.list_tasks(target.pid, target.proc)]:
        try:
            mode, filters_count = procfs.read_task_seccomp(target.pid, tid, target.proc)
        except procfs.GONE:
            continue
        if mode == procfs.SECCOMP_STRICT:
            raise CannotAttachError(
                f"{target.subject} is in strict seccomp mode; the agent's first system call would "
                "kill it",
                "attach before it enters that mode: flametap record -o FILE -- COMMAND",
            )
        counts[tid] = filters_count
    if not any(counts.values()):
        return Finding(name, Severity.OK, "no seccomp filter")
    # Reading filters stops a thread. A thread with as many filters as the main thread has the same
    # ones, so we skip it.
    inherited = counts.get(target.pid, 0)
    own = [
        tid
        for tid, count in counts.items()
        if count not in (0, inherited) and not is_of_kernel(target.pid, tid, target.proc)
    ]
    # The pids of another procfs are not valid for ptrace.
    is_real = target.proc == procfs.PROC
    missing: set[str] = set()
    for tid in [target.pid] * bool(inherited) + own[:FILTERED_THREADS_MAX]:
        programs = seccomp_filters.read_filters(tid, counts[tid]) if is_real else None
        if programs is None:
            return _unreadable_filter(name, target, max(counts.values()))
        decision = seccomp.decide(
            programs, is_main_thread=tid == target.pid, is_direct=target.is_direct
        )
        _refuse_filter(decision, target)
        missing.update(decision.missing)
    if missing:
        return Finding(
            name, Severity.WARNING, f"under {target.subject}'s seccomp filter " + "; ".join(missing)
        )
    return Finding(name, Severity.OK, "its seccomp filter allows what the agent does")


def _refuse_filter(decision: seccomp.Decision, target: Target) -> None:
    """Refuse a filter that would kill the target, or forbids a call that the agent needs."""
    if decision.deadly:
        raise CannotAttachError(
            f"{target.subject} runs under a seccomp filter that would kill it: the agent calls "
            + seccomp.describe(decision.deadly),
            "allow these calls (SystemCallFilter=, docker --security-opt seccomp=FILE)",
        )
    if decision.failing:
        raise CannotAttachError(
            f"{target.subject} runs under a seccomp filter that forbids what the agent needs: "
            + seccomp.describe(decision.failing),
            "allow these calls (SystemCallFilter=, docker --security-opt seccomp=FILE)",
        )


def _unreadable_filter(name: str, target: Target, filters_count: int) -> Finding:
    _, our_count = procfs.read_task_seccomp(os.getpid(), os.getpid())
    if filters_count <= our_count:
        # Most likely the filter of the container that we run in, too; it has not killed us.
        return Finding(
            name,
            Severity.WARNING,
            f"{target.subject} runs under a seccomp filter that cannot be read, but so do we",
        )
    message = (
        f"{target.subject} runs under a seccomp filter that cannot be read: if it forbids one of "
        "the agent's system calls, an attach may kill the process"
    )
    hint = "root outside of containers can read the filter; to accept the risk: --force"
    return Finding.unless_forced(name, message, hint)


def _check_limits(name: str, target: Target) -> Finding:
    is_direct = target.is_direct
    spare = procfs.spare_descriptors(target.pid, target.proc)
    if is_direct:  # in a table of its own
        spare, _ = procfs.read_limits(target.pid, "Max open files", target.proc)
    if spare is not None and spare < REQUIRED_SPARE_DESCRIPTORS:
        raise CannotAttachError(
            f"{target.subject} may open only {max(spare, 0)} {'' if is_direct else 'more '}files "
            f"(RLIMIT_NOFILE); the agent needs {REQUIRED_SPARE_DESCRIPTORS}",
            f"raise that limit: prlimit --pid {target.pid} --nofile=1024",
        )
    for spare_bytes, what, limit, option in (
        (procfs.spare_address_bytes(target.pid, target.proc), "memory", "RLIMIT_AS", "as"),
        (procfs.spare_data_bytes(target.pid, target.proc), "private memory", "RLIMIT_DATA", "data"),
    ):
        required_bytes = REQUIRED_SPARE_BYTES[is_direct]
        if spare_bytes is not None and spare_bytes < required_bytes:
            raise CannotAttachError(
                f"{target.subject} may map only {max(spare_bytes, 0) >> 20} MB more {what} "
                f"({limit}); the agent needs {required_bytes >> 20} MB of addresses",
                f"raise that limit: prlimit --pid {target.pid} --{option}=unlimited",
            )
    spare_mappings = procfs.spare_mappings(target.pid, target.proc)
    if spare_mappings is not None and spare_mappings < REQUIRED_SPARE_MAPPINGS[is_direct]:
        raise CannotAttachError(
            f"{target.subject} may have only {max(spare_mappings, 0)} more mappings "
            f"(vm.max_map_count); the agent needs {REQUIRED_SPARE_MAPPINGS[is_direct]}",
            "raise that limit: sysctl vm.max_map_count=262144",
        )
    return Finding(name, Severity.OK, "its limits allow the agent's files and memory")


# Name, function, and whether a refusal makes the remaining checks pointless.
CHECKS: list[tuple[str, Callable[[str, Target], Finding], bool]] = [
    ("process", _check_self, True),
    ("kernel thread", _check_kernel_thread, True),
    ("zombie", check_zombie, True),
    ("debugger", _check_tracer, False),
    ("frozen", _check_frozen, False),
    ("stopped", _check_state, False),
    ("permission", _check_permission, True),
    ("way in", _check_way, False),
    ("procfs", check_own_procfs, False),
    ("program", check_program, False),
    ("seccomp", _check_seccomp, False),
    ("spare threads", check_spare_tasks, False),
    ("spare memory", check_spare_memory, False),
    ("limits", _check_limits, False),
    ("other agents", check_other_agent, False),
]
# Each of these can take more than a millisecond, too long for a list of all processes.
SLOW_CHECKS = (_check_state, _check_frozen, _check_seccomp, check_spare_tasks, check_spare_memory)
