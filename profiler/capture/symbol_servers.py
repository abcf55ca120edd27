"""Make the client of servers for debug files, if there are any to ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..symbols.locate.debuginfod import Debuginfod


def client_of(urls: Sequence[str]) -> Debuginfod | None:
    """Return a client of the servers; None if there are none."""
    if not urls:
        return None
    # Its web client takes 50 ms to import.
    from ..symbols.locate.debuginfod import client

    return client(urls)
