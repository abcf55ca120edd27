"""Keep the recording in a file while it is made: an output of the format ``flametap``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .outputs import Output
from .progress import Progress

if TYPE_CHECKING:
    from ..capture.live import Capture


@contextlib.contextmanager
def keeping(capture: Capture, outputs: Sequence[Output]) -> Iterator[None]:
    """Keep a recording that has not begun in the file that ``outputs`` names, if one does.

    A file without anything in it is removed at the end.

    Raises:
        OutputError: it cannot be written.
    """
    path = next((each.path_for(capture.pid, time.time()) for each in outputs if is_kept(each)), "")
    if not path:
        yield
        return
    from ..export import destination

    capture.keep_in(destination.open_new(path), path)
    try:
        yield
    finally:
        assert capture.keeper is not None
        capture.keeper.finish()
        if not capture.profile.start_ns:
            with contextlib.suppress(OSError):
                os.unlink(path)


def is_kept(output: Output) -> bool:
    """Tell whether an output is written while the recording is made."""
    from ..export import RECORDING

    return output.format == RECORDING


def finish_kept(capture: Capture, progress: Progress) -> None:
    """Write the rest of the file: the last samples, source texts, and instructions.

    Raises:
        OutputError: it could not be written to its end.
    """
    keeper = capture.keeper
    if keeper is None:
        return
    from ..analysis.kept_code import code_chunks

    progress.step(f"writing {keeper.path}")
    keeper.finish(code_chunks(capture.profile, capture.table, capture.code_source()))
    if keeper.error is not None:
        raise keeper.error
    progress.say(f"wrote {keeper.path} (the whole recording: 'flametap open' shows it)")
