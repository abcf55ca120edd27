"""Write profiles to files, one module per format. A file is complete, or is not created."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ..analysis.frame_filter import ALL_FRAMES, FrameFilter
from ..errors import OutputError, UsageError
from ..model import Clock
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable
from . import destination, folded, speedscope
from .request import ExportRequest

STDOUT = "-"


@dataclass(frozen=True)
class Format:
    """A file format. ``write`` streams: it keeps no second copy of the profile in memory."""

    extensions: tuple[str, ...]  # lower case, with the dot
    write: Callable[[ExportRequest, BinaryIO], None]


FORMATS: dict[str, Format] = {
    "folded": Format((".folded", ".collapsed"), folded.write),
    "speedscope": Format((".speedscope.json", ".speedscope"), speedscope.write),
}


def format_for(path: str, explicit: str | None = None) -> str:
    """Choose the format of an output and return its name, a key of :data:`FORMATS`.

    Args:
        path: the output. Its extension decides; standard output ("-") is folded.
        explicit: the format that the user requested; it has priority.

    Raises:
        UsageError: there is no such format, or the extension is unknown.
    """
    known = "; ".join(f"{name} ({', '.join(f.extensions)})" for name, f in FORMATS.items())
    if explicit is not None:
        if explicit not in FORMATS:
            raise UsageError(f"unknown format {explicit}", f"formats are {known}")
        return explicit
    if path == STDOUT:
        return "folded"
    for name, entry in FORMATS.items():
        if path.lower().endswith(entry.extensions):
            return name
    raise UsageError(
        f"{path} has no extension of a known format", f"choose one with -f; formats are {known}"
    )


def write_file(
    path: str,
    format_name: str,
    profile: Profile,
    table: SymbolTable,
    *,
    clock: Clock = Clock.CPU,
    thread_ids: frozenset[int] | None = None,
    by_thread: bool = False,
    unit: str = "time",
    frames: FrameFilter = ALL_FRAMES,
    by_line: bool = False,
    full_filenames: bool = False,
    title: str = "flametap",
    notes: Sequence[str] = (),
    cost: Mapping[str, int | float | str] | None = None,
) -> None:
    """Write a profile with the names that are known now.

    See ``destination.write``.

    Args:
        path: the file; "-" is standard output.
        format_name: a key of :data:`FORMATS`.
        profile: the recording.
        table: the names.
        clock: the clock of the weights.
        thread_ids: only these threads; None for all.
        by_thread: add a root frame per thread, in formats that do not separate threads.
        unit: "time", or "samples" for numbers of stacks.
        frames: which frames are shown.
        by_line: separate the lines of a Python function.
        full_filenames: name Python files by their whole path, in formats that name them briefly.
        title: a title for the profile, in formats that have one.
        notes: losses and doubts, one line each, in formats that can hold them.
        cost: the cost of the recording (``Certificate.as_json``), in formats that can hold it.

    Raises:
        OutputError: the file cannot be written.
    """
    request = ExportRequest(
        profile,
        table,
        clock,
        thread_ids,
        by_thread,
        unit,
        frames,
        by_line,
        full_filenames,
        title,
        notes,
        cost or {},
    )
    write = FORMATS[format_name].write
    try:
        if path == STDOUT:
            write(request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            destination.write(path, lambda file: write(request, file))
    except OSError as error:
        raise OutputError(
            f"cannot write standard output: {error.strerror or error}",
            "choose another place with -o",
        ) from error
