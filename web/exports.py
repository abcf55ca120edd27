"""Downloads: every export that the command line has, of what a page shows.

A file is built in the thread of its request, without any lock of the page, into a temporary file
that has no name. So its size is known before the first byte is sent, and an error is an answer.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import IO, Any, BinaryIO, cast

from flask import Response, abort
from werkzeug.wsgi import FileWrapper

from flametap.export import FORMATS, RECORDING, RECORDING_EXTENSION
from flametap.export.request import ExportRequest
from flametap.export.shaping import ShapedExport
from flametap.model import Status
from flametap.recording.recording import Recording
from flametap.tree.frame_filter import Language
from flametap.tree.selection import Selection
from flametap.tree.shape import PLAIN, Shape
from flametap.tree.shaper import Shaper

MAX_BYTES = 1 << 30  # 10^8 intervals as speedscope JSON
MAX_AT_ONCE = 2
IN_MEMORY_BYTES = 16 << 20  # more goes to the disk
CHUNK_BYTES = 1 << 16
_MAX_WORD = 60  # characters of a part of the file's name
NS_PER_S = 1_000_000_000
BINARY = "application/octet-stream"
WHOLE = {
    "name": RECORDING,
    "label": "Whole recording",
    "about": "all clocks, threads and times, for flametap open",
}


class Exports:
    """The exports of one recording.

    Args:
        recording: what is exported.
        shaper: shapes its trees.
    """

    def __init__(self, recording: Recording, shaper: Shaper) -> None:
        self._recording = recording
        self._shaper = shaper
        self._slots = threading.BoundedSemaphore(MAX_AT_ONCE)

    def formats(self) -> list[dict[str, str]]:
        """Return the formats for the page's menu."""
        kept = [WHOLE] if self._recording.copy_to is not None else []
        return kept + [
            {"name": name, "label": each.label, "about": each.about}
            for name, each in FORMATS.items()
        ]

    def response(self, name: str, selection: Selection, shape: Shape = PLAIN) -> Response:
        """Build a file and return it as a download.

        Args:
            name: of the format.
            selection: what is counted.
            shape: how it is shown.

        Raises:
            BadRequest: there is no such format.
            RequestEntityTooLarge: the file would be too large.
            ServiceUnavailable: others are being built.
            FlametapError: the recording could not be kept.
        """
        status, moment = self._recording.status(), time.strftime("-%Y%m%d-%H%M")
        copy_to = self._recording.copy_to
        if name == RECORDING and copy_to is not None:
            words = [each for each in (_program(status), str(status.pid or "")) if each]
            whole = f"{_safe(words)}{moment}{RECORDING_EXTENSION}"
            return self._built(copy_to, whole, BINARY)
        entry = FORMATS.get(name)
        if entry is None:
            abort(400, f"format must be one of {', '.join(FORMATS)}")

        def write(file: BinaryIO) -> None:
            request = ExportRequest(self._recording, selection)
            if shape.steps:
                request = replace(request, shaping=ShapedExport(self._shaper, shape))
            entry.write(request, file)

        download = file_name(status, selection, moment + entry.extensions[0], shape)
        return self._built(write, download, entry.mimetype)

    def _built(self, write: Callable[[BinaryIO], None], download: str, mimetype: str) -> Response:
        """Build a file, and return it as a download of that name."""
        if not self._slots.acquire(blocking=False):
            abort(503, "other exports are being built; try again in a moment")
        try:
            file = _Bounded()
            try:
                write(cast(Any, file))
            except BaseException:
                file.close()
                raise
        finally:
            self._slots.release()
        response = Response(file.rewound(), mimetype=mimetype, direct_passthrough=True)
        response.content_length = file.n_bytes
        response.headers["Content-Disposition"] = f'attachment; filename="{download}"'
        response.call_on_close(file.close)
        return response


def file_name(status: Status, selection: Selection, extension: str, shape: Shape = PLAIN) -> str:
    """Return a good name for a file, of characters that every system allows.

    Args:
        status: of the recording.
        selection: what is counted.
        extension: what the name ends with.
        shape: how it is shown.
    """
    words = ["flametap", _program(status), str(status.pid or ""), selection.clock.value]
    if selection.thread_ids is not None:
        n = len(selection.thread_ids)
        words.append(f"{n}thread{'s' * (n != 1)}")
    if selection.span is not None:
        start_ns, end_ns = selection.span.start_ns, selection.span.end_ns
        end = "" if end_ns is None else f"{end_ns / NS_PER_S:g}s"
        words.append(
            f"last{-start_ns / NS_PER_S:g}s" if start_ns < 0 else f"{start_ns / NS_PER_S:g}-{end}"
        )
    if selection.frames.language is not Language.ALL:
        words.append(selection.frames.language.value)
    if selection.frames.only_gil:
        words.append("gil")
    words += dict.fromkeys(step.verb.value for step in shape.steps)
    return _safe(words) + extension


def _program(status: Status) -> str:
    return status.program or status.command.split(" ")[0].rsplit("/", 1)[-1]


def _safe(words: Iterable[str]) -> str:
    """Join words by dashes, in characters that every system allows."""
    return "-".join(
        re.sub(r"[^\w.-]+", "_", word, flags=re.ASCII)[:_MAX_WORD] for word in words if word
    )


class _Bounded:
    """A temporary file that refuses to become too large."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115
        self.close = self._file.close

    def write(self, data: bytes) -> int:
        """Append data."""
        self.n_bytes += len(data)
        if self.n_bytes > MAX_BYTES:
            abort(413, f"this would be more than {MAX_BYTES >> 30} GiB; use flametap record -o")
        return self._file.write(data)

    def rewound(self) -> FileWrapper:
        """Return the file, to be read from its beginning."""
        self._file.seek(0)
        return FileWrapper(self._file, CHUNK_BYTES)
