"""Keep symcaches on disk between sessions, in ``~/.cache/flametap/symcache``.

There is one file per debug file. Its name is the build-id and a hash of everything from which it
was made: each file's bytes, and who may write it (``locate.owners``). So a debug package installed
later, or another file with the same build-id, gets its own entry, and no user can plant names in an
entry that is made from another user's files. Files that anybody may write have no entries.

The folder and its entries are used only if they are ours, and nobody else may write them. Entries
are written to a temporary file and renamed, so any number of processes may read and write at once.
Each entry has a checksum, because a symcache with a flipped bit gives wrong names and not an error.
Damaged entries are deleted and made again. Above the size limit, the least recently used entries
are deleted. If the folder cannot be used, there is no cache, but no error either.

File: ``FTSYM1\\0\\0`` · u64 payload size · u32 CRC-32 of the payload · payload.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...linux.homes import cache_home
from ..locate.open_file import OpenFile
from ..locate.owners import identity, writers

MAX_BYTES = 1 << 30  # about 100 programs of node's size
# A file is hashed at 1 GB/s, and its debug information read at 40 MB/s. The largest debug file of
# Debian, chromium's, has 2 GB.
MAX_KEYED_BYTES = 4 << 30

_HEADER = struct.Struct("<8sQI")
_MAGIC = b"FTSYM1\0\0"
_SUFFIX = ".symcache"
_UNFINISHED = ".new-"
_UNFINISHED_S = 3600  # a temporary file of this age is left over from a killed process
_BUILD_ID = re.compile(r"[0-9a-f]{4,64}")
_CHUNK_BYTES = 1 << 20
_KEPT_HASHES = 4096
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

# Device, inode, size, and the times of the last changes: while they stay, so does the hash.
_Version = tuple[int, int, int, int, int]


def default_dir() -> Path | None:
    """Return ``$XDG_CACHE_HOME/flametap/symcache``, default ``~/.cache``; None without a home."""
    base = cache_home(os.environ)
    return None if base is None else base / "flametap" / "symcache"


class EntryKeys:
    """Names entries. Keeps the hashes of files that did not change. Any thread may use it."""

    def __init__(self) -> None:
        self._hashes: dict[_Version, bytes] = {}

    def of(self, build_id: str, files: Iterable[OpenFile]) -> str:
        """Return the name of the entry that is made from these files; ``""`` for no entry.

        There is none without a usable build-id, for a file that anybody may write, and for one of
        more than ``MAX_KEYED_BYTES``.

        A build-id alone is not enough: a file that pretends to be libc must not determine libc's
        names in the next session. So each file is hashed completely.

        Raises:
            ValueError: a file can no longer be read (``ElfError``).
        """
        if not _BUILD_ID.fullmatch(build_id):
            return ""
        digest = hashlib.blake2b(digest_size=20)
        for file in files:
            who = writers(file)
            if not who or file.size > MAX_KEYED_BYTES:
                return ""
            # A user id means another user there. It is enough that the entry is for this one file.
            where = identity(file) if file.root.path else ""
            digest.update(f"{who} {where}\0".encode())
            digest.update(self._hash(file))
        return f"{build_id}-{digest.hexdigest()}"

    def _hash(self, file: OpenFile) -> bytes:
        status = os.fstat(file.fileno())
        version = (
            *(status.st_dev, status.st_ino, status.st_size),
            *(status.st_mtime_ns, status.st_ctime_ns),
        )
        known = self._hashes.get(version)
        if known is None:
            digest = hashlib.blake2b()
            for offset in range(0, file.size, _CHUNK_BYTES):
                digest.update(file.read(offset, _CHUNK_BYTES))
            if len(self._hashes) >= _KEPT_HASHES:
                self._hashes.clear()
            known = self._hashes[version] = digest.digest()
        return known


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
        self.note = (
            "" if self.folder else "symbols are not kept for next time: no home folder of ours"
        )

    def load(self, key: str) -> bytes | None:
        """Return the payload of an entry; ``None`` if there is none, it is damaged or not ours."""
        with contextlib.suppress(OSError), self._opened(key) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(key + _SUFFIX, flags, dir_fd=folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not _is_ours(status, stat.S_ISREG):
                    return None
                if status.st_size > self.max_bytes + _HEADER.size:
                    return None
                header = file.read(_HEADER.size)
                payload = file.read()
                is_whole = len(header) == _HEADER.size and header == _header(payload)
                if is_whole:
                    with contextlib.suppress(OSError):
                        os.utime(descriptor)  # the time of the last use, for _prune
                    return payload
            os.unlink(key + _SUFFIX, dir_fd=folder)
        return None

    def save(self, key: str, payload: bytes) -> None:
        """Store a payload. On failure, only set ``note``."""
        if self.folder is None or not key or len(payload) > self.max_bytes:
            return
        try:
            with self._opened(key, make=True) as folder:
                self._write(folder, key + _SUFFIX, payload)
                self._prune(folder, keep=key + _SUFFIX)
        except OSError as error:
            self.note = f"symbols are not kept for next time: {error.strerror}: {self.folder}"

    def forget(self, key: str) -> None:
        """Delete an entry that cannot be used."""
        with contextlib.suppress(OSError), self._opened(key) as folder:
            os.unlink(key + _SUFFIX, dir_fd=folder)

    @contextlib.contextmanager
    def _opened(self, key: str, *, make: bool = False) -> Iterator[int]:
        """Open the folder. Whatever happens to its name, the descriptor stays with it.

        Raises:
            OSError: there is no folder, it is not ours, or others may write to it; or no ``key``.
        """
        if self.folder is None or not key:
            raise FileNotFoundError(errno.ENOENT, "no folder")
        if make:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.folder, flags)
        try:
            if not _is_ours(os.fstat(folder), stat.S_ISDIR):
                what = "the folder belongs to another user, or others may write to it"
                raise PermissionError(errno.EPERM, what)
            yield folder
        finally:
            os.close(folder)

    @staticmethod
    def _write(folder: int, name: str, payload: bytes) -> None:
        temporary = _UNFINISHED + secrets.token_hex(8)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(_header(payload))
                file.write(payload)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _prune(self, folder: int, keep: str) -> None:
        """Delete the least recently used entries until the folder is within its size limit."""
        entries = []
        oldest_unfinished = time.time() - _UNFINISHED_S
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):  # another process may delete it, too
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime_ns, status.st_size, entry.name))
                elif entry.name.startswith(_UNFINISHED) and status.st_mtime < oldest_unfinished:
                    os.unlink(entry.name, dir_fd=folder)
        total = sum(size for _, size, _ in entries)
        for _, size, name in sorted(entries):
            if total <= self.max_bytes:
                break
            if name != keep:
                total -= size
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Return True for a file of that kind that nobody but us and root may write."""
    return (
        is_kind(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & _OTHERS_WRITE
    )


def _header(payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload))
