"""``flametap serve --stdio``: the far end of ``--via``."""

from __future__ import annotations

import sys

import click

from ...errors import UsageError


@click.command(short_help="The far end of --via: records for a flametap elsewhere.")
@click.option("--stdio", is_flag=True, help="Talk over standard input and output.")
def serve(stdio: bool) -> int:
    """Record for a flametap elsewhere, which has started this by its --via. Opens no port.

    What is recorded here ends a minute after the connection has, if it does not come back.
    """
    from ...remote.messages import Line
    from ...remote.relay import serve as serve_line

    if not stdio:
        raise UsageError("serve needs --stdio", "name where it is on your side: --via 'ssh host'")
    sys.stdout.flush()
    serve_line(Line(0, 1))
    return 0
