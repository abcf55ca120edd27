"""Recordings that grow elsewhere are, joined, what each of them is by itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock, Function, Process
from flametap.recording.growing import Growing
from flametap.recording.merge.joined import Joined
from flametap.recording.opened import open_recording
from flametap.recording.recording import Recording
from flametap.tree.selection import Selection
from recording_files import KEPT, write_recording

FILES = sorted(KEPT.glob("*.flametap"))[:3]
SHIFTS_NS = (0, 5_000_000_000, -3_000_000)


def stacks_of(*recordings: Recording) -> Counter[tuple[str, ...]]:
    """The weight of each stack, by the names of its functions and by each clock, nanoseconds."""
    found: Counter[tuple[str, ...]] = Counter()
    for recording in recordings:
        for clock in Clock:
            tree = views_of(recording).tree(Selection(clock))
            paths: list[tuple[str, ...]] = []
            for node, function in enumerate(tree.function.tolist()):
                above = paths[tree.parent[node]] if node else (clock.value,)
                own = tree.functions[function].name if function >= 0 else ""
                paths.append((*above, own) if node else above)
                if tree.self_ns[node]:
                    found[paths[-1]] += int(tree.self_ns[node])
    return found


def joined_of(files: Sequence[Path], seed: int) -> tuple[Joined, list[Recording]]:
    """Let recordings come piece by piece, one beside the other, while somebody looks."""
    rng = random.Random(seed)
    growing = [Growing(path.stem) for path in files]
    joined = Joined(
        [
            (each.recording, Process(0, 7, path.stem, path.stem, host=f"host-{at}"), shift_ns)
            for at, (each, path, shift_ns) in enumerate(
                zip(growing, files, SHIFTS_NS[: len(files)], strict=True)
            )
        ]
    )
    joined.recording.profile.keep_new()
    left = {at: path.read_bytes() for at, path in enumerate(files)}
    while left:
        at = rng.choice(sorted(left))
        n_bytes = rng.choice((2000, 20_000, 50_000))
        growing[at].add(left[at][:n_bytes])
        left[at] = left[at][n_bytes:]
        if not left[at]:
            del left[at]
            growing[at].finish()
            growing[at].recording.code = growing[at].code()
        joined.step()
        joined.recording.function_id(Function(f"[a view's {rng.random()}]", ""))
        joined.recording.names.pool(joined.recording.profile.n_addresses)
    joined.finish()
    return joined, [open_recording(str(each)) for each in files]


@pytest.mark.parametrize("seed", [1, 2])
def test_stacks_and_sums_are_those_of_the_parts(seed: int) -> None:
    joined, parts = joined_of(FILES, seed)
    recording = joined.recording
    assert stacks_of(recording) == stacks_of(*parts)
    status = recording.status()
    assert status.is_final
    assert status.state == "ended"
    assert status.samples == sum(each.status().samples for each in parts)


def test_times_threads_and_processes_are_told_apart() -> None:
    joined, parts = joined_of(FILES, 3)
    profile = joined.recording.profile
    starts_ns = [
        each.profile.start_ns + shift_ns for each, shift_ns in zip(parts, SHIFTS_NS, strict=False)
    ]
    ends_ns = [
        each.profile.now_ns + shift_ns for each, shift_ns in zip(parts, SHIFTS_NS, strict=False)
    ]
    assert profile.start_ns == min(starts_ns)
    assert profile.now_ns == max(ends_ns)
    hosts = {each.host for each in profile.processes.values()}
    assert hosts == {f"host-{at}" for at in range(len(FILES))}
    n_threads = sum(len(each.profile.plain_threads) for each in parts)
    assert len(profile.plain_threads) == n_threads
    by_host: Counter[str] = Counter()
    for each in profile.thread_infos():
        number = profile.plain_threads[each.thread_id].process
        by_host[profile.processes[number].host] += each.wall_ns
    for at, part in enumerate(parts):
        wall_ns = sum(each.wall_ns for each in part.profile.thread_infos())
        assert by_host[f"host-{at}"] == wall_ns
    assert all("host-" in each for each in profile.process_titles.values())


def test_one_that_ends_early_ends_there() -> None:
    """Its threads do not seem to wait on while the others go on."""
    path = FILES[0]
    first, second = Growing("a"), Growing("b")
    joined = Joined(
        [(each.recording, Process(0, 1, "x", "x"), 0) for each in (first, second)],
    )
    data = path.read_bytes()
    first.add(data)
    first.finish()
    joined.step()
    wall_ns = joined.recording.profile.total_ns(Clock.WALL)
    assert wall_ns == open_recording(str(path)).profile.total_ns(Clock.WALL)
    second.add(data[: len(data) // 2])
    joined.step()
    assert joined.recording.status().state == "recording"
    assert not joined.recording.status().is_final


def test_code_is_found_by_the_part_that_has_it() -> None:
    joined, parts = joined_of(FILES, 4)
    n_texts = 0
    for part in parts:
        for function in part.functions:
            lines = part.code.text(function, function.file).lines if function.file else None
            if lines is not None:
                n_texts += 1
                assert joined.recording.code.text(function, function.file).lines is not None
    assert n_texts == 0 or joined.recording.code.sources()


def test_what_is_joined_can_be_kept(tmp_path: Path) -> None:
    joined, parts = joined_of(FILES, 5)
    kept = open_recording(str(write_recording(tmp_path / "joined.flametap", joined.recording)))
    assert stacks_of(kept) == stacks_of(*parts)
    assert {each.host for each in kept.profile.processes.values()} == {
        f"host-{at}" for at in range(len(FILES))
    }


@pytest.mark.parametrize("shift_ns", [-(1 << 62), 1 << 62, 1 << 70])
def test_times_that_make_no_sense_keep_no_other_from_being_recorded(shift_ns: int) -> None:
    """The shift is what the other side says of its clock."""
    path = FILES[0]
    growing = [Growing("honest"), Growing("liar")]
    joined = Joined(
        [
            (each.recording, Process(0, 1, "x", "x", host=host), shift_ns if at else 0)
            for at, (each, host) in enumerate(zip(growing, ("honest", "liar"), strict=True))
        ]
    )
    for each in growing[::-1]:
        each.add(path.read_bytes())
        each.finish()
        joined.step()
    joined.finish()
    whole = open_recording(str(path))
    assert stacks_of(joined.recording) == stacks_of(whole)
    assert joined.recording.profile.duration_ns == whole.profile.duration_ns
    assert any("liar" in each for each in joined.recording.status().notes)
