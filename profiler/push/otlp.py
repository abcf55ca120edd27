"""OpenTelemetry's profiles: ``ExportProfilesServiceRequest`` by OTLP/HTTP, in binary protobuf.

The signal is alpha, and its messages still change: these are those of ``v1development`` since
opentelemetry-proto 1.10. One profile for each clock, which share a dictionary. A sample has the
thread and the process as attributes, and, under names of ours, what the thread did.

Source: open-telemetry/opentelemetry-proto, profiles/v1development/profiles.proto, and the OTLP
specification; names of attributes: OpenTelemetry's semantic conventions.
"""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ..export.json_pieces import text
from ..export.profile_tables import ProfileTables, mapped
from ..export.protobuf import message, packed, varint, whole, wholes
from ..export.request import ExportRequest
from ..export.time_rows import STATES, Int64s, TimeRows, gil_of, time_rows, wait_of
from ..foreign.protobuf import fields, signed
from ..model import Clock, FrameKind
from ..version import version
from .labels import SERVICE

PATH = "/v1development/profiles"
_TYPES = {Clock.CPU: "cpu", Clock.OFF_CPU: "off_cpu", Clock.WALL: "wall"}
_NS = "nanoseconds"
# Of our labels; those of the user keep their names.
_ATTRIBUTES = {
    SERVICE: "service.name",
    "host": "host.name",
    "container": "container.id",
    "pod": "k8s.pod.name",
    "namespace": "k8s.namespace.name",
    "version": "service.version",
    "env": "deployment.environment.name",
    "git_commit": "vcs.ref.head.revision",
}
_FRAME_TYPES = {
    FrameKind.PYTHON: "cpython",
    FrameKind.JAVA: "jvm",
    FrameKind.JAVASCRIPT: "v8js",
    FrameKind.RUBY: "ruby",
}
_NO_LINK = message(1, bytes(16)) + message(2, bytes(8))
_FIXED_64 = 1  # wire type
_MOST_SAID = 200


class Otlp:
    """A collector; see ``store.Store``."""

    headers: Mapping[str, str] = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
    }

    def __init__(self, server: str, labels: Mapping[str, str]) -> None:
        self._server, self._labels = server.removesuffix(PATH), labels

    def write(self, request: ExportRequest, file: BinaryIO) -> None:
        """Write a segment."""
        with gzip.GzipFile("", "wb", 6, file, 0) as packed_file:
            packed_file.write(encode(request, self._labels))

    def body(self, segment: bytes) -> bytes:
        """Return a segment as it is."""
        return segment

    def url(self, from_s: float, until_s: float) -> str:
        """Return where all segments go: their times are in them."""
        return self._server + PATH

    def complaint(self, answer: bytes) -> str:
        """Return what the collector says where it has not taken all; "" if it has."""
        # ExportProfilesServiceResponse.partial_success
        try:
            parts = [each for number, each in fields(answer) if number == 1]
            said = dict(fields(parts[-1])) if parts and isinstance(parts[-1], bytes) else {}
        except ValueError:  # of a server that answers something else
            return ""
        n_rejected, words = said.get(1, 0), said.get(2, b"")
        if not isinstance(n_rejected, int) or signed(n_rejected) <= 0:
            return ""
        said_text = words.decode("utf-8", "replace") if isinstance(words, bytes) else ""
        return " ".join(said_text.split())[:_MOST_SAID] or "it rejects the profile"


def encode(request: ExportRequest, labels: Mapping[str, str]) -> bytes:
    """Return an ExportProfilesServiceRequest.

    Args:
        request: what of a recording.
        labels: of the resource (``labels.labels_of``).
    """
    rows, tables = time_rows(request), _Dictionary(request)
    columns = {Clock.CPU: rows.cpu_ns, Clock.OFF_CPU: rows.off_cpu_ns, Clock.WALL: rows.wall_ns}
    owners = _owners(request, rows, tables)
    profiles = b"".join(
        message(2, _profile(request, name, tables, _samples(rows, columns[clock], owners, tables)))
        for clock, name in _TYPES.items()
        if request.status.has_clock(clock)
    )
    resource = b"".join(_key_value(_ATTRIBUTES.get(each, each), labels[each]) for each in labels)
    scope = message(1, b"flametap") + message(2, version().encode())
    scoped = message(1, scope) + profiles
    return message(1, message(1, resource) + message(2, scoped)) + message(2, tables.encoded())


def _key_value(key: str, value: str) -> bytes:
    return message(1, message(1, key.encode()) + message(2, message(1, value.encode())))


