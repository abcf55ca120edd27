"""Record elsewhere: ``--via``, and the commands that only print."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import FlametapError, UsageError
from .attach_options import AttachOptions
from .containers import Containers
from .printable import printable
from .progress import Progress
from .signals import Interrupted

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..capture.live import Capture
    from ..device.device_capture import DeviceCapture
    from ..remote.far_capture import FarCapture
    from ..remote.far_group import FarGroup

    AnyCapture: TypeAlias = Capture | DeviceCapture | FarCapture | FarGroup

VIA = "--via"
PRINTING = ("ps", "doctor", "dump")  # they run there as they are
# What a wish has of the options of an attach: names are found there.
_SENT = (
    *("rate_hz", "budget_ppm", "inlines", "debuginfod_urls", "enable_perf_map", "inject"),
    *("force", "children"),
)


def split(arguments: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the command that leads elsewhere, and what runs there; None if that is nothing.

    Raises:
        UsageError: there are several, or one without its value.
    """
    if not arguments or arguments[0] not in PRINTING:
        return None
    rest: list[str] = []
    vias: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == VIA:
            value = next(words, None)
            if value is None:
                raise UsageError(f"{VIA} needs a command", f"name one: {VIA} 'ssh host'")
            vias.append(value)
        elif word.startswith(f"{VIA}="):
            vias.append(word.partition("=")[2])
        else:
            rest.append(word)
    if len(vias) > 1:
        raise UsageError(f"{arguments[0]} takes one {VIA}", "run it for each of them")
    return (vias[0], rest) if vias else None


def run(via: str, arguments: list[str]) -> int:
    """Run a command there, and print what it prints. Return its exit code. Raises FlametapError."""
    from ..remote.link import run

    streams = {"OUTS": sys.stdout, "ERRS": sys.stderr}
    decoders = {kind: getincrementaldecoder("utf-8")("replace") for kind in streams}

    def write(kind: str, data: bytes) -> None:
        stream = streams.get(kind)
        if stream is None:
            return
        if stream.isatty():  # whatever is printed there, the terminal is ours
            lines = decoders[kind].decode(data).split("\n")
            data = "\n".join(map(printable, lines)).encode("utf-8", "replace")
        stream.buffer.write(data)
        stream.buffer.flush()

    return run(via, arguments, shutil.get_terminal_size().columns, write)


@contextlib.contextmanager
def prepared(
    words: Sequence[str],
    pid: int | None,
    pattern: re.Pattern[str] | None,
    how: AttachOptions,
    progress: Progress,
    *,
    containers: Containers,
    duration_s: float | None,
    with_sources: bool,
    is_wanted: Callable[[], bool] = lambda: True,
    follows_workers: bool = False,
) -> Iterator[FarCapture | FarGroup]:
    """Find processes elsewhere, and yield a capture of them; close it at the end of the block.

    Where one of several machines cannot be recorded, the others are.

    Args:
        words: their ids or names.
        pid: of one.
        pattern: of their names.
        how: the options of the attach.
        progress: told of each step.
        containers: whose processes are meant.
        duration_s: how long they are recorded; None until they are told to stop.
        with_sources: their source texts may be sent.
        is_wanted: asked while the other side does not answer; False gives up.
        follows_workers: see ``start.prepared``.

    Raises:
        Interrupted: the user does not want it any more.
        FlametapError: they cannot be recorded.
    """
    for value, name in ((how.symbol_dirs, "--symbol-dir"), (how.verify_detach, "--verify-detach")):
        if value:
            raise UsageError(f"{name} and {VIA} contradict each other", "leave one of them out")
    options = asdict(how)
    wish: dict[str, Any] = {name: options[name] for name in _SENT}
    wish |= {"words": [*words], "pid": pid, "pattern": pattern.pattern if pattern else None}
    wish |= {"container": containers.name, "pod": containers.pod}
    wish |= {"duration_s": duration_s, "with_sources": with_sources}
    wish |= {"follows_workers": follows_workers, "verbose": how.verbose}
    capture = _connected(how.via, wish, progress, is_wanted)
    with closing(capture, progress):
        yield capture


@contextlib.contextmanager
def closing(capture: FarCapture | FarGroup | DeviceCapture, progress: Progress) -> Iterator[None]:
    """Close a capture at the end of the block, and say why it ended early.

    Raises:
        FlametapError: it did; what was recorded is kept.
    """
    try:
        yield
    finally:
        progress.clear()
        capture.close()
    if capture.error is not None:
        raise capture.error


def _connected(
    vias: Sequence[str], wish: dict[str, Any], progress: Progress, is_wanted: Callable[[], bool]
) -> FarCapture | FarGroup:
    """Find the processes by each command. Raises Interrupted, and FlametapError if by none."""
    from ..remote.far_capture import FarCapture
    from ..remote.far_group import FarGroup

    captures: list[FarCapture] = []
    errors: list[FlametapError] = []
    for via in vias:
        progress.step(f"connecting by '{via}'")
        try:
            captures.append(FarCapture(via, wish, progress.say, is_wanted))
        except FlametapError as error:
            if not is_wanted():
                for each in captures:
                    each.close()
                raise Interrupted from None
            errors.append(error)
    for why in errors if captures else errors[1:]:
        progress.warn(f"{why.message}; {why.hint}" if why.hint else why.message)
    if not captures:
        raise errors[0]
    return captures[0] if len(vias) == 1 else FarGroup(captures, errors)
