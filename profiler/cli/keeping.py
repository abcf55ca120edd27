"""Keep the recording in a file while it is made: an output of the format ``flametap``."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import OutputError
from .outputs import DEFAULT_OUTPUT, Output
from .progress import Progress

if TYPE_CHECKING:
    from ..recording.recording import Recording
    from .far import AnyCapture


@contextlib.contextmanager
def keeping(
    capture: AnyCapture,
    outputs: Sequence[Output],
    *,
    with_sources: bool = True,
    keep_s: float | None = None,
) -> Iterator[None]:
    """Keep a recording that has not begun in the file that ``outputs`` names, if one does.

    A file without anything in it is removed at the end.

    Args:
        capture: of the recording.
        outputs: of the command.
        with_sources: False leaves out source texts, and the arguments of the program.
        keep_s: keep only the last so many seconds, and write the file at the end; None for all.

    Raises:
        OutputError: it cannot be written.
    """
    output = next(filter(is_kept, outputs), None)
    if output is None:
        yield
        return
    if keep_s is not None:
        with _keeping_last(capture, keep_s, with_sources=with_sources):
            yield
        return
    from ..export import destination

    path = _path_for(capture, output)
    file = destination.open_new(path)
    try:
        with destination.errors(path):
            capture.keep_in(file, path, with_sources=with_sources)
    except OutputError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    try:
        yield
    finally:
        assert capture.keeper is not None
        capture.keeper.finish(with_code=False)
        if not capture.profile.start_ns:
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def keeping_for_page(
    capture: AnyCapture, outputs: Sequence[Output], progress: Progress, *, with_sources: bool
) -> Iterator[None]:
    """Keep a recording that has not begun, so that its page can save all of it.

    Without any output, it is in the temporary folder, and stays there if ``progress`` says so. If
    that folder cannot be written, the page can save all but the whole recording.

    Args:
        capture: of the recording.
        outputs: of the command.
        progress: told at the end where it is.
        with_sources: see ``keeping``.

    Raises:
        OutputError: it cannot be written.
    """
    if any(map(is_kept, outputs)):
        with keeping(capture, outputs, with_sources=with_sources):
            yield
        return
    from ..export import RECORDING, destination

    stays = not outputs and not progress.is_quiet
    is_whole = False
    with contextlib.ExitStack() as at_end:
        try:
            with _temporary_errors():
                folder = tempfile.mkdtemp(prefix="flametap-")
                at_end.callback(shutil.rmtree, folder, ignore_errors=True)
                path = os.path.join(folder, _path_for(capture, Output(DEFAULT_OUTPUT, RECORDING)))
                file = destination.open_new(path)
                capture.keep_in(file, path, with_sources=with_sources)
        except OutputError as error:
            progress.warn(
                f"the page cannot save the whole recording: {error.message} ({error.hint})"
            )
        keeper = capture.keeper
        try:
            yield
            is_whole = True
        finally:
            if keeper is not None and capture.profile.start_ns and stays:
                at_end.pop_all()
                progress.step(f"writing {keeper.path}")
                keeper.finish(with_code=is_whole)
                if keeper.error is not None:
                    progress.warn(keeper.error.message)
                progress.say(f"the recording is in {keeper.path} ('flametap open' shows it)")
            elif keeper is not None:
                keeper.close()


@contextlib.contextmanager
def _temporary_errors() -> Iterator[None]:
    """Say that the temporary folder cannot be written.

    Raises:
        OutputError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write in the temporary folder: {error.strerror or error}",
            "name another one: TMPDIR=FOLDER",
        ) from error


@contextlib.contextmanager
def _keeping_last(capture: AnyCapture, keep_s: float, *, with_sources: bool) -> Iterator[None]:
    """Keep the last part of a recording in the temporary folder.

    Raises:
        OutputError: that cannot be.
    """
    with contextlib.ExitStack() as at_end:
        with _temporary_errors():
            folder = tempfile.mkdtemp(prefix="flametap-")
            at_end.callback(shutil.rmtree, folder, ignore_errors=True)
            capture.keep_last(folder, keep_s, with_sources=with_sources)
        assert capture.keeper is not None
        at_end.callback(capture.keeper.close)
        yield


def _path_for(capture: AnyCapture, output: Output) -> str:
    return output.path_for(capture.program, capture.pid, time.time())


def is_kept(output: Output) -> bool:
    """Tell whether an output is written while the recording is made."""
    from ..export import RECORDING

    return output.format == RECORDING


def finish_kept(capture: AnyCapture, output: Output, progress: Progress) -> None:
    """Write the rest of the file: the last samples, source texts, and instructions.

    Raises:
        OutputError: it could not be written to its end.
    """
    from ..capture.keeper import RollingKeeper

    keeper = capture.keeper
    assert keeper is not None
    if isinstance(keeper, RollingKeeper):
        save_last(capture, output, progress)
        return
    progress.step(f"writing {keeper.path}")
    keeper.finish()
    if keeper.error is not None:
        raise keeper.error
    progress.say(f"wrote {keeper.path} (the whole recording: 'flametap open' shows it)")


def save_last(capture: AnyCapture, output: Output, progress: Progress) -> None:
    """Write the part of a recording that is kept (``--keep``).

    Raises:
        OutputError: it cannot be written.
    """
    path = write_whole(capture.recording, output, progress)
    progress.say(f"wrote {path} (the last part of the recording: 'flametap open' shows it)")


def write_whole(recording: Recording, output: Output, progress: Progress) -> str:
    """Write all that is kept of a recording, and return the path.

    Raises:
        OutputError: it cannot be written.
    """
    from ..export import write_with

    status = recording.status()
    path = output.path_for(status.program, status.pid, time.time())
    progress.step(f"writing {path}")
    assert recording.copy_to is not None
    write_with(path, recording.copy_to)
    return path


class SaveRequests:
    """Saves the last part of a recording whenever SIGUSR1 comes: a context manager.

    Args:
        capture: of the recording.
        outputs: of the command; one is a recording.
        progress: told of each file.
    """

    def __init__(self, capture: AnyCapture, outputs: Sequence[Output], progress: Progress) -> None:
        self._capture, self._progress = capture, progress
        self._output = next(filter(is_kept, outputs))
        self._is_asked = False
        self._former: Any = None

    def __enter__(self) -> SaveRequests:
        self._former = signal.signal(signal.SIGUSR1, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, self._former)

    def _ask(self, *_: object) -> None:
        self._is_asked = True

    def look(self) -> None:
        """Save, if that was asked for. The recording goes on if it cannot be done."""
        if not self._is_asked:
            return
        self._is_asked = False
        try:
            save_last(self._capture, self._output, self._progress)
        except OutputError as error:
            self._progress.warn(f"{error.message}: {error.hint}")
