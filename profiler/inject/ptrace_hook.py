"""Has Frida call our ptrace(2) and waitpid(2) (``ptrace_proxy``) instead of those of libc, on the
one thread that traces (``fork_hold.tracer``).

``ctypes`` takes the GIL for that, which the caller of an attach has released. When one of ours
raises, Frida is told that the call has failed, and the thread of the target goes on as it came.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Callable

from ..linux import plt_hook
from . import fork_hold, ptrace_proxy

_raised: list[Exception] = []


def _ptrace(request: int, tid: int, where: int | None, data: int | None) -> int:
    return _run(tid, lambda: ptrace_proxy.ptrace_for_frida(request, tid, where, data))


def _waitpid(pid: int, status: int | None, options: int) -> int:
    return _run(pid, lambda: ptrace_proxy.waitpid_for_frida(pid, status, options))


def _run(tid: int, call: Callable[[], int]) -> int:
    try:
        return fork_hold.tracer.run(lambda: _try(tid, call))
    except Exception as error:  # no thread to be had
        return _fail(error)


def _try(tid: int, call: Callable[[], int]) -> int:
    try:
        return call()
    except Exception as error:
        with contextlib.suppress(Exception):
            ptrace_proxy.abandon(tid)
        return _fail(error)


def _fail(error: Exception) -> int:
    _raised.append(error)
    ctypes.set_errno(errno.ESRCH)
    return -1


# Frida calls them for as long as the process lives.
_REPLACEMENTS = {
    b"ptrace": ctypes.CFUNCTYPE(
        ctypes.c_long,
        *(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p),
        use_errno=True,
    )(_ptrace),
    b"waitpid": ctypes.CFUNCTYPE(
        ctypes.c_int, *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), use_errno=True
    )(_waitpid),
}


def install(library: str) -> bool:
    """Has Frida's library call our functions from now on. Done again it changes nothing.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's: another way of injecting, which this module
        knows nothing about.
    """
    return all(
        [plt_hook.redirect(library, name, function) for name, function in _REPLACEMENTS.items()]
    )


def raised() -> Exception | None:
    """The first error of ours since this was last asked: Frida's own words for it say nothing."""
    errors = _raised[:]
    _raised.clear()
    return errors[0] if errors else None


def release() -> None:
    """Has Frida call libc itself again: our functions end with the interpreter."""
    with contextlib.suppress(OSError):
        plt_hook.release()
