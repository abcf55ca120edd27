"""Keep a recording in a file while it is made."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO, cast

from ..errors import OutputError
from ..recording.figures import duration
from ..recording.recording import Recording

if TYPE_CHECKING:
    from ..recording.chunks import Chunk

# Between two readings of the agent's ring, which the agent fills every 100 ms: a file that is cut
# at any moment misses no more than a quarter of a second.
KEPT_S = 0.14
_PIECE_BYTES = 1 << 20


class Keeper:
    """Writes a file as the recording grows. Any thread may call.

    Args:
        file: open for writing, empty.
        path: its name, for messages.
        recording: still empty.
        with_sources: False leaves out source texts, and the arguments of the program.
        with_index: a reader can open it without reading all of it.

    Raises:
        OSError: nothing can be written; the file is closed.

    Attributes:
        error: why nothing is written any more; None while all is well.
        path: of the file.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        recording: Recording,
        *,
        with_sources: bool = True,
        with_index: bool = True,
    ) -> None:
        from ..recording.writer import RecordingWriter

        self.error: OutputError | None = None
        self._file, self.path = file, path
        self._lock = threading.Lock()
        self._recording = recording
        self._with_sources = with_sources
        try:
            self._writer = RecordingWriter(
                file, recording, with_arguments=with_sources, with_index=with_index
            )
        except OSError:
            self.close()
            raise
        recording.profile.keep_new()
        recording.copy_to = self.copy_to

    def step(self) -> None:
        """Write what is new."""
        self._do(self._writer.step)

    def write_code(self) -> None:
        """Write the source texts and instructions of all that is named so far."""
        code = list(self._code())
        self._do(lambda: self._writer.add(code))

    def finish(self, *, with_code: bool = True) -> None:
        """Write the rest, and close the file. Does nothing the second time.

        Args:
            with_code: write source texts and instructions, too; all names are found by now.
        """
        self._do(lambda: self._writer.finish(self._code() if with_code else ()))
        self._do(self._file.close)
        self.close()

    def _code(self) -> Iterable[Chunk]:
        from ..code.code_to_keep import code_chunks

        return code_chunks(self._recording, with_sources=self._with_sources)

    def close(self) -> None:
        """Close the file as it is."""
        with self._lock, contextlib.suppress(OSError):  # what could not be written is lost
            self._file.close()

    def copy_to(self, copy: BinaryIO) -> None:
        """Write a copy of what has been recorded so far, with its names and code.

        Raises:
            OutputError: the file could not be written to its end.
            OSError: the copy cannot be written, or the file cannot be read.
        """
        from ..recording.chunks import encode

        code = self._code_so_far()
        with self._lock:
            left = os.path.getsize(self.path)
            rest = [] if self._file.closed else list(self._writer.rest(code))
        with open(self.path, "rb") as file:  # which grows meanwhile
            while left:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OutputError(f"{self.path} has become shorter", "record again")
                copy.write(piece)
                left -= len(piece)
        for chunk in rest:
            copy.write(encode(chunk))

    def _code_so_far(self) -> list[Chunk]:
        """Write what is new, and return what a copy has of the code.

        It is made before the names of the copy are taken, which thus have all of its functions,
        and without the lock: that takes seconds, for which the recording does not wait.

        Raises:
            OutputError: the file could not be written to its end.
        """
        self.step()
        if self.error is not None:
            raise self.error
        return [] if self._file.closed else list(self._code())

    def _do(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self.error is not None or self._file.closed:
                return
            try:
                work()
            except OSError as error:
                self._recording.profile.forget_new()
                self.error = OutputError(
                    f"cannot write {self.path} any further: {error.strerror or error}",
                    "what was written before can be opened",
                )


class Kept:
    """A recording that may be kept in a file while it is made.

    Attributes:
        recording: it.
        keeper: of the file; None without one.
    """

    recording: Recording
    keeper: Keeper | None = None

    def keep_in(self, file: BinaryIO, path: str, *, with_sources: bool = True) -> None:
        """Keep the recording in a file. To be called before it begins.

        Args:
            file: open for writing, empty; closed by ``close`` at the latest.
            path: its name, for messages.
            with_sources: False leaves out source texts, and the arguments of the program.
        """
        self.keeper = Keeper(file, path, self.recording, with_sources=with_sources)

    def keep_last(self, folder: str, keep_s: float, *, with_sources: bool = True) -> None:
        """Keep only the last ``keep_s`` seconds, in a folder; see ``keep_in``."""
        self.keeper = RollingKeeper(folder, keep_s, self.recording, with_sources=with_sources)


class RollingKeeper(Keeper):
    """Keeps the last part of a recording, of which copies are made.

    Args:
        folder: for its files; an empty one of its own.
        keep_s: how much is kept, seconds.
        recording: still empty.
        with_sources: see ``Keeper``.
    """

    def __init__(
        self, folder: str, keep_s: float, recording: Recording, *, with_sources: bool = True
    ) -> None:
        from ..recording.rolling import RollingFile

        self._rolling = RollingFile(folder, keep_s)
        self._keep_ns = round(keep_s * 1e9)
        file = cast(BinaryIO, self._rolling)
        super().__init__(file, folder, recording, with_sources=with_sources, with_index=False)

    def copy_to(self, copy: BinaryIO) -> None:
        """See ``Keeper.copy_to``: of what is kept."""
        code = self._code_so_far()
        profile = self._recording.profile
        start_ns = max(profile.start_ns, profile.now_ns - self._keep_ns)
        shift_s = (start_ns - profile.start_ns) / 1e9
        with self._lock:
            *more, state = self._writer.rest(code)
            facts = {**state.facts, "started_s": state.facts["started_s"] + shift_s}
            if shift_s > 0:
                note = f"the recording began {duration(shift_s)} earlier: the last part is kept"
                facts["notes"] = [*facts["notes"], note]
            last = dataclasses.replace(state, facts=facts)
            self._rolling.write_out(copy, start_ns, (*more, last))
