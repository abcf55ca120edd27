"""Decide before an attach whether a process can be attached to without harm.

``check`` raises the first reason against it, with a message and a remedy. ``findings`` returns the
result of every check. The checks themselves are in ``checks``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import (
    CannotAttachError,
    FlametapError,
    NoSuchProcessError,
    PermissionRefusedError,
    UsageError,
)
from ..inject import ways
from ..inject.ways import AUTO
from ..linux import procfs
from . import checks, permissions
from .finding import Finding, Severity, Target


@dataclass(frozen=True)
class Preflight:
    """Facts about a process that can be attached to."""

    pid: int
    command: str
    user: str
    threads: int
    warnings: tuple[str, ...] = ()


def check(pid: int, *, force: bool = False, proc: str = procfs.PROC, way: str = AUTO) -> Preflight:
    """Check that a process can be attached to without harm, and return facts about it.

    Args:
        pid: the process.
        force: accept what may be a false alarm, such as a seccomp filter that cannot be read
            (``Finding.can_be_forced``).
        proc: where procfs is mounted.
        way: the way in that is asked for, of ``inject.ways``.

    Raises:
        UsageError: the pid is not positive.
        NoSuchProcessError: there is no such process, or it has ended during the checks.
        PermissionRefusedError: a right is missing.
        CannotAttachError: the attach would fail or do harm.
    """
    warnings = []
    for finding in findings(pid, proc=proc, way=way):
        forced = force and finding.can_be_forced
        if finding.error is not None and not forced:
            raise finding.error
        if finding.severity is not Severity.OK:
            warnings.append(finding.message)
    try:
        target = Target(pid, proc)
    except procfs.GONE as error:
        raise _gone(pid) from error
    return Preflight(
        pid=pid,
        command=target.command,
        user=permissions.user_name(target.status.uids[0]),
        threads=target.status.threads,
        warnings=tuple(warnings),
    )


def findings(
    pid: int, *, proc: str = procfs.PROC, quick: bool = False, way: str = AUTO
) -> Iterator[Finding]:
    """Run every check in the order of ``checks.CHECKS``, and yield the findings.

    A refusal that makes the remaining checks pointless (no such process, no right to read it) ends
    the list.

    Args:
        pid: the process.
        proc: where procfs is mounted.
        quick: leave out checks that can take more than a millisecond (for lists of all processes).
        way: the way in that is asked for, of ``inject.ways``.
    """
    try:
        target = _find(pid, proc)
        if proc == procfs.PROC:
            target.is_direct, target.fallback_reason = ways.chosen(pid, way)
        for name, look, is_final in checks.CHECKS:
            if quick and look in checks.SLOW_CHECKS:
                continue
            try:
                finding = look(name, target)
            except (CannotAttachError, PermissionRefusedError) as error:
                finding = Finding(name, Severity.REFUSAL, error.message, error.hint, error)
            yield finding
            if is_final and finding.severity is Severity.REFUSAL:
                return
    except procfs.GONE:
        yield _final(_ended(pid, proc))
    except PermissionError:
        # The process changed its user between two checks.
        yield _final(PermissionRefusedError(f"cannot attach to process {pid}: access denied"))
    except (UsageError, NoSuchProcessError, PermissionRefusedError) as refused:
        yield _final(refused)


def _final(error: FlametapError) -> Finding:
    return Finding("process", Severity.REFUSAL, error.message, error.hint, error)


def _find(pid: int, proc: str) -> Target:
    if pid <= 0:
        raise UsageError(f"{pid} is not a process id", "`flametap ps` lists the processes")
    try:
        target = Target(pid, proc)
    except procfs.GONE:
        raise _missing(pid, proc) from None
    if target.status.thread_group != pid:
        raise NoSuchProcessError(
            f"{pid} is a thread of process {target.status.thread_group}, not a process",
            f"attach to the whole process: flametap {target.status.thread_group}",
        )
    return target


def _missing(pid: int, proc: str) -> FlametapError:
    try:
        if proc == procfs.PROC:
            os.kill(pid, 0)
    except PermissionError:
        return PermissionRefusedError(
            f"process {pid} is hidden from us (/proc is mounted with hidepid)",
            f"run flametap as root: sudo flametap {pid}",
        )
    except (ProcessLookupError, OverflowError):
        pass
    return NoSuchProcessError(
        f"there is no process {pid}", "`flametap ps` lists the processes that can be attached to"
    )


def _ended(pid: int, proc: str) -> FlametapError:
    """Return the reason why the files of a process in /proc have just become unreadable.

    Either the process has ended, or only its main thread.
    """
    with contextlib.suppress(*procfs.GONE, NoSuchProcessError):
        try:
            checks.check_zombie("zombie", _find(pid, proc))
        except CannotAttachError as error:
            return error
    return _gone(pid)


def _gone(pid: int) -> NoSuchProcessError:
    return NoSuchProcessError(
        f"process {pid} has exited", "`flametap ps` lists the processes that can be attached to"
    )
