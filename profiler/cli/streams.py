"""The standard streams, where we were started without one, or where it cannot be written."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from ..errors import OutputError

STDIN, STDOUT, STDERR = range(3)


def open_missing() -> None:
    """Opens those of the descriptors 0 to 2 that are closed; to be called before any other file is
    opened, which would get their numbers, and what is meant for a terminal.

    Input has ended, what is said goes nowhere, and data cannot be written: whoever closed standard
    output shall not believe that it went somewhere.
    """
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number, since those below it are open by now.
            opened = os.open(os.devnull, os.O_WRONLY if descriptor == STDERR else os.O_RDONLY)
            os.set_inheritable(opened, True)
    sys.stdin = sys.stdin or os.fdopen(STDIN, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(STDOUT, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(STDERR, "w", closefd=False)


def print_data(text: str) -> None:
    """Prints what the user has asked for.

    Raises:
        OutputError: standard output cannot be written.
    """
    try:
        click.echo(text)
    except OSError as error:
        give_up(sys.stdout)
        raise OutputError(f"cannot write standard output: {error.strerror}") from error


def give_up(stream: TextIO) -> None:
    """Sends the rest nowhere: what Python itself still wants to write at exit must not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush_or_give_up(stream: TextIO) -> None:
    """At the end. What fails here has failed before, and was told."""
    try:
        stream.flush()
    except OSError:
        give_up(stream)
