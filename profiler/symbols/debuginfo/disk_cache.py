"""Keep symcaches on disk between sessions, in ``~/.cache/flametap/symcache``.

There is one file per debug file. Its name is the build-id and a fingerprint of the files from which
it was made. So a debug package installed later, or another file with the same build-id, gets its
own entry. Entries are written to a temporary file and renamed, so any number of processes may read
and write at once. Each entry has a checksum, because a symcache with a flipped bit gives wrong
names and not an error. Damaged entries are deleted and made again. Above the size limit, the least
recently used entries are deleted. If the folder cannot be written, there is no cache, but no error
either.

File: ``FTSYM1\\0\\0`` · u64 payload size · u32 CRC-32 of the payload · payload.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import tempfile
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from ..locate.open_file import OpenFile

MAX_BYTES = 1 << 30  # about 100 programs of node's size

_HEADER = struct.Struct("<8sQI")
_MAGIC = b"FTSYM1\0\0"
_SUFFIX = ".symcache"
_UNFINISHED = ".new-"
_UNFINISHED_S = 3600  # a temporary file of this age is left over from a killed process
_BUILD_ID = re.compile(r"[0-9a-f]{4,64}")
# A fingerprint reads this many blocks of a file, evenly spread.
_SAMPLES = 64
_SAMPLE_BYTES = 4096


def default_dir() -> Path | None:
    """Return ``$XDG_CACHE_HOME/flametap/symcache``, default ``~/.cache``; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "flametap" / "symcache" if os.path.isabs(base) else None


def entry_key(build_id: str, files: Iterable[OpenFile]) -> str:
    """Return the name of the entry that is made from these files; ``""`` without a usable build-id.

    A build-id alone is not enough: a file that pretends to be libc must not determine libc's names
    in the next session. Reading each file completely would take longer than having no cache.

    Raises:
        ValueError: a file can no longer be read (``ElfError``).
    """
    if not _BUILD_ID.fullmatch(build_id):
        return ""
    digest = hashlib.sha256()
    for file in files:
        digest.update(struct.pack("<Q", file.size))
        step = max(file.size // _SAMPLES, _SAMPLE_BYTES)
        for offset in range(0, file.size, step):
            digest.update(file.read(offset, _SAMPLE_BYTES))
    return f"{build_id}-{digest.hexdigest()[:16]}"


class DiskCache:
    """A folder of symcaches. Any number of processes may use it at once.

    Args:
        folder: the folder; by default :func:`default_dir`.
        max_bytes: limit for the size of all entries together.

    Attributes:
        note: why entries cannot be kept, ``""`` while they can.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder or default_dir()
        self.max_bytes = max_bytes
        self.note = "" if self.folder else "symbols are not kept for next time: no home folder"

    def load(self, key: str) -> bytes | None:
        """Return the payload of an entry; ``None`` if there is none or it is damaged."""
        path = self._path(key)
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size > self.max_bytes + _HEADER.size:
                    return None
                header = file.read(_HEADER.size)
                payload = file.read()
        except OSError:
            return None
        is_whole = len(header) == _HEADER.size and header == _header(payload)
        with contextlib.suppress(OSError):
            if is_whole:
                os.utime(path)  # the time of the last use, for _prune
            else:
                path.unlink()
        return payload if is_whole else None

    def save(self, key: str, payload: bytes) -> None:
        """Store a payload. On failure, only set ``note``."""
        path = self._path(key)
        if path is None or len(payload) > self.max_bytes:
            return
        temporary = ""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
            with open(handle, "wb") as file:
                file.write(_header(payload))
                file.write(payload)
            os.replace(temporary, path)
        except OSError as error:
            self.note = f"symbols are not kept for next time: {error.strerror}: {path.parent}"
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._prune(keep=path)

    def forget(self, key: str) -> None:
        """Delete an entry that cannot be used."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def _path(self, key: str) -> Path | None:
        return self.folder / f"{key}{_SUFFIX}" if self.folder and key else None

    def _prune(self, keep: Path) -> None:
        """Delete the least recently used entries until the folder is within its size limit."""
        entries = []
        oldest_unfinished = time.time() - _UNFINISHED_S
        try:
            listing = list(os.scandir(keep.parent))
        except OSError:
            return
        for entry in listing:
            with contextlib.suppress(OSError):  # another process may delete it, too
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime_ns, status.st_size, entry.path))
                elif entry.name.startswith(_UNFINISHED) and status.st_mtime < oldest_unfinished:
                    os.unlink(entry.path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            if path != str(keep):
                total -= size
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _header(payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload))
