"""A recording of which only the last part is kept."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

import wire
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.contents import Loaded
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.reader import load
from flametap.recording.rolling import PIECES, RollingFile
from flametap.recording.writer import RecordingWriter
from profiles import apply
from recordings import recorded

SECOND_NS = 10**9
START_NS = 5 * SECOND_NS
KEEP_S = 10
STATUS = Status(7, "prog", "recording", started_s=1e9)


class Flight:
    """A program that runs another function each second, beside a thread that always waits."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.profile = Profile()
        self.profile.keep_new()
        self.file = RollingFile(str(folder), KEEP_S, lambda: self.now_s)
        recording = recorded(self.profile, SymbolTable(self.profile.locate), STATUS)
        self.names = recording.names
        self.writer = RecordingWriter(cast(BinaryIO, self.file), recording)

    def fly(self, seconds: int) -> None:
        """Go on for some seconds."""
        for _ in range(seconds):
            at = int(self.now_s)
            t0_ns = START_NS + at * SECOND_NS
            place = wire.frame(1, 0x1000 + 0x10 * (at % 30))
            apply(
                self.profile,
                t0_ns + SECOND_NS,
                modules=[wire.module(1, "/opt/prog")] if not at else [],
                threads=[wire.thread(1, 101, "runs"), wire.thread(2, 102, "waits")],
                traces=[wire.trace(1 + at % 30, [place])] if at < 30 else [],
                intervals=[
                    wire.interval(1, 1 + at % 30, t0_ns, SECOND_NS, SECOND_NS),
                    *(
                        [wire.interval(2, 1, START_NS, 1, 0, wire.PARKED, is_open=True)]
                        if not at
                        else []
                    ),
                ],
            )
            for address_id, frame in self.profile.news().addresses:
                self.names.set(address_id, [Frame(Function(f"at {frame.addr:x}", "prog"))])
            self.writer.step()
            self.now_s += 1

    def landed(self) -> Loaded:
        """What is kept, as it is read."""
        copy = io.BytesIO()
        start_ns = max(START_NS, self.profile.now_ns - KEEP_S * SECOND_NS)
        self.file.write_out(copy, start_ns, self.writer.rest())
        copy.seek(0)
        return load(copy, "kept")


@pytest.fixture
def flight(tmp_path: Path) -> Iterator[Flight]:
    flight = Flight(tmp_path)
    yield flight
    flight.file.close()


def weights(profile: Profile, clock: Clock, t0_ns: int | None = None) -> dict[int, int]:
    found = profile.leaf_weights(clock, t0_ns=t0_ns)
    sums: dict[int, int] = {}
    for thread, weight in zip(found.thread_id.tolist(), found.weight.tolist(), strict=True):
        sums[thread] = sums.get(thread, 0) + weight
    return sums


@pytest.mark.parametrize("seconds", [3, 10, 11, 60, 200])
def test_kept_is_the_last_part_and_nothing_else(flight: Flight, seconds: int) -> None:
    flight.fly(seconds)
    found = flight.landed()
    kept_s = min(seconds, KEEP_S)
    assert found.profile.duration_ns == kept_s * SECOND_NS
    start_ns = flight.profile.now_ns - kept_s * SECOND_NS
    for clock in Clock:
        assert weights(found.profile, clock) == weights(flight.profile, clock, start_ns), clock
    names = {function.name for function in found.table.functions}
    ran = {f"at {0x1000 + 0x10 * (at % 30):x}" for at in range(seconds - kept_s, seconds)}
    assert ran <= names
    assert found.status.duration_ns == kept_s * SECOND_NS
    assert found.status.verdict_cpu_ns["COMPLETE"] == kept_s * SECOND_NS
    assert found.status.reason == "it was saved while it was made"


def test_disk_does_not_fill_up(flight: Flight, tmp_path: Path) -> None:
    def held() -> int:
        return sum(path.stat().st_size for path in tmp_path.iterdir() if path.name != "old")

    flight.fly(30)
    before = held()
    flight.fly(200)
    assert held() < 1.5 * before
    assert len(list(tmp_path.iterdir())) <= PIECES + 3


def test_it_goes_on_after_a_part_was_saved(flight: Flight) -> None:
    flight.fly(20)
    first = flight.landed()
    flight.fly(5)
    second = flight.landed()
    assert second.profile.now_ns - first.profile.now_ns == 5 * SECOND_NS
    flight.file.close()
    assert flight.file.closed
