"""``flametap open``: the page of a recording from a file."""

from __future__ import annotations

import os
import secrets
from contextlib import nullcontext
from typing import Any

import click

from ...linux import heaps
from .. import browser
from ..options import page_options
from ..progress import Progress
from ..signals import Interrupts
from ..streams import print_line
from .live import EXPOSED, TOKEN_BYTES


@click.command("open", short_help="Show the page of a recording.")
@click.argument("path", metavar="FILE")
@click.option(
    "--compare",
    metavar="FILE",
    help="Compare with this recording: an earlier one, or that of another machine.",
)
@page_options
@click.option("-q", "--quiet", is_flag=True, help="Print the address only.")
def open_file(
    path: str, compare: str | None, host: str, port: int, no_open: bool, quiet: bool
) -> int:
    """Show a recording that `flametap record -o NAME.flametap` has made, in the browser.

    The program need not run any more, nor be on this machine. Prints the page's address to stdout.
    Ctrl-C ends it.
    """
    from ...recording.opened import open_recording

    heaps.keep_small()
    progress = Progress(quiet=quiet)
    opened = open_recording(path)
    earlier = open_recording(compare) if compare is not None else None
    from flametap.web.server import serve

    from ...analysis.views import views_of

    with Interrupts() as interrupts:
        # pyright reads files here and below build/types, and takes them for two.
        views: Any = views_of(opened)
        other: Any = None
        if compare is not None and earlier is not None:
            other = os.path.basename(compare), views_of(earlier)
        view = "compare=file&sort=total" if other else ""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        server = serve(views, host, port, token, view=view, other=other)
        if server.is_exposed:
            progress.warn(EXPOSED.format(host=host))
        try:
            print_line(server.url)
            with nullcontext() if no_open else browser.showing(server.form, progress):
                for note in opened.status().notes:
                    progress.warn(note)
                progress.say("the page stays until Ctrl-C")
                while not interrupts.wait(1.0):
                    pass
        finally:
            progress.clear()
            server.close()
    return 0


open = open_file
