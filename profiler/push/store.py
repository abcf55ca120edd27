"""What a segment is sent to: a profile store or a collector, by its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import urlsplit

from ..errors import UsageError

if TYPE_CHECKING:
    from ..export.request import ExportRequest

OTLP = "otlp+"  # before the scheme


class Store(Protocol):
    """Says how a segment is written, and where it goes."""

    headers: Mapping[str, str]

    def write(self, request: ExportRequest, file: BinaryIO) -> None:
        """Write a segment, as it waits on disk."""
        ...

    def body(self, segment: bytes) -> bytes:
        """Return what is sent of it."""
        ...

    def url(self, from_s: float, until_s: float) -> str:
        """Return where it goes, by its times of day."""
        ...

    def complaint(self, answer: bytes) -> str:
        """Return why it was not taken, though the answer was 200; "" if it was."""
        ...


def check_url(url: str) -> str:
    """Return the address of a server without what we add. Raises UsageError."""
    try:
        parts = urlsplit(url.removeprefix(OTLP))
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii()
        is_address = is_address and (parts.port is None or parts.port > 0)
    except ValueError:  # of the port, or a bracket
        is_address = False
    if not is_address or ".." in (parts.hostname or ""):
        raise UsageError(
            f"--push {url} is no address",
            "as in --push https://pyroscope:4040 or --push otlp+http://collector:4318",
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "--push has a user or a password in its address", "send a header: FLAMETAP_PUSH_HEADERS"
        )
    if parts.query or parts.fragment:
        raise UsageError(f"--push {url} has a query", "labels are --label NAME=VALUE")
    return url.rstrip("/")


def store_of(url: str, labels: Mapping[str, str]) -> Store:
    """Return the store of an address that was checked.

    Args:
        url: its address.
        labels: of all that is sent.
    """
    if url.startswith(OTLP):
        from .otlp import Otlp

        return Otlp(url.removeprefix(OTLP), labels)
    from .pyroscope import Pyroscope

    return Pyroscope(url, labels)
