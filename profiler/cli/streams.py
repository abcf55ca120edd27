"""The standard streams, including those that are closed or cannot be written."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from ..errors import OutputError

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


def print_data(text: str) -> None:
    """Print a command's result to stdout.

    Raises:
        OutputError: stdout cannot be written.
    """
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
