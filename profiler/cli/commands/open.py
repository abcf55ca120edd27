"""``flametap open``: the page of recordings from files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import PurePath
from typing import Any

import click

from ...errors import UsageError
from ...linux import heaps
from ...model import Clock
from .. import browser
from ..options import page_options
from ..progress import Progress
from ..signals import Interrupts
from ..streams import print_line
from .live import EXPOSED, TOKEN_BYTES

OPENED_AT_START = 2  # of more, the others are opened when the page shows them


@click.command("open", short_help="Show the page of recordings.")
@click.argument("paths", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--compare",
    metavar="FILE",
    help="Compare with this recording: an earlier one, or that of another machine.",
)
@page_options
@click.option("-q", "--quiet", is_flag=True, help="Print the address only.")
def open_files(
    paths: tuple[str, ...], compare: str | None, host: str, port: int, no_open: bool, quiet: bool
) -> int:
    """Show recordings that `flametap record -o NAME.flametap` has made, in the browser; also the
    files of other profilers (pprof, speedscope, folded stacks and more: docs/formats.md).

    The program need not run any more, nor be on this machine. Prints the page's address to stdout.
    Ctrl-C ends it. The page switches between several files, and compares each with any other.

    \b
        flametap open today.flametap
        flametap open today.flametap --compare yesterday.flametap
        flametap open monday.flametap tuesday.flametap wednesday.flametap
    """
    from ...foreign.opening import check_file

    heaps.keep_small()
    progress = Progress(quiet=quiet)
    files, earlier = _different(paths, compare)
    at_start = {1}
    if earlier is not None or len(files) <= OPENED_AT_START:
        at_start.add(earlier or len(files))
    for number, path in enumerate(files, 1):
        if number not in at_start:
            check_file(path)
    from flametap.web.recordings import File, Recordings
    from flametap.web.server import serve

    # pyright reads files here and below build/types, and takes them for two.
    opens: Any = _views
    named = zip(names_of(files), files, strict=True)
    recordings = Recordings([File(name, partial(opens, path)) for name, path in named])
    for number in sorted(at_start):
        recordings.get(number)
    shown: Any = recordings.get(1).recording
    if earlier is not None:
        from ...analysis.difference import check_comparable

        # pyright reads files here and below build/types, and takes them for two.
        other: Any = recordings.get(earlier).recording
        check_comparable(other, shown, Clock.CPU)
    notes = shown.status().notes
    view = f"compare=file{earlier if len(files) > 2 else ''}&sort=total" if earlier else ""
    with Interrupts() as interrupts:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        server = serve(recordings, host, port, token, view=view)
        if server.is_exposed:
            progress.warn(EXPOSED.format(host=host))
        try:
            print_line(server.url)
            with nullcontext() if no_open else browser.showing(server.form, progress):
                for note in notes:
                    progress.warn(note)
                progress.say("the page stays until Ctrl-C")
                while not interrupts.wait(1.0):
                    pass
        finally:
            progress.clear()
            server.close()
    return 0


def _different(paths: Sequence[str], compare: str | None) -> tuple[list[str], int | None]:
    """Return the files to show, each once, and the number of the one to compare with."""
    from ...recording.opened import same_file

    files: list[str] = []
    for path in (*paths, *([] if compare is None else [compare])):
        if not any(same_file(path, other) for other in files):
            files.append(path)
    if compare is None:
        return files, None
    if compare == files[0] or same_file(compare, files[0]):
        raise UsageError(
            f"{compare} is not compared with itself", "name another recording after --compare"
        )
    known = (path == compare or same_file(path, compare) for path in files)
    return files, list(known).index(True) + 1


def _views(path: str) -> Any:
    from ...analysis.views import views_of
    from ...foreign.opening import open_file

    return views_of(open_file(path))


def names_of(paths: Sequence[str]) -> list[str]:
    """Return the names of different files; with folders where several are called the same."""
    parts = [PurePath(os.path.abspath(path)).parts for path in paths]
    lengths = [1] * len(parts)
    while True:
        names = [os.path.join(*each[-n:]) for each, n in zip(parts, lengths, strict=True)]
        alike = [
            at
            for at, name in enumerate(names)
            if names.count(name) > 1 and lengths[at] < len(parts[at])
        ]
        if not alike:  # bytes that are no text may not be sent
            return [name.encode("utf-8", "replace").decode() for name in names]
        for at in alike:
            lengths[at] += 1


open = open_files
