"""The command line: ``flametap COMMAND …``. Only this package prints, and only this file exits.

Nothing heavy is imported before it is needed: ``flametap --help`` loads click and no more.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Entry point of the console script and of ``python -m flametap``."""
    # Until a command takes care of Ctrl-C itself, it ends us as it ends any program: silently.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .streams import flush_or_give_up, open_missing

    open_missing()
    from .main import run

    code = run(sys.argv[1:])
    flush_or_give_up(sys.stdout)
    sys.exit(code)
