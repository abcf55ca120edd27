"""Pyroscope's ``/ingest``: a profile, where it belongs, and when it was.

Source: grafana.com/docs/pyroscope, Server HTTP API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO
from urllib.parse import urlencode

import orjson

from ..export.pprof import write
from ..export.request import ExportRequest
from .labels import SERVICE

_BOUNDARY = "flametap-7f1c3a9e55d24b60"
_TYPES = {
    "cpu": {"units": "nanoseconds", "display-name": "cpu"},
    "wall": {"units": "nanoseconds", "display-name": "wall"},
    "off_cpu": {"units": "nanoseconds", "display-name": "off_cpu"},
}


class Pyroscope:
    """A server of Pyroscope; see ``store.Store``."""

    headers: Mapping[str, str] = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}

    def __init__(self, server: str, labels: Mapping[str, str]) -> None:
        self._server, self._labels = server.removesuffix("/ingest"), labels

    def write(self, request: ExportRequest, file: BinaryIO) -> None:
        """Write a segment as pprof."""
        write(request, file)

    def url(self, from_s: float, until_s: float) -> str:
        """Return where a segment goes."""
        labels = self._labels
        others = ",".join(f"{name}={value}" for name, value in labels.items() if name != SERVICE)
        query = {
            "name": f"{labels[SERVICE]}{{{others}}}",
            "from": f"{from_s:.0f}",
            "until": f"{until_s:.0f}",
            "format": "pprof",
            "spyName": "flametap",
        }
        return f"{self._server}/ingest?{urlencode(query)}"

    def body(self, segment: bytes) -> bytes:
        """Return a segment as a form."""
        types = {
            name: {**facts, "aggregation": "sum", "sampled": False}
            for name, facts in _TYPES.items()
        }
        parts = (
            ("profile", "profile.pprof", segment),
            ("sample_type_config", "sample_type_config.json", orjson.dumps(types)),
        )
        pieces: list[bytes] = []
        for name, file, data in parts:
            names = f'name="{name}"; filename="{file}"'
            head = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {names}\r\n\r\n"
            pieces += [head.encode(), data, b"\r\n"]
        return b"".join((*pieces, f"--{_BOUNDARY}--\r\n".encode()))

    def complaint(self, answer: bytes) -> str:
        """Return nothing: what it does not take has another status."""
        return ""
