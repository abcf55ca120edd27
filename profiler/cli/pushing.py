"""``record --push``: send the recording to a profile store while it is made."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import click

from ..errors import OutputError, UsageError
from .output_options import OutputOptions
from .progress import Progress

if TYPE_CHECKING:
    from .far import AnyCapture

_Command = TypeVar("_Command", bound=Callable[..., Any])
HEADERS = "FLAMETAP_PUSH_HEADERS"


def push_options(command: _Command) -> _Command:
    """Add ``--push`` and ``--label``."""
    command = click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=VALUE",
        help="A label of what --push sends; `service` is the name of the application.",
    )(command)
    return click.option(
        "--push",
        metavar="URL",
        help="Send the recording to this Pyroscope, every 15 s. Headers, as for a token, are in"
        f" {HEADERS} (NAME=VALUE,…).",
    )(command)


def check_push(push: str | None, labels: tuple[str, ...]) -> str | None:
    """Return the address of the store, if one is named. Raises UsageError."""
    if push is None:
        if labels:
            raise UsageError("--label is for --push", "leave it out, or name a store")
        return None
    from ..push.pyroscope import check_url

    headers()
    return check_url(push)


def parsed(labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return names and values. Raises UsageError."""
    if not labels:
        return ()
    from ..push.labels import parse_label

    return tuple(map(parse_label, labels))


def headers() -> dict[str, str]:
    """Return the headers that the environment names. Raises UsageError."""
    found = {}
    for pair in filter(None, os.environ.get(HEADERS, "").split(",")):
        name, sign, value = (each.strip() for each in pair.partition("="))
        value = unquote(value)
        if not sign or not name.isascii() or not (name + value).isprintable():
            raise UsageError(f"{HEADERS} has something else than NAME=VALUE", "see --push")
        found[name] = value
    return found


@contextlib.contextmanager
def pushing(capture: AnyCapture, what: OutputOptions, progress: Progress) -> Iterator[None]:
    """Push a recording that has not begun, if the user asks for it; send the rest at the end.

    Raises:
        OutputError: nothing can wait on this machine's disk.
    """
    if what.push is None:
        yield
        return
    from ..push.labels import labels_of
    from ..push.pusher import Pusher

    host = getattr(capture, "host", "")
    pid = None if host else capture.pid
    labels = labels_of(pid, capture.program, dict(what.labels), host)
    try:
        pusher = Pusher(capture.recording, what.push, labels, headers(), progress.say)
    except OSError as error:
        raise OutputError(
            f"cannot write in the temporary folder: {error.strerror or error}",
            "name another one: TMPDIR=FOLDER",
        ) from error
    pusher.start()
    try:
        yield
    finally:
        progress.step(f"sending the rest to {what.push}")
        for line in pusher.finish():
            progress.say(line)
