"""Keep a recording in a file while it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

from ..errors import OutputError
from ..recording.recording import Recording

if TYPE_CHECKING:
    from ..recording.chunks import Chunk

# Between two readings of the agent's ring, which the agent fills every 100 ms: a file that is cut
# at any moment misses no more than a quarter of a second.
KEPT_S = 0.14


class Keeper:
    """Writes a file as the recording grows. Any thread may call.

    Args:
        file: open for writing, empty.
        path: its name, for messages.
        recording: still empty.

    Attributes:
        error: why nothing is written any more; None while all is well.
        path: of the file.
    """

    def __init__(self, file: BinaryIO, path: str, recording: Recording) -> None:
        from ..recording.writer import RecordingWriter

        self.error: OutputError | None = None
        self._file, self.path = file, path
        self._lock = threading.Lock()
        recording.process.profile.keep_new()
        self._writer = RecordingWriter(file, recording)

    def step(self) -> None:
        """Write what is new."""
        self._do(self._writer.step)

    def finish(self, more: Iterable[Chunk] = ()) -> None:
        """Write the rest, and close the file. Does nothing the second time.

        Args:
            more: chunks that the file has, too.
        """
        self._do(lambda: self._writer.finish(more))
        self._do(self._file.close)

    def _do(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self.error is not None or self._file.closed:
                return
            try:
                work()
            except OSError as error:
                self.error = OutputError(
                    f"cannot write {self.path} any further: {error.strerror or error}",
                    "what was written before can be opened",
                )
