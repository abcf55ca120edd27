"""Several recordings become one that has what all of them have, to the nanosecond."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flametap.errors import InputError
from flametap.model import Clock
from flametap.recording import contents
from flametap.recording.chunks import Chunk
from flametap.recording.code_source import CodeRow
from flametap.recording.kept_code import TEXT, listing_chunk
from flametap.recording.merge import places
from flametap.recording.merge import whole as merging
from flametap.recording.opened import open_recording
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.summary import title
from made_recordings import NOON_S, SECOND, Made, sums


def merged(tmp_path: Path, *made: Made | str) -> Recording:
    """Write recordings, merge them, and open the result."""
    paths = [
        each if isinstance(each, str) else each.write(tmp_path / f"part{at}.flametap")
        for at, each in enumerate(made)
    ]
    out = tmp_path / f"whole{len(list(tmp_path.iterdir()))}.flametap"
    with out.open("wb") as file:
        merging.merge(paths, file)
    return open_recording(str(out))


def intervals(recording: Recording, tid: int) -> list[tuple[int, int, int]]:
    """Start, elapsed and CPU time of the intervals of a thread, since the start."""
    profile = recording.profile
    number = next(each.thread_id for each in profile.threads.values() if each.tid == tid)
    rows = []
    for chunk in profile._intervals.snapshot():
        block = chunk.read(number)
        start_ns = block.t0_ns - profile.start_ns
        rows += list(
            zip(start_ns.tolist(), block.wall_ns.tolist(), block.cpu_ns.tolist(), strict=True)
        )
    return sorted(rows)


OTHER = Made(52, "/opt/other", seed=2, tids=(52, 53, 54), load_bias=0x6000_0000)


def test_sums_are_those_of_the_parts_to_the_nanosecond(tmp_path: Path) -> None:
    third = Made(63, "/opt/third", "there", NOON_S + 100.5, 77 * SECOND, 3, 0x7000_0000)
    made = [Made(), OTHER, third]
    whole = merged(tmp_path, *made)
    parts = [open_recording(str(tmp_path / f"part{at}.flametap")) for at in range(3)]
    expected: Counter[tuple[Any, ...]] = Counter()
    for part, each in zip(parts, made, strict=True):
        expected += sums(part, f"prog {each.pid} on {each.host}: ")
    assert sums(whole) == expected
    profile = whole.profile
    for clock in Clock:
        assert profile.total_ns(clock) == sum(p.profile.total_ns(clock) for p in parts)
    assert profile.verdicts().native == whole.status().verdict_cpu_ns
    assert whole.status().samples == profile.samples
    assert not any("ours" in each.name for each in profile.threads.values())


def test_process_that_was_recorded_twice_is_one(tmp_path: Path) -> None:
    first = Made(tids=(41, 42, 43), exited=(42,))
    later = dataclasses.replace(
        first, seed=4, start_ns=15 * SECOND, started_s=NOON_S + 10, exited=(), notes=("slow",)
    )
    # The order in which they are named does not matter.
    later.write(tmp_path / "later.flametap")
    whole = merged(tmp_path, str(tmp_path / "later.flametap"), first)
    status = whole.status()
    assert (status.pid, status.command) == (41, "/opt/prog --all")
    names = Counter(each.name for each in whole.profile.threads.values())
    # A tid whose thread had ended is another thread.
    assert names == {"worker 41": 1, "worker 42": 2, "worker 43": 1}
    assert [each.path for each in whole.profile.modules.values()].count("/opt/prog") == 1
    assert status.started_s == NOON_S
    assert status.duration_ns == 13 * SECOND
    assert status.recorded_ns == 6 * SECOND
    assert status.notes == ["prog 41: slow"]
    parts = [open_recording(str(each)) for each in tmp_path.glob("[lp]*")]
    assert sums(whole) == sum((sums(each) for each in parts), Counter())


def test_later_process_of_the_same_pid_is_another_one(tmp_path: Path) -> None:
    whole = merged(tmp_path, Made(), Made(load_bias=0x1234_0000, started_s=NOON_S + 60))
    names = [each.name for each in whole.profile.threads.values()]
    assert names == [
        "prog 41 on here [1]: worker 41",
        "prog 41 on here [1]: worker 42",
        "prog 41 on here [2]: worker 41",
        "prog 41 on here [2]: worker 42",
    ]
    assert whole.status().pid == 0
    assert title(whole) == "prog 41 on here [1] + prog 41 on here [2]"


def test_long_time_without_a_recording_is_shortened(tmp_path: Path) -> None:
    day_s = 86_400
    apart = [
        dataclasses.replace(OTHER, start_ns=20 * SECOND, started_s=NOON_S + 30 * day_s),
        dataclasses.replace(OTHER, start_ns=26 * SECOND, started_s=NOON_S + 30 * day_s + 6, seed=3),
    ]
    whole = merged(tmp_path, Made(), *apart)
    gap_ns = places.MAX_GAP_NS
    assert whole.profile.duration_ns == 3 * SECOND + gap_ns + 9 * SECOND
    assert whole.status().recorded_ns == 9 * SECOND
    assert [each["start_ns"] for each in whole.meta["merged"]] == [
        0,
        3 * SECOND + gap_ns,
        9 * SECOND + gap_ns,
    ]
    (note,) = whole.status().notes
    assert note.endswith("in which nothing was recorded are left out")
    threads = whole.profile.threads.values()
    first_ns = [each.first_seen_ns - whole.profile.start_ns for each in threads]
    assert first_ns[:3] == [1, 2, 3 * SECOND + gap_ns + 1]


@pytest.mark.parametrize(
    ("other", "shift_ns", "note"),
    [
        # One clock: as it says, whatever the time of day does meanwhile.
        ({"start_ns": 6 * SECOND, "started_s": NOON_S + 1.5}, SECOND, ""),
        # Another start of the machine.
        ({"start_ns": 2 * SECOND, "started_s": NOON_S + 360}, 360 * SECOND, ""),
        (
            {"host": "there", "start_ns": 900 * SECOND, "started_s": NOON_S + 0.25},
            SECOND // 4,
            "prog 52 (3.00 s): placed by the time of day of there, which may differ from that of"
            " here",
        ),
        (
            {"host": "there", "start_ns": 900 * SECOND, "started_s": 0.0},
            0,
            "prog 52 (3.00 s): when it was made is not known: it begins with the first one",
        ),
    ],
)
def test_recordings_lie_where_their_moment_was(
    other: dict[str, Any], shift_ns: int, note: str, tmp_path: Path
) -> None:
    whole = merged(tmp_path, Made(), dataclasses.replace(OTHER, **other))
    parts = [open_recording(str(tmp_path / f"part{at}.flametap")) for at in range(2)]
    # Starts are kept to 2^-32 of the length, rounded up to a power of two.
    close = 2 * whole.profile.duration_ns / 2**32 + 2
    for part, tid, by_ns in ((parts[0], 42, 0), (parts[1], 53, shift_ns)):
        for here, there in zip(intervals(whole, tid), intervals(part, tid), strict=True):
            assert here[0] == pytest.approx(there[0] + by_ns, abs=close)
            assert here[1:] == there[1:]
    assert whole.status().notes == ([note] if note else [])


def test_one_that_was_merged_can_be_merged_again(tmp_path: Path) -> None:
    third = Made(63, "/opt/third", "here", NOON_S + 10, 15 * SECOND, 3, 0x7000_0000, notes=("b",))
    both = merged(tmp_path, dataclasses.replace(Made(), notes=("a",)), OTHER)
    assert both.copy_to is not None
    with (tmp_path / "both.flametap").open("wb") as file:
        both.copy_to(file)
    again = merged(tmp_path, str(tmp_path / "both.flametap"), third)
    at_once = merged(tmp_path, dataclasses.replace(Made(), notes=("a",)), OTHER, third)
    assert sums(again) == sums(at_once)
    assert again.status().notes == at_once.status().notes == ["prog 41: a", "prog 63: b"]
    assert again.status().reason == "merged from 3 recordings"
    assert again.meta["merged"] == at_once.meta["merged"]


def test_counters_and_rates_hold_for_the_whole(tmp_path: Path) -> None:
    counters = {"intervals_lost": 3, "handler_ns_max": 50, "bytes_held": 100}
    one = Made(counters=counters, has_gil=True)
    again = dataclasses.replace(
        one, counters=counters | {"bytes_held": 70}, started_s=NOON_S + 9, start_ns=14 * SECOND
    )
    other = dataclasses.replace(
        OTHER, counters={"intervals_lost": 4, "handler_ns_max": 20, "bytes_held": 1}, has_gil=True
    )
    status = merged(tmp_path, one, again, other).status()
    assert status.counters == {"intervals_lost": 10, "handler_ns_max": 50, "bytes_held": 101}
    assert any("several processes have a GIL" in note for note in status.notes)
    assert [each.module for each in status.symbols] == ["prog", "prog"]


def test_time_that_two_recordings_have_is_told(tmp_path: Path) -> None:
    later = Made(seed=9, start_ns=7 * SECOND, started_s=NOON_S + 2)
    status = merged(tmp_path, Made(), later).status()
    assert status.notes == ["prog 41 (3.00 s): 1.00 s of it count twice: two recordings have them"]


def test_locks_of_different_processes_differ(tmp_path: Path) -> None:
    whole = merged(tmp_path, Made(), OTHER)
    profile = whole.profile
    _, holders = profile._intervals.snapshot()[0].with_lock("holder_id")
    threads = {profile.threads[each].name for each in np.unique(holders).tolist()}
    assert threads == {"prog 41: worker 41", "prog 52: worker 52"}
    _, locks = profile._intervals.snapshot()[0].with_lock("held_lock")
    assert len(np.unique(locks)) == 2
    same = merged(tmp_path, Made(), Made(seed=5, start_ns=15 * SECOND, started_s=NOON_S + 10))
    _, locks = same.profile._intervals.snapshot()[0].with_lock("held_lock")
    assert np.unique(locks).tolist() == [7]


def code_row(addr: int, text: str) -> CodeRow:
    return CodeRow(addr, b"\x90", text, "", 0, 0, "/src/f.c", 1, "")


@pytest.mark.parametrize("texts", [[["prog", "f"]], [["prog", "f", "", -1, [], []]], 5])
def test_text_that_makes_no_sense_is_refused(tmp_path: Path, texts: Any) -> None:
    with pytest.raises(InputError, match="is damaged"):
        merged(tmp_path, Made(more=(Chunk(TEXT, {"texts": texts}),)), OTHER)


def test_code_of_all_is_kept(tmp_path: Path) -> None:
    here = (
        Chunk(TEXT, {"texts": [["prog", "/src/f.c", "", 9, [[1, 2]], ["a", "b"]]]}),
        listing_chunk({"function": 1, "module": 2, "notes": []}, [code_row(0x1000, "nop")]),
    )
    there = (
        Chunk(
            TEXT,
            {
                "texts": [
                    ["prog", "/src/f.c", "", 9, [[2, 2], [9, 1]], ["B", "c", "i"]],
                    ["prog", "/src/g.c", "no such file", None, [], []],
                ]
            },
        ),
        listing_chunk(
            {"function": 1, "module": 2, "notes": ["cut"]},
            [code_row(0x1000, "other"), code_row(0x1001, "ret")],
        ),
    )
    whole = merged(tmp_path, Made(more=here), dataclasses.replace(OTHER, seed=1, more=there))
    code, function = whole.code, whole.functions[1]
    lines = ["a", "b", "c", "", "", "", "", "", "i"]
    assert code.text(function, "/src/f.c").lines == lines
    assert code.text(function, "/src/g.c").note == "no such file"
    module_id = next(
        number for number, each in whole.profile.modules.items() if each.path == "/lib/libc.so.6"
    )
    found = code.listing(function, module_id, np.empty(0, np.int64))
    assert [each.text for each in found.rows] == ["nop", "ret"]
    assert found.notes == ["cut"]


def test_file_that_was_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "cut.flametap"
    Made().write(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    whole = merged(tmp_path, str(path), OTHER)
    parts = [open_recording(str(each)) for each in (path, tmp_path / "part1.flametap")]
    for clock in Clock:
        total_ns = sum(each.profile.total_ns(clock) for each in parts)
        assert whole.profile.total_ns(clock) == total_ns
    assert any("cannot be read beyond byte" in note for note in whole.status().notes)


def test_more_than_fits_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "Profile", lambda: Profile(tables_bytes=120_000))
    with pytest.raises(
        InputError, match=r"fit beside the others: it has more .* than fit"
    ) as caught:
        merged(tmp_path, *(dataclasses.replace(OTHER, pid=60 + at, seed=at) for at in range(9)))
    assert caught.value.exit_code == 1


def test_what_was_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MAX_FUNCTIONS", 7)
    with pytest.raises(InputError, match=r"do not fit into one: .*more names than fit"):
        merged(tmp_path, Made(), OTHER)


def test_input_that_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "x.flametap").write_bytes(os.urandom(100))
    with pytest.raises(InputError, match="is no recording"):
        merged(tmp_path, str(tmp_path / "x.flametap"), Made())
