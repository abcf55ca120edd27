"""Files with only the time in which threads hold the GIL."""

from __future__ import annotations

import io

import orjson
import pytest

from flametap.export import folded, speedscope
from flametap.export.request import ExportRequest
from flametap.model import Clock
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection
from gil_profiles import MS, gil_profile
from recordings import recorded

ONLY_GIL = FrameFilter(Language.PYTHON, only_gil=True)


def request(clock: Clock, unit: str = "time") -> ExportRequest:
    return ExportRequest(recorded(*gil_profile()), Selection(clock, frames=ONLY_GIL), unit=unit)


def written(write: object, asked: ExportRequest) -> bytes:
    file = io.BytesIO()
    write(asked, file)  # type: ignore[operator]
    return file.getvalue()


@pytest.mark.parametrize(("clock", "waits"), [(Clock.CPU, 0), (Clock.WALL, 15_000)])
def test_folded(clock: Clock, waits: int) -> None:
    lines = written(folded.write, request(clock)).decode().splitlines()
    found = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    expected = {"parse (app/parse.py)": 60_000, "render (app/render.py)": 20_000}
    if waits:
        expected["render (app/render.py);[waiting for a CPU]"] = waits
    assert found == expected


@pytest.mark.parametrize("unit", ["time", "samples"])
def test_speedscope(unit: str) -> None:
    file = orjson.loads(written(speedscope.write, request(Clock.WALL, unit)))
    weights = {each["name"]: sum(each["weights"]) for each in file["profiles"]}
    expected = {"python (101)": 60 * MS, "worker-1 (102)": 35 * MS}
    if unit == "samples":
        expected = {"python (101)": 1, "worker-1 (102)": 2}
    assert weights == expected
    assert "while holding the GIL" in file["name"]
    names = {each["name"] for each in file["shared"]["frames"]}
    assert names == {"parse", "render", "[waiting for a CPU]"}
