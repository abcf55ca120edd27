"""``flametap serve --stdio``: the far end of ``--via``."""

from __future__ import annotations

import socket
import sys

import click

from ...errors import UsageError
from ...linux import heaps


@click.command(short_help="The far end of --via: records for a flametap elsewhere.")
@click.option("--stdio", is_flag=True, help="Talk over standard input and output.")
@click.option(
    "--session",
    type=int,
    hidden=True,
    metavar="FD",
    help="Record for whom this socket leads to.",
)
def serve(stdio: bool, session: int | None) -> int:
    """Record for a flametap elsewhere, which has started this by its --via. Opens no port.

    What is recorded here ends a minute after the connection has, if it does not come back.
    """
    from ...remote.messages import Line, LineError
    from ...remote.relay import serve as serve_line

    if session is not None:
        from ...remote.session import SILENT_S, Session
        from ..serving import ServedRecorder

        heaps.keep_small()
        connection = socket.socket(fileno=session)
        line = Line(session, session, connection)
        try:
            message = line.receive(SILENT_S)
            wish = message.facts if message is not None else {}
        except (LineError, TimeoutError):
            return 1
        Session(connection, line, str(wish.get("session")), ServedRecorder(wish)).run()
        return 0
    if not stdio:
        raise UsageError("serve needs --stdio", "name where it is on your side: --via 'ssh host'")
    sys.stdout.flush()
    serve_line(Line(0, 1))
    return 0
