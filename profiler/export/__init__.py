"""Write profiles to files, one module per format. A file is complete, or is not created."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from ..errors import OutputError, UsageError
from . import destination
from .compression import compressing, uncompressed_name

if TYPE_CHECKING:
    from .request import ExportRequest

STDOUT = "-"


@dataclass(frozen=True)
class Format:
    """A file format. ``write`` streams: it keeps no second copy of the profile in memory."""

    extensions: tuple[str, ...]  # lower case, with the dot
    write: Callable[[ExportRequest, BinaryIO], None]
    label: str = ""
    about: str = ""  # what it is good for, for the page's menu
    mimetype: str = "application/octet-stream"
    is_compressed: bool = False  # by itself


def _writer(name: str) -> Callable[[ExportRequest, BinaryIO], None]:
    """Return what imports a format's module when it is used: some take 0.1 s to load."""

    def write(request: ExportRequest, file: BinaryIO) -> None:
        load(name).write(request, file)

    return write


def load(name: str) -> ModuleType:
    """Import the module of a format, a key of ``FORMATS``."""
    return importlib.import_module(f".{name}", __name__)


FORMATS: dict[str, Format] = {
    "html": Format(
        (".html", ".htm"),
        _writer("html"),
        "HTML report",
        "this page with its data and source lines in one file, for colleagues and for later",
        "text/html",
    ),
    "svg": Format(
        (".svg",),
        _writer("svg"),
        "SVG of everything",
        "the whole flame graph as a picture",
        "image/svg+xml",
    ),
    "speedscope": Format(
        (".speedscope.json", ".speedscope"),
        _writer("speedscope"),
        "speedscope",
        "for speedscope.app: each thread in order of time",
        "application/json",
    ),
    "firefox": Format(
        (".firefox.json", ".profile.json"),
        _writer("firefox"),
        "Firefox Profiler",
        "for profiler.firefox.com: each thread in order of time, with its CPU use",
        "application/json",
    ),
    "pprof": Format(
        (".pb.gz", ".pprof"),
        _writer("pprof"),
        "pprof",
        "for go tool pprof, Grafana, Pyroscope: all clocks, each thread, inlined lines",
        is_compressed=True,
    ),
    "sqlite": Format(
        (".sqlite", ".db"),
        _writer("sqlite"),
        "SQLite",
        "a database of threads, stacks and intervals, for questions that no view answers",
        "application/vnd.sqlite3",
    ),
    "folded": Format(
        (".folded", ".collapsed"),
        _writer("folded"),
        "Folded stacks",
        "text for flamegraph.pl, inferno, and comparisons",
        "text/plain",
    ),
    "chrome": Format(
        (".trace.json", ".chrome.json"),
        _writer("chrome"),
        "Chrome trace",
        "for Perfetto and chrome://tracing: the functions of each thread in order of time",
        "application/json",
    ),
    "cpuprofile": Format(
        (".cpuprofile",),
        _writer("cpuprofile"),
        "V8 CPU profile",
        "for Chrome DevTools and VS Code: the heaviest thread, or the chosen one",
        "application/json",
    ),
    "perf-script": Format(
        (".perf-script", ".perf"),
        _writer("perf_script"),
        "perf script",
        "text as perf prints it, for tools that read that: each thread in order of time",
        "text/plain",
    ),
    "jsonl": Format(
        (".jsonl", ".ndjson"),
        _writer("json_lines"),
        "JSON Lines",
        "for scripts, jq and DuckDB: stacks with all clocks, by thread, state and wait",
        "application/x-ndjson",
    ),
    "markdown": Format(
        (".md",),
        _writer("markdown"),
        "Markdown",
        "a summary for a pull request: the heaviest functions and the heaviest stack",
        "text/markdown",
    ),
}


# The whole recording, which is written while it is made (``capture.keeper``).
RECORDING, RECORDING_EXTENSION = "flametap", ".flametap"

# What py-spy, austin and async-profiler call them.
SYNONYMS = {"raw": "folded", "collapsed": "folded", "flamegraph": "svg"}


def format_for(path: str, explicit: str | None = None) -> str:
    """Choose the format of an output and return its name, a key of :data:`FORMATS`, or
    ``RECORDING``.

    Args:
        path: the output. Its extension decides, before .gz or .zst; standard output ("-") is
            folded.
        explicit: the format that the user requested, or one of ``SYNONYMS``; it has priority.

    Raises:
        UsageError: there is no such format, or the extension is unknown, or that of a second
            compression.
    """
    found = _format_for(path, explicit)
    if found in FORMATS and FORMATS[found].is_compressed and path.lower().endswith(".zst"):
        raise UsageError(f"{found} is packed with gzip by itself", f"name it {path[:-4]}")
    return found


def _format_for(path: str, explicit: str | None) -> str:
    known = "; ".join(
        (
            f"{RECORDING} ({RECORDING_EXTENSION})",
            *(f"{name} ({', '.join(f.extensions)})" for name, f in FORMATS.items()),
        )
    )
    if explicit is not None:
        explicit = SYNONYMS.get(explicit, explicit)
        if explicit not in FORMATS and explicit != RECORDING:
            raise UsageError(f"unknown format {explicit}", f"formats are {known}")
        return explicit
    if path == STDOUT:
        return "folded"
    if path.lower().endswith(RECORDING_EXTENSION):
        return RECORDING
    for spelling in (path, uncompressed_name(path)):
        for name, entry in FORMATS.items():
            if spelling.lower().endswith(entry.extensions):
                return name
    raise UsageError(
        f"{path} has no extension of a known format", f"choose one with -f; formats are {known}"
    )


def write_file(path: str, format_name: str, request: ExportRequest) -> None:
    """Write a profile with the names that are known now.

    See ``destination.write``.

    Args:
        path: the file; "-" is standard output. It is compressed if its name ends in .gz or .zst.
        format_name: a key of :data:`FORMATS`.
        request: what to write.

    Raises:
        OutputError: the file cannot be written.
    """
    entry = FORMATS[format_name]

    def write(file: BinaryIO) -> None:
        with compressing("" if entry.is_compressed else path, file) as packing:
            entry.write(request, packing)

    write_with(path, write)


def write_with(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a file, which is complete or not created.

    Args:
        path: the file; "-" is standard output.
        write: writes its contents.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        if path == STDOUT:
            write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            destination.write(path, write)
    except OSError as error:
        raise OutputError(
            f"cannot write standard output: {error.strerror or error}",
            "choose another place with -o",
        ) from error
