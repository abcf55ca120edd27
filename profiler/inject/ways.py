"""The ways into a process, and which of them is taken."""

from __future__ import annotations

import contextlib

from flametap.agent.machine_code import UnusableError

from ..errors import FlametapError
from .direct import slack
from .direct.injector import DirectInjector
from .link.injector import Injector

AUTO, DIRECT, FRIDA = WAYS = ("auto", "direct", "frida")
"""What ``--inject`` takes."""


def injector_for(pid: int, way: str) -> tuple[Injector, str]:
    """Choose the way into a process.

    Args:
        pid: the process.
        way: one of ``WAYS``. "auto" is the direct way; Frida's where that says that it cannot.

    Returns:
        the injector; and why it is Frida's though nobody asked for that, empty if it is not.
    """
    is_direct, reason = chosen(pid, way)
    if not is_direct:
        # Frida is 60 MB, and mostly not needed.
        from .frida.injector import FridaInjector

        return FridaInjector(pid), reason
    return DirectInjector(pid), ""


def chosen(pid: int, way: str) -> tuple[bool, str]:
    """Return whether the way into a process is the direct one; else why, as ``injector_for``."""
    reason = direct_is_refused(pid) if way == AUTO else ""
    return way != FRIDA and not reason, reason


def direct_is_refused(pid: int) -> str:
    """Return why the direct way does not lead into a process; empty if it does."""
    # What else is wrong the attach will say.
    with contextlib.suppress(OSError, FlametapError, UnusableError):
        try:
            slack.check(pid)
        except slack.NoPlaceError as error:
            return error.message
    return ""
