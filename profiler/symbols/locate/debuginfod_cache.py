"""Keep downloaded files in the folder of elfutils' debuginfod client, by its rules.

The files are ``BUILDID/debuginfo`` and ``BUILDID/executable``. An empty file means that no server
had it; that is valid for the time in ``cache_miss_s``. New files are written to a temporary name
and renamed, so no process sees an incomplete one. Once a day, files that were not read for a week
are deleted; the files ``cache_clean_interval_s`` and ``max_unused_age_s`` can change these times.

Source: debuginfod-client-config(7).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from ...linux.homes import cache_home, is_ours, own_home

DEBUGINFO, EXECUTABLE = "debuginfo", "executable"  # the kinds of files
# Defaults of the control files.
_CACHE_MISS_S = 600
_CLEAN_INTERVAL_S = 86_400
_MAX_UNUSED_AGE_S = 604_800
_OURS = re.compile(rf"({DEBUGINFO}|{EXECUTABLE})(\.\w+)?")  # and their unfinished downloads
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")


class NotOnServersError(Exception):
    """All servers were asked recently, and did not have the file."""


class DebuginfodCache:
    """The folder of downloads.

    Args:
        folder: its path; created when a file is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, build_id: str, kind: str) -> str:
        """Return the path of a file, ``""`` if it is not in the cache.

        Raises:
            NotOnServersError: the servers did not have it recently; do not ask again yet.
        """
        if not is_usable(build_id):
            return ""
        path = self._path(build_id, kind)
        try:
            status = path.stat()
        except OSError:
            return ""
        if status.st_size:
            return str(path)
        if time.time() - status.st_mtime < self._seconds("cache_miss_s", _CACHE_MISS_S):
            raise NotOnServersError
        self.forget(build_id, kind)
        return ""

    def store(self, build_id: str, kind: str, fill: Callable[[BinaryIO], None]) -> str:
        """Store the file that ``fill`` writes; nothing is stored if it raises.

        Returns:
            the path of the file.

        Raises:
            OSError: the folder cannot be written, or is full.
        """
        path = self._path(build_id, kind)
        self._make(path.parent)
        descriptor, name = tempfile.mkstemp(prefix=f"{kind}.", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                fill(file)
            os.chmod(name, 0o400)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        return str(path)

    def store_missing(self, build_id: str, kind: str) -> None:
        """Record that no server has a file."""
        path = self._path(build_id, kind)
        with contextlib.suppress(OSError):
            self._make(path.parent)
            path.touch()

    def forget(self, build_id: str, kind: str) -> None:
        """Delete a file that is damaged, or an expired record of a missing file."""
        with contextlib.suppress(OSError):
            self._path(build_id, kind).unlink()

    def clean(self) -> None:
        """Delete files that were not read for a long time, once per interval."""
        mark = self.folder / "cache_clean_interval_s"
        try:
            if time.time() - mark.stat().st_mtime < self._seconds(mark.name, _CLEAN_INTERVAL_S):
                return
            os.utime(mark)
            oldest = time.time() - self._seconds("max_unused_age_s", _MAX_UNUSED_AGE_S)
            folders = [f for f in self.folder.iterdir() if _BUILD_ID.fullmatch(f.name)]
        except OSError:  # the folder does not exist, or we may not change it
            return
        for folder in folders:
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    status = path.lstat()
                    if _OURS.fullmatch(path.name) and max(status[7], status[8]) < oldest:
                        path.unlink()
                folder.rmdir()  # fails if the folder is not empty

    def _path(self, build_id: str, kind: str) -> Path:
        assert _BUILD_ID.fullmatch(build_id), build_id
        return self.folder / build_id / kind

    def _make(self, folder: Path) -> None:
        if not self.folder.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "cache_clean_interval_s").write_text(str(_CLEAN_INTERVAL_S))
        folder.mkdir(mode=0o700, exist_ok=True)

    def _seconds(self, name: str, default: int) -> int:
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return default


def is_usable(build_id: str) -> bool:
    """Return True for a build-id that files can be asked for by. The target chooses its own."""
    return _BUILD_ID.fullmatch(build_id) is not None


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that debuginfod's own client uses, unless somebody else controls it."""
    given = environment.get("DEBUGINFOD_CACHE_PATH", "")
    if given and is_ours(os.path.abspath(given)):
        return Path(given)
    home = own_home(environment) or Path("/")
    old = home / ".debuginfod_client_cache"
    if old.exists():
        return old
    return (cache_home(environment) or home / ".cache") / "debuginfod_client"
