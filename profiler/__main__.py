"""Where ``flametap`` and ``python -m flametap`` begin; only this file exits."""

from __future__ import annotations

import signal
import sys


def main(*arguments: str) -> None:
    """Run the command line, or other arguments, and exit with its code."""
    # Until a command takes care of Ctrl-C itself, it ends us as it ends any program: silently.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli.streams import escape_unencodable, flush_or_give_up, open_missing

    open_missing()
    escape_unencodable()
    from .cli.main import run

    code = run(arguments or sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        flush_or_give_up(stream)
    from .linux.leave import leave

    leave(code)


if __name__ == "__main__":
    main()
