"""Read a file that may be compressed, as far as it is reasonable."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import zstandard

from ..errors import InputError

MAX_BYTES = 1 << 30  # of what is read at once, unpacked: ten times as much in memory
HEAD_BYTES = 1 << 16
N_FIRST_LINES = 50  # by which a format is recognised
MAX_LINE = 1 << 20  # bytes
_PIECE = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"  # behind the first byte of a frame of zstd without data
_ZSTD_BYTES = 1 << 11  # at a time: four of them may become 128 KiB


class Unpacked(io.RawIOBase):
    """The contents of a file, which are unpacked as they are read.

    Args:
        file: open for reading, at its start.
        name: of the file, for messages.

    Attributes:
        head: the first bytes; they are read again.

    Raises:
        InputError: it cannot be unpacked; so do all methods.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = _unpacking(file)
        self._offset = 0
        self.head = self._left = self._read(HEAD_BYTES)

    def readable(self) -> bool:
        """See ``io``."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See ``io``."""
        found = self._left[: len(buffer)] or self._read(len(buffer))
        self._left = self._left[len(found) :]
        buffer[: len(found)] = found
        return len(found)

    def all(self) -> bytes:
        """Return everything, up to a limit."""
        pieces, size = [], 0
        while piece := self.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BYTES:
                raise InputError(
                    f"{self.name} has more than {MAX_BYTES >> 30} GiB, unpacked",
                    "write a shorter time of it, or folded stacks, which are read line by line",
                )
        return b"".join(pieces)

    def lines(self) -> Iterator[str]:
        """Yield the lines; see ``lines_of``."""
        return lines_of(io.BufferedReader(self, _PIECE))

    def _read(self, size: int) -> bytes:
        try:
            found = self._file.read(size)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(
                f"{self.name} cannot be unpacked beyond byte {self._offset:,}: {error}",
                "copy it again",
            ) from error
        self._offset += len(found)
        return found


def lines_of(file: io.BufferedReader) -> Iterator[str]:
    """Yield lines without their ends, long ones in pieces. What is not UTF-8 becomes U+FFFD."""
    while line := file.readline(MAX_LINE):
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def first_lines(head: bytes) -> list[str]:
    """Return the lines at the start of a text file, at most so many; none if it is no text."""
    if b"\0" in head:
        return []
    lines = head.decode("utf-8", "replace").split("\n", 4 * N_FIRST_LINES)
    if (len(lines) > 1 and len(head) >= HEAD_BYTES) or len(lines) > 4 * N_FIRST_LINES:
        lines.pop()  # it may not be whole
    return [line.rstrip("\r") for line in lines]


def _unpacking(file: BinaryIO) -> BinaryIO:
    start = file.read(len(_ZSTD))
    file.seek(0)
    if start.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if start == _ZSTD or (start[1:] == _SKIPPED and start[0] >> 4 == 5):
        return cast(BinaryIO, _Zstd(file))
    return file


class _Zstd:
    """Unpacks frames of zstd, one after another.

    The ``stream_reader`` of zstandard does not tell a frame that was cut from a whole one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packed = b""
        self._frame: Any = None  # that has begun
        self._unpacked = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end. Raises EOFError, or zstandard.ZstdError."""
        pieces = [self._unpacked.read(size)]
        left = size - len(pieces[0])
        while left and self._advance():
            pieces.append(self._unpacked.read(left))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def _advance(self) -> bool:
        """Unpack some more; return False at the end."""
        packed = self._packed or self._file.read(_ZSTD_BYTES)
        if not packed:
            if self._frame is not None:
                raise EOFError("it ends too early")
            return False
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._unpacked = io.BytesIO(self._frame.decompress(packed))
        self._packed = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return True
