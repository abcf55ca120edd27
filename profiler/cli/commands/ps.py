"""``flametap ps``: which processes can be attached to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from ...linux import procfs
from ...safety import permissions, preflight
from ...safety.finding import Finding, Severity
from ..interpreter import find_interpreters
from ..options import via_option_of_printing
from ..streams import print_json, print_line
from ..targets import shorten

LOOK_LIMIT_S = 1.0  # for each process


@dataclass(frozen=True)
class Row:
    """One process."""

    pid: int
    user: str
    threads: int
    attachable: bool
    reason: str  # why not, or a warning; "" for neither
    command: str
    runtime: str = ""  # "CPython 3.12.1", if its functions are shown


@click.command(short_help="List the processes that can be attached to.")
@via_option_of_printing
@click.option("-a", "--all", "show_all", is_flag=True, help="List kernel threads, too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, for programs.")
@click.argument("text", required=False)
def ps(show_all: bool, as_json: bool, text: str | None) -> int:
    """List processes: id, user, threads, whether flametap can attach, and the command.

    RUNTIME names an interpreter whose program's functions are shown: CPython.

    With TEXT, only processes whose command contains it. This does not attach to any of them;
    `flametap doctor PID` has the details of one.
    """
    rows = [row for row in rows_of(show_all) if text is None or text.lower() in row.command.lower()]
    if as_json:
        print_json([asdict(row) for row in rows])
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    user_width = max([4, *(len(row.user) for row in rows)])
    runtime_width = max(len(row.runtime) for row in rows) if rows else 0
    runtime_width = max(runtime_width, len("RUNTIME")) if runtime_width else 0
    runtime = f"{'RUNTIME':<{runtime_width}}  " if runtime_width else ""
    head = f"{'PID':>7}  {'USER':<{user_width}}  {'THREADS':>7}  {'ATTACH':<6}  "
    print_line(f"{head}{runtime}COMMAND")
    for row in rows:
        answer = "yes" if row.attachable else "no"
        line = f"{row.pid:>7}  {row.user:<{user_width}}  {row.threads:>7}  {answer:<6}  "
        line += f"{row.runtime:<{runtime_width}}  " if runtime_width else ""
        # The reason matters more than the end of a long command line.
        line += f"({row.reason}) {row.command}" if row.reason else row.command
        if width is not None:
            line = shorten(line, width)
        print_line(line)
    return 0


def rows_of(show_all: bool) -> Iterator[Row]:
    """Yield a row for each process but this one, ordered by pid.

    Args:
        show_all: include kernel threads.
    """
    without: set[tuple[str, int]] = set()  # files that hold no interpreter
    for pid in procfs.list_pids():
        if pid == os.getpid():
            continue
        try:
            if not show_all and procfs.is_kernel_thread(pid):
                continue
            status = procfs.read_status(pid)
            command = procfs.read_command(pid)
        except OSError:
            continue  # it has exited
        verdict: Finding | None = None
        for finding in preflight.findings(pid, quick=True):
            if finding.severity is Severity.REFUSAL:
                verdict = finding
                break
            if finding.severity is Severity.WARNING and verdict is None:
                verdict = finding
        attachable = verdict is None or verdict.severity is Severity.WARNING
        found = (
            find_interpreters(pid, without=without, limit_s=LOOK_LIMIT_S).found
            if attachable
            else ()
        )
        yield Row(
            pid=pid,
            user=permissions.user_name(status.uids[0]),
            threads=status.threads,
            attachable=attachable,
            reason=reason_of(verdict, pid) if verdict else "",
            command=command,
            runtime=", ".join(each.version for each in found if each.recipe is not None),
        )


def reason_of(finding: Finding, pid: int) -> str:
    """Return a finding's message without its subject, which the row already names."""
    _, separator, rest = finding.message.partition(f"process {pid} (")
    reason = rest.partition(") ")[2] or rest.partition("): ")[2] if separator else finding.message
    return reason or finding.message