def _profile(request: ExportRequest, name: str, tables: _Dictionary, samples: bytes) -> bytes:
    status = request.status
    rate_hz = status.effective_rate_hz or status.rate_hz
    notes = "\n".join([request.title, *request.part, *request.notes])
    return b"".join(
        (
            message(1, wholes(1, (tables.string(name), tables.string(_NS)))),
            samples,
            varint(3 << 3 | _FIXED_64) + struct.pack("<Q", request.started_at_ns),
            whole(4, request.duration_ns),
            message(5, wholes(1, (tables.string(name), tables.string(_NS)))),
            whole(6, round(1e9 / rate_hz) if rate_hz else 0),
            message(7, os.urandom(16)),
            packed(11, [tables.attribute("pprof.profile.comment", notes)]),
        )
    )


def _owners(request: ExportRequest, rows: TimeRows, tables: _Dictionary) -> list[tuple[int, ...]]:
    """Return the attributes of each row: whose it is, and what the thread did."""
    processes = request.processes
    threads: dict[int, tuple[int, ...]] = {}
    for number, thread in request.profile.threads.items():
        process = processes[request.process_of(thread).number]
        threads[number] = (
            *tables.attributes("thread.name", thread.name),
            *tables.attributes("thread.id", thread.tid),
            *tables.attributes("process.pid", process.pid),
            *tables.attributes("process.executable.name", process.program or request.program),
        )
    doing: dict[tuple[int, int, int], tuple[int, ...]] = {}
    found = []
    columns = rows.thread_id, rows.state, rows.activity, rows.lock
    for thread_id, state, activity, lock in zip(*(each.tolist() for each in columns), strict=True):
        key = state, activity, lock
        if key not in doing:
            doing[key] = (
                *tables.attributes("flametap.state", STATES[state]),
                *tables.attributes("flametap.wait", wait_of(state, activity)),
                *tables.attributes("flametap.gil", gil_of(lock)),
            )
        found.append(threads.get(thread_id, ()) + doing[key])
    return found


def _samples(
    rows: TimeRows, times_ns: Int64s, owners: list[tuple[int, ...]], tables: _Dictionary
) -> bytes:
    """Return the samples of one clock: each stack of each owner once."""
    sums: dict[tuple[int, tuple[int, ...]], int] = {}
    columns = rows.node.tolist(), rows.sysno.tolist(), times_ns.tolist(), owners
    for node, sysno, time_ns, owner in zip(*columns, strict=True):
        stack = tables.stack(node, sysno) if time_ns else None
        if stack is not None:
            key = tables.stack_number(stack), owner
            sums[key] = sums.get(key, 0) + time_ns
    return b"".join(
        message(2, whole(1, stack) + packed(2, owner) + packed(4, (time_ns,)))
        for (stack, owner), time_ns in sums.items()
    )


class _Dictionary(ProfileTables):
    """What samples refer to, written. The first entry of each table stands for nothing."""

    def __init__(self, request: ExportRequest) -> None:
        super().__init__(request)
        self._stack_numbers: dict[tuple[int, ...], int] = {(): 0}
        self._attributes: dict[tuple[str, str | int], int] = {}

    def stack_number(self, stack: tuple[int, ...]) -> int:
        """Return the number of a stack."""
        return self._stack_numbers.setdefault(stack, len(self._stack_numbers))

    def attribute(self, key: str, value: str | int) -> int:
        """Return the number of an attribute."""
        return self._attributes.setdefault((key, value), len(self._attributes) + 1)

    def attributes(self, key: str, value: str | int) -> tuple[int, ...]:
        """Return the same; nothing for a value that says nothing."""
        return (self.attribute(key, value),) if value else ()

    def encoded(self) -> bytes:
        """Return the ProfilesDictionary."""
        locations, functions = [b""], [b""]
        mappings = [b"", *self._encoded_mappings()]
        for _, mapping, addr, lines, kind in self.locations():
            found = b"".join(message(3, wholes(1, line)) for line in lines)
            kind_name = _FRAME_TYPES.get(kind, "native" if addr else "")
            kinds = self.attributes("profile.frame.type", kind_name)
            found += packed(4, kinds) if kinds else b""
            locations.append(wholes(1, (mapping, addr)) + found)
        functions += [wholes(1, each[1:]) for each in self.functions()]
        stacks = [packed(1, each) if each else b"" for each in self._stack_numbers]
        attributes = [b"", *self._encoded_attributes()]
        strings = [each.encode() for each in self.strings]
        tables = (mappings, locations, functions, [_NO_LINK], strings, attributes, stacks)
        return b"".join(
            message(field, entry) for field, table in enumerate(tables, 1) for entry in table
        )

    def _encoded_mappings(self) -> Iterator[bytes]:
        for _, module in self.mappings():
            ids = self.attributes("process.executable.build_id.gnu", module.build_id)
            numbers = wholes(1, (*mapped(module), self.string(module.path)))
            yield numbers + (packed(5, ids) if ids else b"")

    def _encoded_attributes(self) -> Iterator[bytes]:
        for key, value in self._attributes:
            said = (
                varint(3 << 3) + varint(value)
                if isinstance(value, int)
                else message(1, text(value).encode())
            )
            yield whole(1, self.string(key)) + message(2, said)
