"""``flametap merge``: one recording of several."""

from __future__ import annotations

import os

import click

from ...errors import UsageError
from ..progress import Progress


@click.command("merge", short_help="Make one recording of several.")
@click.argument("paths", metavar="FILE FILE…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    required=True,
    help="The recording to write: NAME.flametap.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def merge(paths: tuple[str, ...], output: str, quiet: bool) -> int:
    """Make one recording of several that `flametap record -o NAME.flametap` has made.

    It has the threads of all, and opens as each of them does. Recordings of one process become one;
    with several processes, the names of threads begin with program and process id. What was
    recorded at one time lies side by side.

    \b
        flametap merge client.flametap server.flametap -o both.flametap
        flametap merge monday.flametap tuesday.flametap -o week.flametap
    """
    from ...export import RECORDING_EXTENSION, destination, write_with
    from ...recording.merge.whole import merge as merge_files
    from ...recording.opened import same_file

    if len(paths) < 2:
        raise UsageError("one recording is nothing to merge", "name another one before -o")
    if not output.lower().endswith(RECORDING_EXTENSION):
        raise UsageError(
            f"{output} is no name for a recording", f"end it with {RECORDING_EXTENSION}"
        )
    for at, path in enumerate(paths):
        if same_file(path, output):
            raise UsageError(f"{output} is one of the recordings to merge", "choose another name")
        if any(same_file(path, other) for other in paths[:at]):
            raise UsageError(f"{path} is named twice: its time would count twice", "name it once")
    destination.check(output)
    progress = Progress(quiet=quiet)
    notes: list[str] = []
    write_with(output, lambda file: notes.extend(merge_files(paths, file)))
    for note in notes:
        progress.warn(note)
    progress.say(f"wrote {output} ({os.path.getsize(output) / (1 << 20):.2f} MiB)")
    return 0
