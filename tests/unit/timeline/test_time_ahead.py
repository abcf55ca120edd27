"""What is made ahead: views of the whole recording then read no chunk, and show the same."""

from __future__ import annotations

import random

import pytest

import wire
from flametap.recording.profile import intervals
from flametap.recording.profile.interval_chunk import Block
from flametap.recording.profile.store import Profile
from flametap.timeline.heat import HeatQuery, heat
from flametap.timeline.lanes import LaneQuery, lanes
from flametap.timeline.time_ahead import TimeAhead
from flametap.timeline.time_sums import TimeSums
from flametap.wire import abi
from time_rows import START_NS, apply, random_rows

WHOLE = LaneQuery(n_bins=8, overview_bins=8)


def test_views_of_the_whole_recording_read_no_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 64)
    profile = Profile()
    sums = TimeSums(profile.moments)
    ahead = TimeAhead(sums, profile)
    assert not ahead.step()
    threads = [wire.thread(at, at, f"t{at}") for at in range(1, 5)]
    apply(profile, START_NS, [], threads=threads)
    rows = random_rows(random.Random(3), 400, 4)
    end_ns = max(row.t0_ns + row.wall_ns for row in rows)
    apply(profile, end_ns, rows[:200])
    while ahead.step():
        pass
    apply(profile, end_ns, rows[200:])
    hidden = [wire.thread(4, 4, "agent", flags=abi.THREAD_HIDDEN)]
    apply(profile, end_ns, [], threads=hidden)  # what was made has this thread's time
    steps = 1
    while ahead.step():
        steps += 1
    assert steps == 6, "one chunk at a time"
    assert not ahead.step()

    fresh = TimeSums(profile.moments)
    expected = lanes(fresh, WHOLE), heat(fresh, HeatQuery(kind="waits"))
    view = sums.look()

    def refuse() -> Block:
        raise AssertionError("a view of the whole recording reads a chunk")

    for part in view.parts[: len(view.now.intervals.chunks)]:
        monkeypatch.setattr(part, "read", refuse)
    assert (lanes(sums, WHOLE), heat(sums, HeatQuery(kind="waits"))) == expected
    heat(sums, HeatQuery(kind="cpu"))
