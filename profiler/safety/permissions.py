"""Explain why the kernel does not let us trace a process, and how to get the missing right.

The kernel reports only "permission denied". ``explain`` tests the possible reasons in the kernel's
order, on facts that ``gather`` has read. It does not decide whether an attach would work;
``may_attach`` does.

Source: ptrace(2) "Ptrace access mode checking", kernel/ptrace.c, security/yama/yama_lsm.c,
security/commoncap.c.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass

from ..errors import PermissionRefusedError
from ..linux import procfs, ptrace
from ..linux.procfs import CAP_DAC_OVERRIDE, CAP_SYS_PTRACE, ProcessStatus

# The test of procfs.may_trace, for another process.
TRY_TO_TRACE = """
import os, sys
try:
    os.open(sys.argv[1], os.O_RDONLY)
except PermissionError:
    sys.exit(1)
"""


@dataclass(frozen=True)
class Facts:
    """The facts that decide whether one process may trace another."""

    target: ProcessStatus
    ours: ProcessStatus
    yama_scope: int
    non_dumpable: bool
    same_user_namespace: bool | None  # None if it cannot be read
    is_descendant: bool  # the target descends from our process


def gather(target: ProcessStatus, proc: str = procfs.PROC) -> Facts:
    """Read the facts about a process that we may not trace."""
    ours = procfs.read_status(os.getpid(), proc)
    return Facts(
        target=target,
        ours=ours,
        yama_scope=procfs.read_yama_scope(proc),
        non_dumpable=procfs.is_non_dumpable(target.pid, target, proc),
        same_user_namespace=procfs.same_namespace(target.pid, "user", proc),
        is_descendant=_is_descendant(target, ours.pid, proc),
    )


def may_attach(target: ProcessStatus, proc: str = procfs.PROC) -> bool:
    """Return True if the kernel lets the process that attaches, our child, trace the target now.

    It may trace what we may trace, with one exception. Under Yama's ptrace_scope 1 we may trace our
    own children, but one child may not trace another, unless the target has named one of us as its
    tracer (PR_SET_PTRACER(2const)).
    """
    if not procfs.may_trace(target.pid, proc):
        return False
    ours = procfs.read_status(os.getpid(), proc)
    if procfs.read_yama_scope(proc) != 1 or ours.capabilities_effective & (1 << CAP_SYS_PTRACE):
        return True
    command = [sys.executable or "python3", "-I", "-S", "-c", TRY_TO_TRACE]
    return subprocess.run([*command, f"{proc}/{target.pid}/mem"], check=False).returncode == 0


def user_name(uid: int) -> str:
    """Return the name of a user; ``uid N`` if the user database has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def explain(facts: Facts, subject: str) -> PermissionRefusedError:
    """Find the missing right and return the error to show, with its remedy.

    Args:
        facts: from ``gather``.
        subject: the name of the process in the message, such as ``process 12 (nginx)``.
    """
    target, ours = facts.target, facts.ours
    can_trace_anyone = bool(ours.capabilities_effective & (1 << CAP_SYS_PTRACE))
    if not can_trace_anyone and ours.uids[1] == 0:
        return PermissionRefusedError(
            f"cannot attach to {subject}: we are root, but lack CAP_SYS_PTRACE, as in a container",
            "start the container with --cap-add=SYS_PTRACE (Kubernetes: "
            "securityContext.capabilities.add), or run flametap on its host",
        )
    if not can_trace_anyone:
        owner, us = user_name(target.uids[0]), user_name(ours.uids[1])
        if {*target.uids[:3]} != {ours.uids[3]}:
            return PermissionRefusedError(
                f"cannot attach to {subject}: it belongs to {owner}, and we run as {us}",
                f"run flametap as {owner} or as root: sudo flametap {target.pid}"
                if owner != "root"
                else f"run flametap as root: sudo flametap {target.pid}",
            )
        root_hint = f"run flametap as root: sudo flametap {target.pid}"
        if {*target.gids[:3]} != {ours.gids[3]}:
            return PermissionRefusedError(
                f"cannot attach to {subject}: it runs with another group than we do", root_hint
            )
        if target.capabilities_permitted & ~ours.capabilities_permitted:
            return PermissionRefusedError(
                f"cannot attach to {subject}: it holds capabilities that we lack", root_hint
            )
        if facts.non_dumpable:
            return PermissionRefusedError(
                f"cannot attach to {subject}: it hides its memory from its own user (not dumpable)",
                root_hint,
            )
        if facts.same_user_namespace is False:
            return PermissionRefusedError(
                f"cannot attach to {subject}: it is in another user namespace", root_hint
            )
        if facts.yama_scope == 1 and facts.is_descendant:
            return PermissionRefusedError(
                f"cannot attach to {subject}: kernel.yama.ptrace_scope is 1: only parents may, and "
                "the attach is made by a process that we start",
                f"have it call prctl(PR_SET_PTRACER, {ours.pid}), start it with `flametap record "
                "-- CMD`, or run as root",
            )
        if facts.yama_scope == 1:
            return PermissionRefusedError(
                f"cannot attach to {subject}: kernel.yama.ptrace_scope is 1: only parents may",
                f"run as root (sudo flametap {target.pid}), or allow it until the next boot: "
                "sudo sysctl kernel.yama.ptrace_scope=0",
            )
        if facts.yama_scope == 2:
            return PermissionRefusedError(
                f"cannot attach to {subject}: kernel.yama.ptrace_scope is 2: only root may",
                root_hint,
            )
    if facts.yama_scope == 3:
        return PermissionRefusedError(
            f"cannot attach to {subject}: kernel.yama.ptrace_scope is 3: nobody may",
            "it cannot be lowered while the system runs: set it in /etc/sysctl.d and reboot",
        )
    if facts.same_user_namespace is not True:
        return PermissionRefusedError(
            f"cannot attach to {subject}: it is outside our container's user namespace",
            "run flametap on the host, or in the process's own container",
        )
    is_owner = target.uids[1] == ours.uids[3]
    if not is_owner and not ours.capabilities_effective & (1 << CAP_DAC_OVERRIDE):
        owner = user_name(target.uids[1])
        return PermissionRefusedError(
            f"cannot attach to {subject}: it belongs to {owner}, and CAP_SYS_PTRACE alone does not"
            " open its memory",
            f"add CAP_DAC_OVERRIDE (--cap-add=DAC_OVERRIDE), or run flametap as {owner}",
        )
    return PermissionRefusedError(
        f"cannot attach to {subject}: a security module (AppArmor, SELinux …) forbids it",
        "see `dmesg` or the audit log for the rule; run flametap outside that confinement",
    )


def ptrace_is_filtered() -> bool:
    """Return True if our own seccomp filter forbids ptrace (older container runtimes)."""
    nobody = 0x7FFF_FFFF  # above any pid_max: the kernel returns ESRCH
    ptrace.ptrace(ptrace.PTRACE_DETACH, nobody, None, None)
    return ctypes.get_errno() != errno.ESRCH


def _is_descendant(target: ProcessStatus, ancestor: int, proc: str) -> bool:
    parent = target.parent
    while parent > 1:
        if parent == ancestor:
            return True
        try:
            parent = procfs.read_status(parent, proc).parent
        except procfs.GONE:
            return False
    return False
