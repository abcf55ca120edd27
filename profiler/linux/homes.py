"""Find the folder for caches, where nobody but us can redirect what we write.

``sudo`` may keep ``HOME`` and ``XDG_CACHE_HOME`` of the user who called it. That user owns the
folders on the way, and may put a link to any place there: as root we would make folders and files
in it. So a folder counts only if all folders above it are ours or root's. Otherwise we use our own
home, as the kernel's idea of our user gives it.

Source: path_resolution(7), symlink(7); XDG Base Directory Specification.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path


def cache_home(environment: Mapping[str, str]) -> Path | None:
    """Return ``$XDG_CACHE_HOME``, by default ``~/.cache``; None without a home of ours."""
    given = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given) and is_ours(given):
        return Path(given)
    home = own_home(environment)
    if home is None or not is_ours(str(home / ".cache")):
        return None
    return home / ".cache"


def own_home(environment: Mapping[str, str]) -> Path | None:
    """Return ``$HOME``, or our home in the list of users; None if neither is ours."""
    for home in (environment.get("HOME", ""), _listed_home()):
        if os.path.isabs(home) and is_ours(home):
            return Path(home)
    return None


def is_ours(path: str) -> bool:
    """Return True if nobody but us and root decides what an absolute path leads to.

    What does not exist yet counts as ours if what is above it is.
    """
    for place in (*_prefixes(os.path.normpath(path)), *_prefixes(os.path.realpath(path))):
        try:
            status = os.lstat(place)
        except OSError:
            continue
        if status.st_uid not in (0, os.geteuid()):
            return False
        is_shared = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if is_shared and not stat.S_ISLNK(status.st_mode):
            return False
    return True


def _prefixes(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = os.path.dirname(path)


def _listed_home() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""
