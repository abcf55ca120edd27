"""Keep the recording in a file while it is made: an output of the format ``flametap``."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..linux import procfs
from ..linux.command_line import program_name
from .outputs import Output
from .progress import Progress

if TYPE_CHECKING:
    from ..capture.live import Capture


@contextlib.contextmanager
def keeping(
    capture: Capture,
    outputs: Sequence[Output],
    *,
    with_sources: bool = True,
    for_page: bool = False,
) -> Iterator[None]:
    """Keep a recording that has not begun in the file that ``outputs`` names, if one does.

    A file without anything in it is removed at the end.

    Args:
        capture: of the recording.
        outputs: of the command.
        with_sources: False leaves out source texts, and the arguments of the program.
        for_page: else keep it in a temporary file, of which a page can save a copy.

    Raises:
        OutputError: it cannot be written.
    """
    output = next(filter(is_kept, outputs), None)
    if output is None:
        with _temporary(capture, with_sources) if for_page else contextlib.nullcontext():
            yield
        return
    from ..export import destination

    path = output.path_for(_program(capture.pid), capture.pid, time.time())
    capture.keep_in(destination.open_new(path), path, with_sources=with_sources)
    try:
        yield
    finally:
        assert capture.keeper is not None
        capture.keeper.finish(with_code=False)
        if not capture.profile.start_ns:
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def _temporary(capture: Capture, with_sources: bool) -> Iterator[None]:
    """Keep a recording in a file that is removed at the end; without one where that cannot be."""
    try:
        folder = tempfile.mkdtemp(prefix="flametap-")
    except OSError:
        yield
        return
    try:
        path = os.path.join(folder, f"{capture.pid}.flametap")
        capture.keep_in(open(path, "wb"), path, with_sources=with_sources)  # noqa: SIM115 - closed by the keeper
        yield
    finally:
        if capture.keeper is not None:
            capture.keeper.close()
        shutil.rmtree(folder, ignore_errors=True)


def _program(pid: int) -> str:
    with contextlib.suppress(*procfs.GONE):
        return program_name(procfs.read_command(pid))
    return ""


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
    assert keeper is not None
    progress.step(f"writing {keeper.path}")
    keeper.finish()
    if keeper.error is not None:
        raise keeper.error
    progress.say(f"wrote {keeper.path} (the whole recording: 'flametap open' shows it)")
