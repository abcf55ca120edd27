"""Removes what profilers that were killed left in the temporary folder.

Frida unpacks a helper of 10 MB into ``frida-<32 hex digits>`` there and removes it when it ends; a
host that is killed cannot. Only folders of our own user go, and only when no process runs from
them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

_FOLDER = re.compile(r"frida-[0-9a-f]{32}")
# A helper that is just being unpacked is not running yet.
MIN_AGE_S = 60.0


def remove(folder: Path | None = None) -> int:
    """Remove stale folders; returns how many. Never fails: what cannot be removed stays."""
    root = folder or Path(tempfile.gettempdir())
    stale = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(root):
            if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > MIN_AGE_S:
                    stale.append(Path(entry.path))
    if not stale:
        return 0
    in_use = _running_from()
    unused = [path for path in stale if path not in in_use]
    for path in unused:
        shutil.rmtree(path, ignore_errors=True)
    return len(unused)


def _running_from() -> set[Path]:
    """The folders of all running executables that can be seen."""
    folders = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            folders.add(Path(os.readlink(f"/proc/{pid}/exe")).parent)
    return folders
