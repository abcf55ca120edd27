"""What a collector is sent: read by OpenTelemetry's own messages."""

from __future__ import annotations

import io
import random

import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesPartialSuccess,
    ExportProfilesServiceResponse,
)

from flametap.export.request import ExportRequest
from flametap.model import Clock
from flametap.push.store import check_url, store_of
from flametap.tree.selection import Selection, Span
from otlp_file import OtlpFile
from profiles import random_profile, small_profile
from recordings import recorded
from stacks import of_tree

TYPES = {Clock.CPU: "cpu", Clock.OFF_CPU: "off_cpu", Clock.WALL: "wall"}
LABELS = {"service_name": "shop", "host": "web7", "team": "a"}
COLLECTOR = store_of("otlp+http://collector:4318", LABELS)


def read(request: ExportRequest) -> OtlpFile:
    file = io.BytesIO()
    COLLECTOR.write(request, file)
    return OtlpFile(COLLECTOR.body(file.getvalue()))


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_all_stacks_are_those_of_the_recording(seed: int) -> None:
    profile, names = random_profile(random.Random(seed))
    request = ExportRequest(recorded(profile, names), Selection(Clock.CPU))
    found = read(request)
    assert found.samples.keys() == set(TYPES.values())
    for clock, name in TYPES.items():
        assert found.sums(name) == of_tree(request.tree(clock)).weights


def test_segment_has_what_lies_between_two_times() -> None:
    profile, names = small_profile()
    recording = recorded(profile, names)
    half_ns = profile.duration_ns // 2
    spans = Span(0, half_ns), Span(half_ns, profile.duration_ns)
    parts = [read(ExportRequest(recording, Selection(span=each))) for each in spans]
    whole = read(ExportRequest(recording, Selection()))
    for name in TYPES.values():
        total = sum(sum(each.sums(name).values()) for each in parts)
        assert total == pytest.approx(sum(whole.sums(name).values()), abs=10)
    first, second = (each.profiles["cpu"] for each in parts)
    assert second.time_unix_nano - first.time_unix_nano == half_ns
    assert first.duration_nano == half_ns


def test_resource_threads_and_files_have_the_names_of_the_conventions() -> None:
    found = read(ExportRequest(recorded(*small_profile()), Selection()))
    assert found.resource == {"service.name": "shop", "host.name": "web7", "team": "a"}
    assert found.scope.name == "flametap"
    for sample in found.samples["wall"]:
        assert {"thread.name", "thread.id", "flametap.state"} <= sample.attributes.keys()
    (comment,) = found.attributes(found.profiles["cpu"].attribute_indices).items()
    assert comment[0] == "pprof.profile.comment"
    tables = found.dictionary
    kinds = {
        kind
        for each in tables.location_table[1:]
        for kind in found.attributes(each.attribute_indices).values()
    }
    assert kinds == {"native"}
    for location in tables.location_table[1:]:
        mapping = tables.mapping_table[location.mapping_index]
        if location.mapping_index:
            assert mapping.memory_start <= location.address < mapping.memory_limit


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"", ""),
        (b"<html>ok</html>", ""),
        (b"\x0a\x02", ""),
        (ExportProfilesServiceResponse().SerializeToString(), ""),
        (
            ExportProfilesServiceResponse(
                partial_success=ExportProfilesPartialSuccess(
                    rejected_profiles=3, error_message="no\nroom"
                )
            ).SerializeToString(),
            "no room",
        ),
        (
            ExportProfilesServiceResponse(
                partial_success=ExportProfilesPartialSuccess(error_message="slow down")
            ).SerializeToString(),
            "",
        ),
    ],
)
def test_collector_that_rejects_a_profile_says_why(answer: bytes, complaint: str) -> None:
    assert COLLECTOR.complaint(answer) == complaint


def test_address_is_that_of_the_signal() -> None:
    assert check_url("otlp+https://x:4318/") == "otlp+https://x:4318"
    for url in ("otlp+http://x:4318", "otlp+http://x:4318/v1development/profiles"):
        assert store_of(url, LABELS).url(1, 2) == "http://x:4318/v1development/profiles"
