"""The standard streams, including those that are closed or cannot be written.

All text that commands print goes through here or through ``progress``: it is made ``printable``.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from typing import TextIO

import click

from ..errors import OutputError
from .printable import printable

STDIN, STDOUT, STDERR = range(3)


def open_missing() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed.

    Call this before any other file is opened: it would get one of these numbers, and the output
    meant for the terminal. Reading stdin then gives end of file. Output to stderr is discarded.
    Writing to stdout fails, so that the user learns that the data went nowhere.
    """
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # Opens ``descriptor`` itself: the lowest free number, as all below it are open now.
            opened = os.open(os.devnull, os.O_WRONLY if descriptor == STDERR else os.O_RDONLY)
            os.set_inheritable(opened, True)
    sys.stdin = sys.stdin or os.fdopen(STDIN, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(STDOUT, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w", closefd=False)


def escape_unencodable() -> None:
    """Have stdout show characters that its encoding lacks as escapes, as stderr does.

    The name of a process must not be able to end ``flametap ps``.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_line(text: str) -> None:
    """Print one line of a command's result to stdout.

    Raises:
        OutputError: stdout cannot be written.
    """
    print_lines([text])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of a command's result to stdout.

    Raises:
        OutputError: stdout cannot be written.
    """
    _print("\n".join(map(printable, lines)))


def print_json(value: object, indent: int | None = 1) -> None:
    """Print a command's result to stdout as JSON, in ASCII without control characters.

    Args:
        value: of lists, dicts, strings, numbers.
        indent: spaces per level; None for one line.

    Raises:
        OutputError: stdout cannot be written.
    """
    # json escapes all of these but DEL.
    _print(json.dumps(value, indent=indent).replace("\x7f", "\\u007f"))


def print_message(text: str) -> None:
    """Print one line to stderr.

    Raises:
        OSError: stderr cannot be written.
    """
    click.echo(printable(text), err=True)


def _print(text: str) -> None:
    try:
        click.echo(text)
    except OSError as error:
        give_up(sys.stdout)
        raise OutputError(f"cannot write standard output: {error.strerror}") from error


def give_up(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that Python's own flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush_or_give_up(stream: TextIO) -> None:
    """Flush a stream at exit. An error here was reported by an earlier write already."""
    try:
        stream.flush()
    except OSError:
        give_up(stream)
