"""Read and write the chunks of a recording file.

``docs/recording-format.md`` specifies them. A file is a header and chunks. A chunk has a kind, the
process it is about, facts (JSON) and columns of numbers. Its bytes do not depend on other chunks,
so a file that was cut is good up to its last whole chunk.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson
import zstandard

from ..errors import InputError

MAGIC = b"\x93flametap\r\n\x1a"
VERSION = 1
HEADER = struct.Struct("<12sI")  # magic, version
# Kind, process, bytes as stored, bytes as they were packed, CRC-32 of these and of what is stored.
CHUNK = struct.Struct("<4sIIII")
MAX_CHUNK_BYTES = 1 << 26
MAX_COUNT = 1 << 24  # of numbers in a column: some take a byte in a file, and eight in memory
DTYPES = ("<i8", "<u8", "<i4", "<u4", "<i2", "<u2", "|u1")
_LIMITS = [
    (text, int(np.iinfo(text).min), int(np.iinfo(text).max))
    for text in ("|u1", "<u2", "<i2", "<u4", "<i4", "<i8", "<u8")
]
_ALIGNMENT = 8
_LEVEL = 2  # of zstd: higher ones take more time than a recording may
_OF_THREAD = threading.local()
_COUNT = struct.Struct("<I")

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Chunk:
    """One chunk.

    Attributes:
        kind: four letters.
        facts: what JSON can hold, by name.
        columns: integers, by name; they are stored in the smallest type of ``DTYPES``.
        process: number of the process that it is about, counted from 0.
        offset: position in the file.
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=dict)
    process: int = 0
    offset: int = 0

    def column(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a column as another type; an empty one if there is none of this name.

        Raises:
            DamageError: a number does not fit into the type.
        """
        found, wanted = self.columns.get(name), np.dtype(dtype)
        if found is None:
            return np.empty(0, wanted)
        if found.dtype != wanted and len(found):
            limits = np.iinfo(wanted.str)
            if int(found.min()) < limits.min or int(found.max()) > limits.max:
                raise DamageError(f"a number in its column {name} is too large")
        return found.astype(wanted)


def narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers as the smallest type of a chunk that holds them."""
    if not len(column):
        return column.astype("|u1")
    least, most = int(column.min()), int(column.max())
    for text, lowest, highest in _LIMITS:
        if lowest <= least and most <= highest:
            return column.astype(text)
    raise ValueError("a column is not of integers")


class ChunkSizeError(ValueError):
    """A chunk would be larger than a reader allows."""


class DamageError(ValueError):
    """A chunk does not hold what it should. The message says what is wrong, without its place."""


def header() -> bytes:
    """Return the first bytes of a file."""
    return HEADER.pack(MAGIC, VERSION)


def encode(chunk: Chunk) -> bytes:
    """Return the bytes of a chunk.

    Raises:
        ChunkSizeError: it is too large.
        ValueError: a column is not of integers.
    """
    described, parts = [], []
    for name, column in chunk.columns.items():
        if len(column):
            column = narrow(column)
            raw = column.tobytes()
            described.append([name, column.dtype.str, len(column)])
            parts += [raw, bytes(-len(raw) % _ALIGNMENT)]
    facts = _json({**chunk.facts, "columns": described})
    facts += b" " * (-(_COUNT.size + len(facts)) % _ALIGNMENT)
    packed = b"".join((_COUNT.pack(len(facts)), facts, *parts))
    if len(packed) > MAX_CHUNK_BYTES:
        raise ChunkSizeError(f"a chunk of {len(packed):,} bytes is too large")
    stored = _compressor().compress(packed)
    start = chunk.kind.encode("ascii"), chunk.process, len(stored), len(packed)
    return CHUNK.pack(*start, _checksum(start, stored)) + stored


def _compressor() -> zstandard.ZstdCompressor:
    """Return the one of this thread: two threads cannot use one at a time."""
    found: zstandard.ZstdCompressor | None = getattr(_OF_THREAD, "compressor", None)
    if found is None:
        found = _OF_THREAD.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return found


def _json(facts: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(facts)
    except orjson.JSONEncodeError:
        return orjson.dumps(_without_surrogates(facts))


def _without_surrogates(value: Any) -> Any:
    """Return the same value; its texts have "?" for bytes that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        pairs = value.items()
        return {_without_surrogates(key): _without_surrogates(each) for key, each in pairs}
    if isinstance(value, Sequence):
        return [_without_surrogates(each) for each in value]
    return value


def _checksum(start: tuple[bytes, int, int, int], stored: bytes) -> int:
    return zlib.crc32(stored, zlib.crc32(CHUNK.pack(*start, 0)))


class ChunkReader:
    """Read the chunks of a file, in order.

    Args:
        file: open for reading, at its start.
        name: for messages.
        wanted: says of a kind, and of the bytes that a chunk takes unpacked, whether that one is
            unpacked. By default all are.

    Attributes:
        end: position after the last whole chunk so far.
        damage: why the file cannot be read beyond ``end``; "" if nothing is wrong.

    Raises:
        InputError: the file is no recording, or of a newer version.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        wanted: Callable[[str, int], bool] = lambda kind, n_bytes: True,
    ) -> None:
        self._file = file
        self._wanted = wanted
        self.damage = ""
        start = file.read(HEADER.size)
        if len(start) < HEADER.size or HEADER.unpack(start)[0] != MAGIC:
            raise InputError(
                f"{name} is no recording of flametap",
                "'flametap record' makes one, and 'flametap export FILE' one of another profiler's"
                " file: -o NAME.flametap",
            )
        version = HEADER.unpack(start)[1]
        if not 1 <= version <= VERSION:
            raise InputError(
                f"{name} is of version {version} of the format, and this flametap reads up to"
                f" {VERSION}",
                "open it with the flametap that wrote it, or a newer one",
            )
        self.end = HEADER.size

    def __iter__(self) -> Iterator[Chunk]:
        """Read to the end, or to the first byte that makes no sense."""
        while True:
            try:
                found = self._next()
            except DamageError as error:
                self.damage = str(error)
                return
            if found is None:
                return
            if found.kind:
                yield found

    def at(self, offset: int) -> Chunk | None:
        """Return the chunk at a position; None at the end of the file.

        Raises:
            DamageError: there is none.
        """
        self._file.seek(offset)
        self.end = offset
        return self._next()

    def from_place(self, offset: int) -> Iterator[Chunk]:
        """Read from a position to the end, or to the first byte that makes no sense."""
        self._file.seek(offset)
        self.end = offset
        yield from self

    def bytes_at(self, offset: int, n_bytes: int) -> bytes:
        """Return some bytes of the file, fewer at its end."""
        self._file.seek(offset)
        return self._file.read(n_bytes)

    def stop(self, chunk: Chunk, why: str) -> None:
        """Say that a chunk that was read makes no sense: the file ends before it."""
        self.damage, self.end = why, chunk.offset

    def _next(self) -> Chunk | None:
        """Return the next chunk, without a kind if it is not wanted; None at the end."""
        start = self._file.read(CHUNK.size)
        if not start:
            return None
        if len(start) < CHUNK.size:
            raise DamageError("it ends inside a chunk")
        kind, process, n_stored, n_packed, checksum = CHUNK.unpack(start)
        if n_stored > MAX_CHUNK_BYTES or n_packed > MAX_CHUNK_BYTES:
            raise DamageError("a chunk claims to be too large")
        stored = self._file.read(n_stored)
        if len(stored) < n_stored:
            raise DamageError("it ends inside a chunk")
        if _checksum((kind, process, n_stored, n_packed), stored) != checksum:
            raise DamageError("a checksum is wrong")
        offset, name = self.end, kind.decode("ascii", "replace")
        is_wanted = self._wanted(name, n_packed)
        facts, columns = _decode(stored, n_packed) if is_wanted else ({}, {})
        self.end += CHUNK.size + n_stored
        return Chunk(name if is_wanted else "", facts, columns, process, offset)


def _decode(stored: bytes, n_packed: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    packed = _unpack(stored, n_packed)
    if len(packed) < _COUNT.size:
        raise DamageError("a chunk is empty")
    at = _COUNT.size + _COUNT.unpack_from(packed)[0]
    try:
        facts = orjson.loads(packed[_COUNT.size : at])
    except orjson.JSONDecodeError:
        raise DamageError("the facts of a chunk are no JSON") from None
    described = facts.pop("columns", None) if isinstance(facts, dict) else None
    if not isinstance(described, list):
        raise DamageError("a chunk does not describe its columns")
    columns = {}
    for each in described:
        match each:
            case [str(name), str(dtype), int(count)] if dtype in DTYPES and 0 <= count <= MAX_COUNT:
                n_bytes = count * np.dtype(dtype).itemsize
                if at + n_bytes > len(packed):
                    raise DamageError(f"the column {name[:20]} is longer than its chunk")
                columns[name] = np.frombuffer(packed, dtype, count, at)
                at += n_bytes + -n_bytes % _ALIGNMENT
            case _:
                raise DamageError("a chunk has a column of an unknown kind")
    return facts, columns


def _unpack(stored: bytes, n_packed: int) -> bytes:
    try:
        frame = zstandard.get_frame_parameters(stored)
        if frame.content_size != n_packed or frame.window_size > MAX_CHUNK_BYTES:
            raise DamageError("a chunk has another size than it claims")
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=n_packed)
    except zstandard.ZstdError:
        raise DamageError("a chunk cannot be unpacked") from None
