"""Make Frida call ptrace(2) and waitpid(2) of ours instead of those of libc.

Frida's library calls C functions that know nothing of an attach. So this module holds the one that
is under way: the only thing in ``inject`` that outlives a call and belongs to no object. ``enter``
sets it when an attach begins, ``leave`` clears it when that attach ends. Without one, Frida calls
libc itself.

``ctypes`` takes the GIL for these functions, which the caller of an attach has released.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from ...linux import ptrace
from . import plt_hook


class Tracing(Protocol):
    """An attach, as far as Frida's calls and the end of our process concern it."""

    def ptrace(self, request: int, tid: int, where: int | None, data: int | None) -> int:
        """ptrace(2), for Frida; a failure is in ``ctypes.get_errno()``."""
        ...

    def waitpid(self, pid: int, status: int | None, options: int) -> int:
        """waitpid(2), for Frida; a failure is in ``ctypes.get_errno()``."""
        ...

    def hurry(self) -> None:
        """Give back at once whatever runs for Frida, and release what is kept."""
        ...

    def end(self) -> None:
        """Give the target back, whatever Frida has in mind with it."""
        ...


_under_way: Tracing | None = None


def under_way() -> Tracing | None:
    """The attach that Frida's calls belong to, None before the first one."""
    return _under_way


def enter(attach: Tracing) -> Tracing | None:
    """Make Frida's calls go to an attach from now on; return the one that they went to before."""
    global _under_way
    former, _under_way = _under_way, attach
    return former


def leave(attach: Tracing) -> None:
    """Have no more of Frida's calls go to an attach."""
    global _under_way
    if _under_way is attach:
        _under_way = None


def _ptrace(request: int, tid: int, where: int | None, data: int | None) -> int:
    attach = _under_way
    if attach is None:
        return int(ptrace.ptrace(request, tid, where, data))
    return attach.ptrace(request, tid, where, data)


def _waitpid(pid: int, status: int | None, options: int) -> int:
    attach = _under_way
    if attach is None:
        return int(ptrace.waitpid(pid, status, options))
    return attach.waitpid(pid, status, options)


# Frida calls them for as long as the process lives.
_REPLACEMENTS = {
    b"ptrace": ptrace.Ptrace(_ptrace),
    b"waitpid": ptrace.Waitpid(_waitpid),
}


def install(library: str) -> bool:
    """Make Frida's library call our functions from now on. Done again it changes nothing.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's: another way of injecting, which this module
        knows nothing about.
    """
    return all(
        [plt_hook.redirect(library, name, function) for name, function in _REPLACEMENTS.items()]
    )


def release() -> None:
    """Make Frida call libc itself again: our functions end with the interpreter."""
    with contextlib.suppress(OSError):
        plt_hook.release()
