"""``flametap export``: other formats of a recording from a file."""

from __future__ import annotations

from dataclasses import replace

import click

from ...errors import UsageError
from ..keeping import is_kept, write_whole
from ..options import output_options
from ..output_options import OutputOptions, shown_options
from ..outputs import plan
from ..progress import Progress
from ..recording import write_outputs


@click.command("export", short_help="Write other formats of a recording.")
@click.argument("path", metavar="FILE")
@output_options(
    "The file to write; may be given several times. - is stdout.",
    "Format of the file: html, svg, speedscope, firefox, pprof, sqlite, folded, chrome (a trace),"
    " cpuprofile (V8's), perf-script, jsonl or markdown (a summary). Without it, the file's name"
    " decides.",
)
@click.option(
    "--shape",
    default="",
    metavar="STEPS",
    help="Show stacks as the page does after these steps, with ; between them: hide, fold, without,"
    " only, focus or callers, each with a :FUNCTION, and recursion, chains, busy, inverted. The"
    " link of a page has them behind shape=.",
)
@shown_options(files=True)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def export_file(
    path: str,
    outputs: tuple[str, ...],
    formats: tuple[str, ...],
    shape: str,
    shown: OutputOptions,
    quiet: bool,
) -> int:
    """Write other formats of a recording that `flametap record -o NAME.flametap` has made, or of a
    file of another profiler, which becomes a recording with -o NAME.flametap.

    \b
        flametap export NAME.flametap -o out.speedscope.json -o out.html
        flametap export profile.pb.gz -o out.html
    """
    if not outputs:
        raise UsageError("no output is named", "name one: -o out.html")
    planned = plan(outputs, formats)
    from ...foreign.opening import open_file

    recording, progress = open_file(path), Progress(quiet=quiet)
    for output in filter(is_kept, planned):
        if not recording.status().source:
            raise UsageError("it is such a file already", "copy it, or name another format")
        if shape or shown != OutputOptions(shown=shown.shown):
            raise UsageError("a recording is the whole file", "leave out the options of a part")
        written = write_whole(recording, output, progress)
        progress.say(f"wrote {written} (a recording: 'flametap open' shows it)")
    others = [each for each in planned if not is_kept(each)]
    if others:
        write_outputs(recording, others, replace(shown, shape=shape), progress)
    return 0


export = export_file
