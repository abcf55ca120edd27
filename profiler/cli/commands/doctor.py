"""``flametap doctor PID``: every check before an attach, with its outcome and remedy."""

from __future__ import annotations

import click

from flametap.agent import machine_code

from ...errors import CannotAttachError
from ...linux import procfs
from ...linux.containers import container_of
from ...safety import preflight
from ...safety.finding import Finding, Severity
from ..interpreter import find_interpreters, interpreter_lines
from ..options import pid_arguments, via_option_of_printing
from ..progress import Progress
from ..streams import print_json, print_line
from ..targets import find_target

MARKS = {Severity.OK: "ok", Severity.WARNING: "warn", Severity.REFUSAL: "NO"}


@click.command(short_help="List what would stop an attach, and the remedies.")
@via_option_of_printing
@pid_arguments
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
def doctor(pid: str | None, pid_option: int | None, as_json: bool) -> int:
    """Run every check that comes before an attach, and print each outcome with its remedy.

    This does not attach. The exit code is 0 if an attach is possible; otherwise it is the one that
    the attach would fail with.
    """
    target = find_target(pid, pid_option, Progress())
    found = [*preflight.findings(target), _agent()]
    first = next((finding.error for finding in found if finding.error is not None), None)
    interpreters = find_interpreters(target)
    if as_json:
        rows = [
            {
                "check": finding.check,
                "outcome": finding.severity.value,
                "message": finding.message,
                "hint": finding.hint,
            }
            for finding in found
        ]
        runtimes = [
            {
                "runtime": each.runtime,
                "version": each.version,
                "module": each.module,
                "functions_shown": each.recipe is not None,
                "note": each.note,
            }
            for each in interpreters.found
        ]
        attachable = first is None
        print_json(
            {
                "pid": target,
                "attachable": attachable,
                "container": _container(target),
                "checks": rows,
                "interpreters": runtimes,
                "interpreters_known": interpreters.is_over,
            }
        )
        return first.exit_code if first else 0
    for finding in found:
        print_line(f"{MARKS[finding.severity]:<5}{finding.check:<15}{finding.message}")
        if finding.hint:
            print_line(f"{'':<20}remedy: {finding.hint}")
    if container := _container(target):
        print_line(f"{MARKS[Severity.OK]:<5}{'container':<15}{container}")
    for line in interpreter_lines(target, looked=interpreters):
        print_line(f"{MARKS[Severity.OK]:<5}{'interpreter':<15}{line}")
    try:
        name = procfs.read_status(target).name
    except OSError:
        name = "exited"
    print_line("")
    if first is None:
        print_line(f"process {target} ({name}) can be attached to: flametap {target}")
    else:
        print_line(f"process {target} ({name}) cannot be attached to")
    return first.exit_code if first else 0


def _container(pid: int) -> str:
    """Name the container that a process is in; "" for none."""
    try:
        return str(container_of(pid) or "")
    except OSError:
        return ""


def _agent() -> Finding:
    try:
        made = machine_code.read()
    except machine_code.UnusableError as error:
        refused = CannotAttachError(str(error), machine_code.REMEDY)
        return Finding("agent", Severity.REFUSAL, refused.message, refused.hint, refused)
    return Finding("agent", Severity.OK, f"machine code, built by {made.compiler}")
