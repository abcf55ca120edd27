"""The files of other profilers in ``tests/data/foreign``: our sums are those of a plain script."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flametap.foreign.opening import open_file
from flametap.model import Clock
from foreign_files import stacks

KEPT = Path(__file__).parents[2] / "data" / "foreign"
EXPECTED: dict[str, Any] = json.loads(gzip.decompress((KEPT / "expected.json.gz").read_bytes()))
ROUNDING_NS = 50
SOURCES = {
    "samply.json.gz": "Firefox Profiler",
    "tachyon.json.gz": "Firefox Profiler, by Tachyon Sampling Profiler",
    "node.cpuprofile.gz": "V8 CPU profile",
    "chromium-cpu.json.gz": "trace events, by V8",
    "chromium-slices.json.gz": "trace events",
    "pyspy.trace.json.gz": "trace events",
    "pyspy.speedscope.json.gz": "speedscope, by py-spy",
    "viztracer.json.gz": "trace events",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_sums_are_those_of_the_file(name: str) -> None:
    recording = open_file(str(KEPT / name))
    assert recording.status().source == SOURCES[name]
    for clock, threads in EXPECTED[name].items():
        found: dict[str, Counter[str]] = {}
        for info in recording.profile.thread_infos():
            own = stacks(recording, Clock(clock), info.thread_id)
            sums = found.setdefault(info.name, Counter())
            sums.update({";".join(path): weight for path, weight in own.items()})
        assert set(found) == set(threads)
        for thread, wanted in threads.items():
            assert set(found[thread]) == set(wanted), thread
            for path, weight in wanted.items():
                assert abs(found[thread][path] - weight) <= ROUNDING_NS, (thread, path)
