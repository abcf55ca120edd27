"""Files of recordings that tests have made up."""

from __future__ import annotations

import io
from pathlib import Path

from flametap.recording.recording import Recording
from flametap.recording.writer import RecordingWriter


def write_recording(path: Path, recording: Recording) -> Path:
    """Write a recording that has ended to a file; return its path."""
    file = io.BytesIO()
    writer = RecordingWriter(file, recording)
    writer.finish()
    path.write_bytes(file.getvalue())
    return path
