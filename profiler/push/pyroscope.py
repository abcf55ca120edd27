"""Pyroscope's ``/ingest``: a profile, where it belongs, and when it was.

Source: grafana.com/docs/pyroscope, Server HTTP API.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import orjson

from ..errors import UsageError
from .labels import SERVICE

_BOUNDARY = "flametap-7f1c3a9e55d24b60"
_TYPES = {
    "cpu": {"units": "nanoseconds", "display-name": "cpu"},
    "wall": {"units": "nanoseconds", "display-name": "wall"},
    "off_cpu": {"units": "nanoseconds", "display-name": "off_cpu"},
}
HEADERS = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}


def check_url(url: str) -> str:
    """Return the address of a server without what we add. Raises UsageError."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii()
        is_address = is_address and (parts.port is None or parts.port > 0)
    except ValueError:  # of the port, or a bracket
        is_address = False
    if not is_address or ".." in (parts.hostname or ""):
        raise UsageError(f"--push {url} is no address", "as in --push https://pyroscope:4040")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "--push has a user or a password in its address", "send a header: FLAMETAP_PUSH_HEADERS"
        )
    if parts.query or parts.fragment:
        raise UsageError(f"--push {url} has a query", "labels are --label NAME=VALUE")
    return url.rstrip("/").removesuffix("/ingest")


def url_of(server: str, labels: Mapping[str, str], from_s: float, until_s: float) -> str:
    """Return where a segment goes."""
    others = ",".join(f"{name}={value}" for name, value in labels.items() if name != SERVICE)
    query = {
        "name": f"{labels[SERVICE]}{{{others}}}",
        "from": f"{from_s:.0f}",
        "until": f"{until_s:.0f}",
        "format": "pprof",
        "spyName": "flametap",
    }
    return f"{server}/ingest?{urlencode(query)}"


def body_of(profile: bytes) -> bytes:
    """Return a profile (pprof, gzip) as a form."""
    types = {
        name: {**facts, "aggregation": "sum", "sampled": False} for name, facts in _TYPES.items()
    }
    parts = (
        ("profile", "profile.pprof", profile),
        ("sample_type_config", "sample_type_config.json", orjson.dumps(types)),
    )
    pieces: list[bytes] = []
    for name, file, data in parts:
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"'
        pieces += [f"{head}\r\n\r\n".encode(), data, b"\r\n"]
    return b"".join((*pieces, f"--{_BOUNDARY}--\r\n".encode()))
