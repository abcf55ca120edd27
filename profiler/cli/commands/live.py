"""``flametap live``, or just ``flametap PID``: sample and show the live page."""

from __future__ import annotations

import contextlib
import re
import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ...device.connect import Where
from ...linux import heaps
from .. import browser, device, far, start
from ..attach_options import AttachOptions
from ..containers import Containers, container_options
from ..device import device_options
from ..frame_options import FrameOptions, gil_option
from ..keeping import keeping_for_page
from ..options import (
    children_option,
    duration_option,
    no_sources_option,
    output_options,
    page_options,
    sampling_options,
    targets_arguments,
    verbosity_options,
    verify_option,
    via_option,
)
from ..output_options import OutputOptions
from ..outputs import plan
from ..progress import Progress
from ..recording import finish, watch
from ..signals import EXIT_CODE, Interrupted, Interrupts
from ..streams import print_line
from ..targets import find_targets
from ..verify import verified

if TYPE_CHECKING:
    from ..far import AnyCapture

TOKEN_BYTES = 16  # 128 bits cannot be guessed
EXPOSED = (
    "--host {host} serves the page to other machines, unencrypted: who has the URL or reads the"
    " traffic sees names of functions, paths and source lines; `ssh -L` is the safe way"
)


@click.command(short_help="Sample a process and show the live page (the default).")
@targets_arguments
@container_options
@duration_option("How long to sample: seconds, or 500ms, 2m, 1h. The page then stays until Ctrl-C.")
@click.option(
    "--exit",
    "ends",
    is_flag=True,
    help="Exit when the sampling ends (--duration, or the process exits), and close the page.",
)
@output_options(
    "Also write a file when the sampling ends, as `flametap record -o` does.",
    "Format of the file of -o: flametap, html, svg, speedscope, firefox, pprof, sqlite, folded,"
    " chrome (a trace), cpuprofile (V8's), perf-script, jsonl or markdown (a summary). Without it,"
    " its name decides.",
)
@page_options
@gil_option
@no_sources_option
@children_option
@via_option
@device_options
@sampling_options
@verify_option
@verbosity_options
def live(
    words: tuple[str, ...],
    pid_option: int | None,
    pattern: re.Pattern[str] | None,
    containers: Containers,
    where: Where,
    duration: float | None,
    outputs: tuple[str, ...],
    formats: tuple[str, ...],
    host: str,
    port: int,
    no_open: bool,
    ends: bool,
    only_gil: bool,
    with_sources: bool,
    how: AttachOptions,
    quiet: bool,
) -> int:
    """Sample running processes and show a live flame graph in the browser.

    Prints the page's address to stdout. Ctrl-C ends it. When the process exits or --duration is
    over, the page stays and shows what was recorded, unless --exit is given.
    """
    planned = plan(outputs, formats)
    heaps.keep_small()
    progress = Progress(quiet=quiet)
    how = containers.followed(how)
    is_here = not (how.via or where)
    targets = (
        find_targets(words, pid_option, pattern, progress, containers=containers) if is_here else []
    )
    target = targets[0] if targets else 0  # 0: it is elsewhere
    with Interrupts() as interrupts:
        prepared: contextlib.AbstractContextManager[AnyCapture]
        if where:
            device.refuse(where, how.via, pattern, containers)
            prepared = device.prepared(where, words, pid_option, how, progress)
        elif how.via:
            prepared = far.prepared(
                *(words, pid_option, pattern, how, progress),
                duration_s=duration,
                containers=containers,
                with_sources=with_sources,
                is_wanted=lambda: not interrupts.stop,
                follows_workers=True,
            )
        else:
            prepared = start.prepared(targets, how, progress, follows_workers=True)
        if how.verbose and target:
            start.print_findings(target, progress)
        try:
            with (
                verified(target, progress, how) as verification,
                prepared as capture,
                keeping_for_page(capture, planned, progress, with_sources=with_sources),
            ):
                from flametap.web.server import serve

                from ...analysis.views import views_of

                # Before the attach: a port in use is an error without an attach.
                token = secrets.token_urlsafe(TOKEN_BYTES)
                # pyright reads files here and below build/types, and takes them for two.
                views: Any = views_of(capture.recording)
                controls: Any = capture
                view = "gil=1" if only_gil else ""
                server = serve(views, host, port, token, view=view, controls=controls)
                if server.is_exposed:
                    progress.warn(EXPOSED.format(host=host))
                try:
                    start.start(capture, interrupts, progress, verification)
                    progress.clear()
                    print_line(server.url)
                    with nullcontext() if no_open else browser.showing(server.form, progress):
                        by = " and ".join(f"'{each}'" for each in how.via)
                        by = by or (f"{where}" if where else "")
                        place = f"{capture.pid} by {by}" if by else capture.pid
                        progress.say(f"live: {capture.command} ({place}); Ctrl-C ends it")
                        watch(capture, interrupts, progress, duration)
                        shown = FrameOptions(only_gil=only_gil)
                        what = OutputOptions(shown=shown, has_page=True)
                        code = finish(
                            capture, planned, what, interrupts, progress, verbose=how.verbose
                        )
                        if not interrupts.stop and not ends:
                            progress.say("the page stays until Ctrl-C")
                            while not interrupts.wait(1.0):
                                pass
                        return code
                finally:
                    progress.clear()
                    server.close()
        except Interrupted:
            progress.say("interrupted before anything was recorded")
            return EXIT_CODE
