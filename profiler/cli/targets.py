"""Processes by name: ``flametap memcached`` instead of a process id.

A name matches a process by the kernel's name for it (comm), or by the file name of argv[0] or of
the executable. If no process has exactly that name, processes whose name contains it match. This
process, its descendants, kernel threads and processes that have ended never match.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..linux import procfs
from ..safety import permissions
from .containers import NONE, Containers, find_in_containers
from .option_values import parse_pid
from .options import pick_pid
from .progress import Progress
from .streams import print_message

MOST_LISTED = 10  # a longer list does not help to choose
LIST_THEM = "`flametap ps` lists the processes"


@dataclass(frozen=True)
class Named:
    """A process that matches a name."""

    pid: int
    user: str
    command: str  # its command line, in printable characters


@dataclass(frozen=True)
class Matches:
    """The processes that match a name, ordered by pid."""

    processes: Sequence[Named]
    is_exact: bool  # False: their names only contain the name

    def __bool__(self) -> bool:
        return bool(self.processes)


def is_name(text: str) -> bool:
    """Return True for a text that could name a process: not a number, a path or an option."""
    return bool(text.strip()) and "/" not in text and text[0] != "-" and not text.isdigit()


def find_processes(name: str, proc: str = procfs.PROC, own_pid: int | None = None) -> Matches:
    """Find the processes with a name. Case counts only for an exact match.

    Args:
        name: of a program.
        proc: the mount point of procfs.
        own_pid: process to leave out with all its descendants; None for this one.
    """
    processes = _Processes(proc)
    names = processes.names
    own_pid = os.getpid() if own_pid is None else own_pid
    others = [pid for pid in names if not _descends(pid, own_pid, processes.parents)]
    exact = [pid for pid in others if name in names[pid]]
    lower = name.lower()
    found = exact or [pid for pid in others if any(lower in each.lower() for each in names[pid])]
    matches = [_named(pid, processes.users[pid], proc) for pid in found]
    return Matches([named for named in matches if named], bool(exact))


class _Processes:
    """What runs: names, users and parents by pid. Of kernel threads and zombies, only parents."""

    def __init__(self, proc: str) -> None:
        self.names: dict[int, set[str]] = {}
        self.users: dict[int, int] = {}
        self.parents: dict[int, int] = {}
        for pid in procfs.list_pids(proc):
            try:
                status = procfs.read_status(pid, proc)
                self.parents[pid] = status.parent
                if status.state not in "ZX" and not procfs.is_kernel_thread(pid, proc):
                    self.names[pid] = {status.name, *_program_names(pid, proc)}
                    self.users[pid] = status.uids[0]
            except OSError:
                continue  # it has exited


def find_target(
    text: str | None, option: int | None, progress: Progress, if_none: str = LIST_THEM
) -> int:
    """Return the id of the process that the user named by its id, by ``-p`` or by its name.

    Args:
        text: the argument; None without one.
        option: the value of ``-p``.
        progress: prints which process a name stands for.
        if_none: the hint if no process has that name.

    Raises:
        UsageError: no process or several match, or two different ones are named.
    """
    if text is None or not is_name(text):
        return pick_pid(None if text is None else parse_pid(text), option)
    if option is not None:
        raise UsageError(f"two processes are named: {text} and {option}", "name one of them")
    found = find_processes(text).processes
    if not found:
        raise UsageError(f"'{text}' is not a process id, and no process has that name", if_none)
    return choose(text, found, progress)


def find_targets(
    words: Sequence[str],
    option: int | None,
    pattern: re.Pattern[str] | None,
    progress: Progress,
    if_none: str = LIST_THEM,
    containers: Containers = NONE,
) -> list[int]:
    """Return the ids of the processes that the user named; see ``find_target``.

    Args:
        words: ids and names, each of one process.
        option: the value of ``-p``.
        pattern: the value of ``--name``: all that match are meant.
        progress: prints which processes a name stands for.
        if_none: the hint if no process has that name.
        containers: whose first processes are meant.

    Raises:
        UsageError: no process matches, several match a name, or they are named in two ways.
        NoSuchProcessError: nothing runs in a container.
    """
    if containers:
        if words or option is not None or pattern is not None:
            raise UsageError("a container and a process are both named", "leave one of them out")
        return find_in_containers(containers, progress)
    if pattern is not None:
        if words or option is not None:
            raise UsageError(
                f"--name and {words[0] if words else f'-p {option}'} name processes in two ways",
                "leave one of them out",
            )
        return _matching(pattern, progress)
    if len(words) < 2:
        return [find_target(words[0] if words else None, option, progress, if_none)]
    if option is not None:
        raise UsageError(f"-p {option} stands beside {words[0]}", f"write {words[0]} {option} …")
    return list(dict.fromkeys(find_target(word, None, progress, if_none) for word in words))


def _matching(pattern: re.Pattern[str], progress: Progress) -> list[int]:
    found = find_matching(pattern)
    if not found:
        raise UsageError(
            f"no process has a name or a command line that matches '{pattern.pattern}'", LIST_THEM
        )
    for line in listing(found, None):
        progress.say(line)
    return [each.pid for each in found]


def find_matching(
    pattern: re.Pattern[str], proc: str = procfs.PROC, own_pid: int | None = None
) -> list[Named]:
    """Find the processes whose name or command line a regular expression matches, by pid.

    This process, those that it descends from (a shell, ``sudo``) and its descendants never match.
    See ``find_processes``.
    """
    processes = _Processes(proc)
    own_pid = os.getpid() if own_pid is None else own_pid
    return [
        named
        for pid in processes.names
        if not _descends(pid, own_pid, processes.parents)
        and not _descends(own_pid, pid, processes.parents)
        and (named := _named(pid, processes.users[pid], proc))
        and any(map(pattern.search, (named.command, *processes.names[pid])))
    ]


def choose(name: str, found: Sequence[Named], progress: Progress) -> int:
    """Return the id of the only process in ``found``.

    Raises:
        UsageError: there are several; they are listed on stderr.
    """
    if len(found) == 1:
        progress.say(f"{name} is process {found[0].pid}: {found[0].command}")
        return found[0].pid
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for line in listing(found, width):
        print_message(line)
    raise UsageError(
        f"{len(found)} processes match the name '{name}'",
        f"name one by its process id, or several: `flametap {found[0].pid} {found[1].pid}`",
    )


def listing(found: Sequence[Named], width: int | None) -> list[str]:
    """Format a list of processes: pid, user, command line; ten lines at most.

    Args:
        found: all.
        width: of a line in characters; None for no limit.
    """
    shown = found[:MOST_LISTED]
    user_width = max(len(each.user) for each in shown)
    lines = [f"{each.pid:>7}  {each.user:<{user_width}}  {each.command}" for each in shown]
    if len(found) > len(shown):
        lines.append(f"{'…':>7}  and {len(found) - len(shown)} more")
    return [line if width is None else shorten(line, width) for line in lines]


def shorten(text: str, width: int) -> str:
    """Return a text cut to at most ``width`` characters, with an ellipsis at the end."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _program_names(pid: int, proc: str) -> set[str]:
    """Return the file names of argv[0] and, if it can be read, of the executable."""
    names = set()
    with open(f"{proc}/{pid}/cmdline", "rb") as file:
        names.add(os.fsdecode(os.path.basename(file.read().partition(b"\0")[0])))
    try:
        program = os.readlink(f"{proc}/{pid}/exe").removesuffix(" (deleted)")
        names.add(os.path.basename(program))
    except OSError:
        pass  # of another user
    return names - {""}


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    seen = set()  # a reused pid can make a cycle
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
