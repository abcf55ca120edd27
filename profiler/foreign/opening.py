"""Open any file with stacks in it: a recording of our own, or the file of another profiler.

A format is recognised by what is in the file, not by its name.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import orjson

from ..errors import InputError
from ..recording.chunks import ChunkReader
from ..recording.opened import is_pipe, is_recording, readable, recording_in
from ..recording.recording import Recording
from . import (
    chrome_trace,
    cpuprofile,
    firefox,
    folded,
    perf_data,
    perf_script,
    pprof,
    speedscope,
)
from .builder import Builder
from .unpacked import Unpacked

MAX_JSON_BYTES = 1 << 32  # in memory, of all values
# What one takes there at most, by the character that each has: a list's start, an object's, and
# the one between two values. Measured with CPython 3.11; text in strings counts as well.
_VALUE_BYTES = {b"[": 100, b"{": 240, b",": 100}
_JSON_START = re.compile(rb"\s*[\[{]")
# What an impossible value raises while a file is read.
_IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# Files that another program turns into one that is read here.
_REMEDIES = {
    perf_data.MAGIC: ("a perf.data", perf_data.REMEDY),
    b"MOJ": ("a binary file of austin", "mojo2austin {} out.austin"),
    b"FLR\0": ("a JFR file", "jfrconv {} out.collapsed"),
}


def check_file(path: str) -> None:
    """Check that a file can be opened, by its first bytes. A pipe is not read.

    Raises:
        InputError: it is of no known format, or cannot be read.
    """
    if is_pipe(path):
        return  # what has been read of it is gone
    with readable(path) as file:
        if is_recording(file):
            ChunkReader(file, path)
        else:
            _recognised(Unpacked(file, path))


def open_file(path: str) -> Recording:
    """Open a file.

    Raises:
        InputError: it cannot be read, is of no known format, or nothing of it makes sense.
    """
    with readable(path) as file:
        if is_recording(file):
            return recording_in(file, path)
        return read_foreign(file, path)


def read_foreign(file: BinaryIO, name: str) -> Recording:
    """Read the file of another profiler.

    Args:
        file: open for reading, at its start.
        name: of the file, for messages.

    Raises:
        InputError: it is of no known format, or nothing of it makes sense.
    """
    found = Unpacked(file, name)
    read = _recognised(found)
    builder = Builder(name)
    try:
        with np.errstate(all="ignore"):  # impossible numbers are refused
            return read(found, builder)
    except _IMPOSSIBLE as error:
        what = " ".join((str(error) or type(error).__name__).split())
        raise builder.damaged(f"something in it makes no sense ({what[:80]})") from error


def _recognised(file: Unpacked) -> Callable[[Unpacked, Builder], Recording]:
    """Return what reads a file. Raises InputError if nothing does."""
    if file.head.startswith(perf_data.MAGIC) and perf_data.can_read(file.name):
        return lambda file, builder: perf_data.read(file.name, builder)
    for magic, (what, remedy) in _REMEDIES.items():
        if file.head.startswith(magic):
            raise InputError(
                f"{file.name} is {what}",
                f"turn it into text first: {remedy.format(shlex.quote(file.name))}",
            )
    for text in (perf_script, folded):  # before JSON: "[main tid=1];run 5" begins like it
        if text.matches(file.head):
            if text is folded and folded.has_two_weights(file.head):
                raise InputError(
                    f"{file.name} has the weights of two profiles",
                    "open the two files themselves: 'flametap diff A B'",
                )
            return partial(_read_lines, text.read)
    if _JSON_START.match(file.head):
        if _is_json_lines(file.head):
            raise InputError(
                f"{file.name} is JSON Lines, which are written only",
                "open the recording that they were made of",
            )
        return _read_json
    if pprof.matches(file.head):
        return lambda file, builder: pprof.read(file.all(), builder)
    raise InputError(
        f"{file.name} is no recording, and of no format that is known",
        "see docs/formats.md for those that can be opened",
    )


def _is_json_lines(head: bytes) -> bool:
    """Tell whether these are our own: their first line is JSON by itself."""
    try:
        first = orjson.loads(head.split(b"\n", 1)[0])
    except orjson.JSONDecodeError:
        return False
    return isinstance(first, dict) and first.get("type") == "header"


def _read_lines(
    read: Callable[[Iterable[str], Builder], Recording], file: Unpacked, builder: Builder
) -> Recording:
    return read(file.lines(), builder)


def _read_json(file: Unpacked, builder: Builder) -> Recording:
    data = _parsed(file.all(), builder)
    for form in (speedscope, firefox, cpuprofile, chrome_trace):
        if form.matches(data):
            found: Recording = form.read(data, builder)
            return found
    raise InputError(
        f"{file.name} is JSON of no format that is known",
        "see docs/formats.md for those that can be opened",
    )


def _parsed(text: bytes, builder: Builder) -> Any:
    if sum(text.count(each) * size for each, size in _VALUE_BYTES.items()) > MAX_JSON_BYTES:
        raise builder.too_many("values")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        with contextlib.suppress(orjson.JSONDecodeError):
            if (whole := chrome_trace.closed(text)) is not None:
                return orjson.loads(whole)
        raise builder.damaged(f"{error.msg} at character {error.pos:,}") from error
