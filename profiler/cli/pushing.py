"""``record --push``: send the recording to a profile store while it is made."""

from __future__ import annotations

import contextlib
import functools
import os
import re
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
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110
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
        help="Send the recording to this Pyroscope, every 15 s, or to an OpenTelemetry collector:"
        f" otlp+http://HOST:4318. Headers, as for a token, are in {HEADERS} (NAME=VALUE,…).",
    )(command)


def check_push(push: str | None, labels: tuple[str, ...]) -> str | None:
    """Return the address of the store, if one is named. Raises UsageError."""
    if push is None:
        if labels:
            raise UsageError("--label is for --push", "leave it out, or name a store")
        return None
    from ..push.store import check_url

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
    for pair in filter(None, _of_environment().split(",")):
        name, sign, value = (each.strip() for each in pair.partition("="))
        value = unquote(value)
        if not (sign and _TOKEN.fullmatch(name) and value.isascii() and value.isprintable()):
            raise UsageError(f"{HEADERS} has something else than NAME=VALUE", "see --push")
        found[name] = value
    return found


@functools.cache
def _of_environment() -> str:
    """Return the variable, which no program that is started sees any more."""
    return os.environ.pop(HEADERS, "")


@contextlib.contextmanager
def pushing(capture: AnyCapture, what: OutputOptions, progress: Progress) -> Iterator[None]:
    """Push a recording that has not begun, if the user asks for it; send the rest at the end.

    Raises:
        OutputError: nothing can wait on this machine's disk.
    """
    if what.push is None:
        yield
        return
    from ..capture.live import Capture
    from ..push.labels import labels_of
    from ..push.pusher import Pusher

    is_here = isinstance(capture, Capture)
    pid, host = (capture.pid, "") if is_here else (None, getattr(capture, "host", ""))
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
