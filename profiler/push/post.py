"""Send a body by HTTP, and say what became of it.

No redirect is followed: a key goes nowhere but where it is meant for.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from enum import Enum
from typing import IO, NamedTuple

TIMEOUT_S = 10.0
_MOST_SHOWN = 200
_MOST_READ = 1 << 16
_TOO_MANY = 429


class Fate(Enum):
    """What became of it."""

    TAKEN = "taken"
    LATER = "later"  # it may be taken when it is sent again
    REFUSED = "refused"  # by what it is


class Outcome(NamedTuple):
    """What became of it, and why."""

    fate: Fate
    why: str = ""
    after_s: float | None = None  # when to send it again, if the server says so
    answer: bytes = b""  # of one that was taken


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow none: what the request has of keys would go with it."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
    """Send a body."""
    try:
        request = urllib.request.Request(url, body, dict(headers), method="POST")
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            return Outcome(Fate.TAKEN, answer=_read(answer))
    except urllib.error.HTTPError as error:
        with error:
            return _outcome_of(error.code, error.headers, _text(error))
    except urllib.error.URLError as error:
        return Outcome(Fate.LATER, str(getattr(error.reason, "strerror", None) or error.reason))
    except (OSError, http.client.HTTPException) as error:
        return Outcome(Fate.LATER, str(error) or type(error).__name__)
    except ValueError as error:  # of an address or a header that cannot be sent
        return Outcome(Fate.REFUSED, str(error))


def _read(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(_MOST_READ)
    except (OSError, http.client.HTTPException):  # it has been taken
        return b""


def _outcome_of(code: int, headers: Message, text: str) -> Outcome:
    said = f"HTTP {code}" + (f": {text}" if text else "")
    if code in range(300, 400):
        said = f"HTTP {code}: it redirects to {str(headers.get('Location'))[:_MOST_SHOWN]}"
        return Outcome(Fate.LATER, said)
    # The key may be renewed, a proxy may be repaired: what was recorded waits.
    if code in (401, 403, 404, 407, 408, _TOO_MANY) or code >= 500:
        return Outcome(Fate.LATER, said, _seconds(headers.get("Retry-After")))
    return Outcome(Fate.REFUSED, said)


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() else None


def _text(error: urllib.error.HTTPError) -> str:
    try:
        lines = error.read(_MOST_READ).decode("utf-8", "replace").split("\n")
    except (OSError, http.client.HTTPException):
        return ""
    return " ".join(lines[0].split())[:_MOST_SHOWN]
