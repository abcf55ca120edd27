"""``flametap top``: the heaviest functions as a table in the terminal, live or of a recording."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from .. import start
from ..attach_options import AttachOptions
from ..option_values import by, parse_pid
from ..options import (
    duration_option,
    sampling_options,
    verbosity_options,
)
from ..output_options import OutputOptions, shown_options
from ..printable import printable
from ..progress import Progress
from ..recording import refuse_empty
from ..signals import Interrupted, Interrupts
from ..streams import print_lines
from ..targets import find_target
from ..top_table import table_lines

if TYPE_CHECKING:
    from ...capture.live import Capture

EVERY_S = 1.0
HEADING_ROWS = 5
ROWS = 20  # where nobody looks on: in a file or a pipe
HOME, CLEAR_BELOW = "\x1b[H", "\x1b[J"
FULL_SCREEN, USUAL_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@click.command("top", short_help="Show the heaviest functions in the terminal.")
@click.argument("what", metavar="FILE|PID|NAME", required=False)
@click.option(
    "-p", "--pid", metavar="PID", callback=by(parse_pid), help="The process id, as an option."
)
@duration_option(
    "How long to sample a process: seconds, or 500ms, 2m, 1h. Without it, until Ctrl-C."
)
@click.option(
    "--by",
    "order",
    type=click.Choice(["own", "total"]),
    default="own",
    show_default=True,
    help="Order by the functions' own time, or by that with what they call.",
)
@click.option("--lines", "by_line", is_flag=True, help="A row for each line instead of function.")
@click.option("-n", "--rows", type=click.IntRange(1, 10_000), help="How many rows.")
@shown_options(files=False)
@sampling_options
@verbosity_options
def top(
    what: str | None,
    pid: int | None,
    duration: float | None,
    order: str,
    by_line: bool,
    rows: int | None,
    shown: OutputOptions,
    how: AttachOptions,
    quiet: bool,
) -> int:
    """Show the heaviest functions of a recording, or of a running process, once a second.

    \b
        flametap top NAME.flametap --by total
        flametap top 1234
    """
    from ...recording.opened import is_pipe

    if what is not None and (os.path.isfile(what) or is_pipe(what) or what.endswith(".flametap")):
        from ...foreign.opening import open_file

        recording = open_file(what)
        refuse_empty(recording, shown)
        print_lines(table_lines(recording, shown, rows or ROWS, by=order, by_line=by_line))
        return 0
    progress = Progress(quiet=quiet)
    target = find_target(what, pid, progress)
    with Interrupts() as interrupts:
        try:
            with start.prepared([target], how, progress, shows_notes=False) as capture:
                start.start(capture, interrupts, progress)
                progress.clear()
                _watch(capture, interrupts, shown, duration, rows, order, by_line)
                capture.stop()
                capture.finish_symbols(EVERY_S)
                refuse_empty(capture.recording, shown)
                last = table_lines(
                    capture.recording, shown, rows or ROWS, by=order, by_line=by_line
                )
            print_lines(last)
        except Interrupted:
            progress.say("interrupted before anything was recorded")
    return 0


def _watch(
    capture: Capture,
    interrupts: Interrupts,
    shown: OutputOptions,
    limit_s: float | None,
    rows: int | None,
    order: str,
    by_line: bool,
) -> None:
    """Show the table once a second, if somebody looks on, until a signal, the end, or the limit."""
    is_seen = sys.stdout.isatty()
    left_s = float("inf") if limit_s is None else limit_s
    if is_seen:
        sys.stdout.write(FULL_SCREEN)
    try:
        while left_s > 0 and not interrupts.stop and not capture.wait(0.0):
            interrupts.wait(min(EVERY_S, left_s))
            left_s -= EVERY_S
            if is_seen:
                columns, height = shutil.get_terminal_size()
                lines = table_lines(
                    capture.recording,
                    shown,
                    rows or max(1, height - HEADING_ROWS),
                    by=order,
                    by_line=by_line,
                    width=columns,
                )
                text = "\x1b[K\r\n".join(printable(line)[:columns] for line in lines)
                sys.stdout.write(f"{HOME}{text}\x1b[K{CLEAR_BELOW}")
                sys.stdout.flush()
    finally:
        if is_seen:
            sys.stdout.write(USUAL_SCREEN)
            sys.stdout.flush()
