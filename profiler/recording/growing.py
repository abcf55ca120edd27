"""A recording that somebody else makes, and whose file comes piece by piece.

Readers see it grow as if it were recorded here. Whatever the bytes are, nothing is taken that makes
no sense: the recording ends there, and what came before is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, cast

from ..errors import InputError
from ..model import Status
from .chunks import CHUNK, HEADER, MAX_CHUNK_BYTES, ChunkReader
from .kept_code import CODE, TEXT, KeptCode
from .names.given import Given
from .reader import Loading
from .recording import Recording
from .revision import Revision

_START_BYTES = HEADER.size


class Growing:
    """See the module. One thread adds bytes; any thread may read the recording.

    Args:
        name: what sends the bytes, for messages.
        complete: adds to the state that has come what is known here.

    Attributes:
        recording: what has come so far.
        n_bytes: how many bytes have come.
        damage: why no more is taken; "" while all is well.
    """

    def __init__(
        self, name: str, complete: Callable[[Status], Status] = lambda status: status
    ) -> None:
        self._name, self._complete = name, complete
        self._pieces = _Pieces()
        self._reader: ChunkReader | None = None
        self.n_bytes = 0
        self.damage = ""
        self._n_code = 0  # how often code has come
        self._code: tuple[int, KeptCode] | None = None  # what it was then
        self._changes = Revision(
            lambda: self._loading.found.profile.revision,
            lambda: self._loading.found.table.revision,
        )
        file = cast(BinaryIO, self._pieces)
        self._loading = Loading(
            file, name, (CODE, TEXT), is_stored=False, on_change=self._changes.notify
        )
        found = self._loading.found
        found.given = self._given = Given()
        self.recording = Recording(
            found.profile, found.table, self.status, self._changes, found.meta
        )

    def add(self, data: bytes) -> None:
        """Take bytes that follow those before."""
        self.n_bytes += len(data)
        if self.damage:
            return
        self._pieces.add(data)
        others = self._loading.found.others
        n_others = len(others)
        try:
            if self._reader is None:
                if self._pieces.n_bytes < _START_BYTES:
                    return
                self._pieces.begin(_START_BYTES)
                self._reader = ChunkReader(
                    cast(BinaryIO, self._pieces), self._name, self._loading.wants
                )
            self._loading.read(self._reader, self._reader)
        except InputError as error:
            self.damage = error.message
            return
        self.damage = self._reader.damage
        if len(others) > n_others:
            texts = [at for at, each in enumerate(others) if each.kind == TEXT]
            if len(texts) > 1:  # with the last ones has come all code that is known by then
                self._loading.forget_others(texts[-1])
            self._n_code += 1
        self.recording.meta.update(self._loading.found.meta)

    def finish(self) -> None:
        """Take note that all has come.

        Raises:
            InputError: it has nothing that can be read.
        """
        if self._reader is None:
            raise InputError(f"{self._name} sent no recording", "record again")
        if self._pieces.n_bytes and not self._reader.damage:
            self._reader.damage = "it ends inside a chunk"
        self._loading.finish(self._reader)
        self._changes.step()

    def code(self) -> KeptCode:
        """Return the texts and instructions that have come so far."""
        n_code, kept = self._n_code, self._code
        if kept is None or kept[0] != n_code:
            found = self._loading.found
            numbered = [found.table.functions[each] for each in self._given.functions]
            made = KeptCode(list(found.others), numbered, found.status.symbols)
            kept = self._code = n_code, made
        return kept[1]

    def status(self) -> Status:
        """Return the last state that has come, with what is known here."""
        found = self._loading.found
        profile = found.profile
        status = replace(
            found.status,
            revision=self._changes.current(),
            duration_ns=profile.duration_ns,
            samples=profile.samples,
        )
        return self._complete(status)

    def step(self) -> None:
        """Tell readers of a change that is not in the bytes."""
        self._changes.step()


class _Pieces:
    """A file that can be read while it comes: it ends before a chunk that is not whole."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._left = 0  # bytes of what is being read

    @property
    def n_bytes(self) -> int:
        """How many bytes have not been read."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        self._data += data

    def begin(self, n_bytes: int) -> None:
        """Let so many bytes be read, which are no chunk."""
        self._left = n_bytes

    def read(self, n_bytes: int) -> bytes:
        if not self._left and not self._begin_chunk():
            return b""
        found = bytes(self._data[:n_bytes])
        del self._data[:n_bytes]
        self._left -= len(found)
        return found

    def _begin_chunk(self) -> bool:
        if len(self._data) < CHUNK.size:
            return False
        n_stored = CHUNK.unpack_from(self._data)[2]
        if n_stored > MAX_CHUNK_BYTES:  # the reader says so
            self._left = CHUNK.size
            return True
        self._left = CHUNK.size + n_stored
        if len(self._data) < self._left:
            self._left = 0
            return False
        return True
