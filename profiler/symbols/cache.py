"""Symcaches kept on disk between sessions, in ``~/.cache/flametap/symcache``.

One file per debug file, named by build-id and size of the file it was made from, so that a debug
package installed later gives a new entry. Entries are written to a temporary file and renamed;
each carries a checksum, because a symcache with a flipped bit gives wrong names instead of an
error. Damaged entries are removed and made again. The oldest are deleted above the size cap. A
folder that cannot be written to means no cache, not an error.

File: ``FTSYM1\\0\\0`` · u64 payload size · u32 CRC-32 of the payload · payload.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import zlib
from pathlib import Path

from flametap.symbols.symcache import FORMAT_VERSION

MAX_BYTES = 1 << 30  # about 100 programs of node's size

_HEADER = struct.Struct("<8sQI")
_MAGIC = b"FTSYM1\0\0"
_SUFFIX = ".symcache"


def default_dir() -> Path:
    """``$XDG_CACHE_HOME/flametap/symcache``, by default under ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return root / "flametap" / "symcache"


class DiskCache:
    """A folder of symcaches. Any number of processes may use it at once.

    Attributes:
        note: why entries cannot be kept, ``""`` while they can.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder or default_dir()
        self.max_bytes = max_bytes
        self.note = ""

    def load(self, build_id: str, source_size: int) -> bytes | None:
        """The payload for a build-id; ``None`` if there is none or it is damaged."""
        path = self._path(build_id, source_size)
        try:
            with open(path, "rb") as file:
                header = file.read(_HEADER.size)
                payload = file.read()
        except OSError:
            return None
        is_whole = len(header) == _HEADER.size and header == _header(payload)
        with contextlib.suppress(OSError):
            if is_whole:
                os.utime(path)  # the cap deletes what was not used for longest
            else:
                path.unlink()
        return payload if is_whole else None

    def save(self, build_id: str, source_size: int, payload: bytes) -> None:
        """Keeps a payload; on failure leaves a note and nothing else."""
        path = self._path(build_id, source_size)
        temporary = ""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            with open(handle, "wb") as file:
                file.write(_header(payload))
                file.write(payload)
            os.replace(temporary, path)
        except OSError as error:
            self.note = f"symbols are not kept for next time: {error.strerror}: {self.folder}"
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._prune(keep=path)

    def _path(self, build_id: str, source_size: int) -> Path:
        return self.folder / f"{build_id}-{source_size:x}-v{FORMAT_VERSION}{_SUFFIX}"

    def _prune(self, keep: Path) -> None:
        """Deletes the least recently used entries until the folder is under its cap."""
        entries = []
        try:
            with os.scandir(self.folder) as listing:
                for entry in listing:
                    if entry.name.endswith(_SUFFIX):
                        stat = entry.stat()
                        entries.append((stat.st_mtime_ns, stat.st_size, entry.path))
        except OSError:
            return
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            if path != str(keep):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    total -= size


def _header(payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload))
