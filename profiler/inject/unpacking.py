"""Has Frida unpack and start no programs of its own.

Frida looks for phones, too: with the first attach it unpacks a daemon for iOS devices (``idund``,
10 MB) into a new folder of the temporary one and starts it. That outlives us by half a minute,
writes an identity into ``~/.config``, and a folder stays wherever somebody is killed. We attach on
this machine alone. So Frida may make no folders, and none of it happens (frida 17.26).
"""

from __future__ import annotations

import ctypes
import errno
import functools

from ..linux import plt_hook


def _refuse(path: bytes, mode: int) -> int:
    ctypes.set_errno(errno.EACCES)
    return -1


# Frida calls it for as long as the process lives.
_mkdir = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, use_errno=True)(_refuse)


@functools.cache
def refuse(library: str) -> bool:
    """Has mkdir(2) fail in Frida's library. Done once a process.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's.
    """
    return plt_hook.redirect(library, b"mkdir", _mkdir)
