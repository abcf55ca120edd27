"""``flametap diff``: what changed between two recordings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from ...errors import ChangedError, UsageError
from ...model import Clock, Status
from ...recording.figures import weight_name
from ..option_values import by, parse_percent
from ..output_options import OutputOptions, shown_options
from ..outputs import STDOUT
from ..progress import Progress
from ..recording import refuse_empty
from ..streams import print_line
from ..targets import shorten

if TYPE_CHECKING:
    from ...analysis.difference import Change, Difference
    from ...analysis.dispersion import Side

NAME_WIDTH = 60
MODULE_WIDTH = 30
LISTED = 20
EXTENSIONS = {".folded": "folded", ".svg": "svg", ".html": "html"}


@click.command("diff", short_help="Show what changed between two recordings.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Also write every stack with both weights: NAME.folded (as difffolded.pl does), NAME.svg"
    " (a flame graph of AFTER in which what grew is red and what shrank is blue), or NAME.html (the"
    " page of `flametap open AFTER --compare BEFORE` in one file).",
)
@click.option(
    "--fail-above",
    metavar="PERCENT",
    callback=by(parse_percent),
    help="Exit with code 8 if the share of a function, with what it calls, has grown by more than"
    " so many percentage points, and by more than chance.",
)
@click.option("--all", "is_all", is_flag=True, help="List also changes that may be chance.")
@shown_options(files=False)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def diff(
    before: str,
    after: str,
    output: str | None,
    fail_above: float | None,
    is_all: bool,
    shown: OutputOptions,
    quiet: bool,
) -> int:
    """Show which functions take another share of the time in AFTER than in BEFORE.

    Both are recordings that `flametap record -o NAME.flametap` has made. A change is listed if it
    is greater than chance explains: what varies within each recording is taken into account.

    \b
        flametap diff yesterday.flametap today.flametap
        flametap diff main.flametap branch.flametap --fail-above 2%
    """
    format_name = _format_of(output) if output else ""
    from ...analysis.difference import difference_of
    from ...analysis.dispersion import Side
    from ...foreign.opening import open_file

    recordings = [open_file(path) for path in (before, after)]
    progress = Progress(quiet=quiet)
    for path, recording in zip((before, after), recordings, strict=True):
        refuse_empty(recording, shown)
        for note in recording.status().notes:
            progress.warn(f"{path}: {note}")
    sides = [Side(recording, shown.selection(recording)) for recording in recordings]
    found = difference_of(*sides)
    if not quiet:
        for line in table_lines(found, recordings[1].status(), shown.clock, is_all=is_all):
            print_line(line)
    if output:
        _write(output, format_name, found, sides, os.path.basename(before))
        progress.say(f"wrote {output}")
    if fail_above is not None:
        _fail_above(found.total, fail_above)
    return 0


def table_lines(
    found: Difference, status: Status, clock: Clock, *, is_all: bool = False
) -> list[str]:
    """Format what changed: functions by their own time, then with what they call."""
    lines: list[str] = []
    has_rates = status.has_moments and not status.counted
    for title, changes in (
        (f"{weight_name(status, clock)} of their own", found.own),
        (f"{weight_name(status, clock)} with what they call", found.total),
    ):
        listed = [each for each in changes if each.grade or is_all][:LISTED]
        if not listed:
            lines.append(f"{title}: no function changed by more than chance")
            continue
        lines.append(f"{title}:")
        rates = "     s/s before     after" if has_rates else ""
        lines.append(f"    points   before    after{rates}  function")
        lines += [_row(each, has_rates=has_rates) for each in listed]
        more = sum(bool(each.grade or is_all) for each in changes) - len(listed)
        if more > 0:
            lines.append(f"  and {more:,} more")
    return lines


def _row(change: Change, *, has_rates: bool) -> str:
    before, after = change.share
    rates = f" {change.rate[0]:>14.4f} {change.rate[1]:>9.4f}" if has_rates else ""
    sure = "" if change.grade else "  (may be chance)"
    function = change.function
    name = shorten(function.name, NAME_WIDTH)
    module = f"  {shorten(function.module, MODULE_WIDTH)}" if function.module else ""
    return (
        f"{100 * change.points:>+10.2f} {before:>8.2%} {after:>8.2%}{rates}  {name}{module}{sure}"
    )


def _fail_above(changes: Sequence[Change], percent: float) -> None:
    """Raise ChangedError if a function has grown by more than so many percentage points."""
    grown = [each for each in changes if each.grade > 0 and 100 * each.points > percent]
    if grown:
        worst = max(grown, key=lambda each: each.points)
        name = shorten(worst.function.name, NAME_WIDTH)
        raise ChangedError(
            f"{name} has grown by {100 * worst.points:.2f} percentage points,"
            f" and {len(grown) - 1} more by over {percent:g}",
            "see the table above, or compare by hand: flametap diff BEFORE AFTER",
        )


def _format_of(path: str) -> str:
    from ...export.compression import uncompressed_name

    for extension, name in EXTENSIONS.items():
        if uncompressed_name(path).lower().endswith(extension):
            return name
    if path == STDOUT:
        return "folded"
    raise UsageError(
        f"the name {path} tells no format", f"end it with one of {', '.join(EXTENSIONS)}"
    )


def _write(
    path: str, format_name: str, found: Difference, sides: Sequence[Side], name: str
) -> None:
    """Write both sides: the one before, whose file has that name, and the one after."""
    from ...export import difference, write_with
    from ...export.compression import compressing

    def write(plain_file: BinaryIO) -> None:
        with compressing(path, plain_file) as file:
            if format_name == "folded":
                difference.write_folded(found.tree, sides[1].recording, file)
            elif format_name == "html":
                difference.write_html(sides[0], sides[1], name, file)
            else:
                difference.write_svg(found.tree, sides[1].recording, file)

    write_with(path, write)
