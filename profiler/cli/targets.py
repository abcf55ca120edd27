"""Processes by name: ``flametap memcached`` instead of a process id.

A name fits a process whose command name it is: the kernel's name for it (comm), or the file name of
argv[0] or of the executable. Where none has exactly that name, those whose name contains it fit.
This process and its children never do, nor kernel threads, nor processes that have ended.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from ..errors import UsageError
from ..linux import procfs
from ..safety import permissions
from .options import parse_pid, pick_pid
from .progress import Progress

MOST_LISTED = 10  # more do not help to choose
LIST_THEM = "`flametap ps` lists the processes"


@dataclass(frozen=True)
class Named:
    """A process that a name fits."""

    pid: int
    user: str
    command: str  # its command line, printable


@dataclass(frozen=True)
class Matches:
    """What a name fits, in the order of the pids."""

    processes: Sequence[Named]
    is_exact: bool  # False: their names only contain it

    def __bool__(self) -> bool:
        return bool(self.processes)


def is_name(text: str) -> bool:
    """True for a text that could name a process: no number, no path, no option."""
    return bool(text.strip()) and "/" not in text and text[0] != "-" and not text.isdigit()


def find_processes(name: str, proc: str = procfs.PROC, own_pid: int | None = None) -> Matches:
    """Find the processes of that name; capitals count only in an exact match.

    Args:
        name: of a program.
        proc: the folder of processes.
        own_pid: left out with all its descendants; ours when None.
    """
    names, parents, users = {}, {}, {}
    for pid in procfs.list_pids(proc):
        try:
            status = procfs.read_status(pid, proc)
            parents[pid] = status.parent
            if status.state not in "ZX" and not procfs.is_kernel_thread(pid, proc):
                names[pid] = {status.name, *_program_names(pid, proc)}
                users[pid] = status.uids[0]
        except OSError:
            continue  # gone meanwhile
    own_pid = os.getpid() if own_pid is None else own_pid
    others = [pid for pid in names if not _descends(pid, own_pid, parents)]
    exact = [pid for pid in others if name in names[pid]]
    lower = name.lower()
    found = exact or [pid for pid in others if any(lower in each.lower() for each in names[pid])]
    processes = [_named(pid, users[pid], proc) for pid in found]
    return Matches([named for named in processes if named], bool(exact))


def find_target(
    text: str | None, option: int | None, progress: Progress, if_none: str = LIST_THEM
) -> int:
    """The process that was named: by its id, by ``-p``, or by its command's name.

    Args:
        text: the argument; None without one.
        option: the value of ``-p``.
        progress: told which process a name stands for.
        if_none: the hint where no process has that name.

    Raises:
        UsageError: none or several fit, or two different ones are named.
    """
    if text is None or not is_name(text):
        return pick_pid(None if text is None else parse_pid(text), option)
    if option is not None:
        raise UsageError(f"two processes are named: {text} and {option}", "name one of them")
    found = find_processes(text).processes
    if not found:
        raise UsageError(f"'{text}' is not a process id, and no process has such a name", if_none)
    return choose(text, found, progress)


def choose(name: str, found: Sequence[Named], progress: Progress) -> int:
    """The only process that a name fits.

    Raises:
        UsageError: there are several; they have been listed on stderr.
    """
    if len(found) == 1:
        progress.say(f"{name} is process {found[0].pid}: {found[0].command}")
        return found[0].pid
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for line in listing(found, width):
        click.echo(line, err=True)
    raise UsageError(
        f"{len(found)} processes fit the name '{name}'",
        f"choose one by its process id, as in `flametap {found[0].pid}`",
    )


def listing(found: Sequence[Named], width: int | None) -> list[str]:
    """Lines that tell processes apart: pid, user, command line; ten at most.

    Args:
        found: all.
        width: in characters, of a line; None for as long as it is.
    """
    shown = found[:MOST_LISTED]
    user_width = max(len(each.user) for each in shown)
    lines = [f"{each.pid:>7}  {each.user:<{user_width}}  {each.command}" for each in shown]
    if len(found) > len(shown):
        lines.append(f"{'…':>7}  and {len(found) - len(shown)} more")
    return [line if width is None else shorten(line, width) for line in lines]


def shorten(text: str, width: int) -> str:
    """At most ``width`` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _program_names(pid: int, proc: str) -> set[str]:
    """The file names of argv[0] and of the executable, as far as they can be read."""
    names = set()
    with open(f"{proc}/{pid}/cmdline", "rb") as file:
        names.add(os.fsdecode(os.path.basename(file.read().partition(b"\0")[0])))
    try:
        program = os.readlink(f"{proc}/{pid}/exe").removesuffix(" (deleted)")
        names.add(os.path.basename(program))
    except OSError:
        pass  # another user's
    return names - {""}


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    seen = set()  # a parent may have gone meanwhile, and its number come again
    while pid in parents and pid not in seen:
        if pid == ancestor:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False


def _named(pid: int, uid: int, proc: str) -> Named | None:
    try:
        return Named(pid, permissions.user_name(uid), procfs.read_command(pid, proc))
    except OSError:
        return None
