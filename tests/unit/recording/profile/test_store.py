"""The store: what batches add up to, by clock, thread, time and trust."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import wire
from flametap.linux import syscalls
from flametap.model import Clock, RawFrame, Verdict
from flametap.recording.profile import intervals
from flametap.recording.profile.leaves import LeafWeights
from flametap.recording.profile.stacks import ROOT, TRUNCATED, UNATTRIBUTED
from flametap.recording.profile.store import Profile
from flametap.wire import abi
from flametap.wire.decoder import Decoder, ProtocolError
from wire import BLOCKED, PARKED, QUEUED, RUNNING

A, B, C, D = (wire.frame(1, 0x100 * i) for i in range(1, 5))
EPOLL_WAIT, FUTEX = 232, 202


def apply(profile: Profile, now_ns: int, **sections: Any) -> None:
    for batch in Decoder().feed(wire.batch(now_ns, **sections)):
        profile.apply(batch)


def profile_with(*rows: bytes, now_ns: int = 0, **sections: Any) -> Profile:
    """Two threads, three stacks A→B, A→C and A→B→D, and the intervals given."""
    profile = Profile()
    apply(
        profile,
        now_ns,
        **{
            "modules": [wire.module(1, "/opt/prog")],
            "threads": [wire.thread(1, 101, "main"), wire.thread(2, 102, "pool")],
            "traces": [wire.trace(1, [B, A]), wire.trace(2, [C, A]), wire.trace(3, [D, B, A])],
            "intervals": rows,
            **sections,
        },
    )
    return profile


def stack_of(profile: Profile, node: int) -> str:
    """A node as text, root first: letters, with synthetic nodes by their names."""
    trie = profile.trie()
    letters = {0x100: "A", 0x200: "B", 0x300: "C", 0x400: "D"}
    special = {ROOT: "", UNATTRIBUTED: "[unattributed]", TRUNCATED: "[truncated]"}
    text = ""
    while node not in special:
        frame = profile.locate(int(trie.address[node]))[0]
        text = letters.get(frame.addr, "?") + text
        node = int(trie.parent[node])
    return special[node] + text


def by_stack(profile: Profile, leaves: LeafWeights) -> dict[Any, int]:
    """(stack as text, sysno) or just the stack without one → weight."""
    found: Counter[Any] = Counter()
    for node, sysno, weight in zip(
        leaves.node.tolist(), leaves.sysno.tolist(), leaves.weight.tolist(), strict=True
    ):
        text = stack_of(profile, node)
        found[(text, sysno) if sysno >= 0 else text] += weight
    return dict(found)


def weights(profile: Profile, clock: Clock, **options: Any) -> dict[Any, int]:
    return by_stack(profile, profile.leaf_weights(clock, **options))


def test_running_interval_weighs_by_each_clock() -> None:
    profile = profile_with(wire.interval(1, 1, 1000, 100, 60))
    assert weights(profile, Clock.CPU) == {"AB": 60}
    assert weights(profile, Clock.WALL) == {"AB": 100}
    assert weights(profile, Clock.OFF_CPU) == {"AB": 40}


def test_cpu_time_carried_over_does_not_make_negative_off_cpu_time() -> None:
    profile = profile_with(wire.interval(1, 1, 1000, 100, 160))
    assert weights(profile, Clock.CPU) == {"AB": 160}
    assert weights(profile, Clock.OFF_CPU) == {}


def test_parked_interval_ends_in_its_system_call_but_not_on_the_cpu_clock() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 100, 3, PARKED, sysno=EPOLL_WAIT),
        wire.interval(1, 1, 1100, 50, 0, BLOCKED),
    )
    assert weights(profile, Clock.CPU) == {"AB": 3}
    assert weights(profile, Clock.WALL) == {("AB", EPOLL_WAIT): 100, "AB": 50}
    assert weights(profile, Clock.OFF_CPU) == {("AB", EPOLL_WAIT): 100, "AB": 50}


def test_stack_that_was_cut_hangs_below_truncated() -> None:
    profile = profile_with(
        wire.interval(1, 9, 1000, 10, 10),
        wire.interval(1, 10, 1010, 20, 20),
        traces=[
            wire.trace(9, [B, A], Verdict.NO_UNWIND_INFO, fault_module=1),
            wire.trace(10, [], Verdict.BAD_MEMORY),
        ],
    )
    assert weights(profile, Clock.CPU) == {"[truncated]AB": 10, "[truncated]": 20}
    assert profile.verdicts().native == {"NO_UNWIND_INFO": 10, "BAD_MEMORY": 20}
    assert profile.verdicts().modules == {"": 20, "prog": 10}


def test_guessed_stack_shares_the_nodes_of_a_complete_one_and_keeps_its_verdict() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 10, 10),
        wire.interval(1, 9, 1010, 5, 5),
        traces=[wire.trace(1, [B, A]), wire.trace(9, [B, A], Verdict.GUESSED)],
    )
    assert weights(profile, Clock.CPU) == {"AB": 15}
    assert profile.verdicts().native == {"COMPLETE": 10, "GUESSED": 5}
    assert profile.verdicts().modules == {}


def test_too_deep_stack_is_no_modules_fault() -> None:
    profile = profile_with(
        wire.interval(1, 9, 1000, 10, 10),
        traces=[wire.trace(9, [B, A], Verdict.TRUNCATED_DEPTH)],
    )
    assert profile.verdicts().modules == {}
    assert weights(profile, Clock.CPU) == {"[truncated]AB": 10}


def test_trace_zero_and_trace_that_never_came_are_unattributed() -> None:
    profile = profile_with(
        wire.interval(1, 0, 1000, 10, 10), wire.interval(1, 3_000_000, 1010, 5, 5)
    )
    assert weights(profile, Clock.CPU) == {"[unattributed]": 15}
    assert profile.verdicts().native == {"NO_STACK": 15}


def test_same_stack_under_a_new_trace_id_is_the_same_leaf() -> None:
    profile = profile_with(wire.interval(1, 1, 1000, 10, 10))
    apply(
        profile,
        2000,
        traces=[wire.trace(5000, [B, A])],
        intervals=[wire.interval(1, 5000, 1010, 7, 7)],
    )
    assert weights(profile, Clock.CPU) == {"AB": 17}
    assert len(profile.trie().parent) == TRUNCATED + 1 + 4


def test_trace_id_out_of_all_order_is_refused() -> None:
    with pytest.raises(ProtocolError, match="trace id"):
        profile_with(traces=[wire.trace(0xFFFF_FFFF, [A])])


def test_open_interval_holds_up_to_the_last_batch() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 0, 0, PARKED, sysno=FUTEX, is_open=True), now_ns=1500
    )
    assert weights(profile, Clock.WALL) == {("AB", FUTEX): 500}
    assert profile.thread_infos()[0].waits_in == "futex"
    apply(profile, 3000)
    assert weights(profile, Clock.WALL) == {("AB", FUTEX): 2000}
    assert profile.samples == 1


def test_open_interval_is_replaced_by_a_later_record_of_the_same_start() -> None:
    opened = wire.interval(1, 1, 1000, 10, 0, PARKED, sysno=FUTEX, is_open=True)
    profile = profile_with(opened, now_ns=1500)
    apply(profile, 2000, intervals=[opened, wire.interval(1, 2, 1000, 600, 0, PARKED, sysno=FUTEX)])
    assert weights(profile, Clock.WALL) == {("AC", FUTEX): 600}
    assert profile.thread_infos()[0].waits_in == ""
    assert profile.samples == 1


def test_open_interval_whose_end_was_lost_ends_where_the_thread_goes_on() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 0, 0, PARKED, sysno=FUTEX, is_open=True), now_ns=5000
    )
    apply(profile, 6000, intervals=[wire.interval(1, 2, 4000, 100, 100)])
    assert weights(profile, Clock.WALL) == {("AB", FUTEX): 3000, "AC": 100}


def test_whatever_a_thread_does_next_ends_its_open_interval() -> None:
    """Time in between counts as asleep; a record of an earlier time takes nothing away."""
    opened = wire.interval(1, 1, 1000, 300, 0, PARKED, sysno=FUTEX, is_open=True)
    for t0_ns, asleep_ns in ((4000, 3000), (1200, 300), (500, 300)):
        profile = profile_with(opened, now_ns=5000)
        apply(profile, 6000, intervals=[wire.interval(1, 2, t0_ns, 100, 100)])
        apply(profile, 9000)
        assert weights(profile, Clock.WALL) == {("AB", FUTEX): asleep_ns, "AC": 100}
        assert profile.thread_infos()[0].waits_in == ""


def test_waiting_for_a_cpu_is_a_leaf_of_its_own_but_not_on_the_cpu_clock() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 70, 70),
        wire.interval(1, 1, 1070, 20, 0, QUEUED),
        wire.interval(2, 0, 1000, 10, 0, QUEUED),
    )
    assert weights(profile, Clock.CPU) == {"AB": 70}
    assert weights(profile, Clock.OFF_CPU) == {
        ("AB", syscalls.QUEUED): 20,
        ("", syscalls.QUEUED): 10,
    }
    assert weights(profile, Clock.WALL) == {**weights(profile, Clock.OFF_CPU), "AB": 70}
    timeline = [row for block in profile.timelines(Clock.WALL)(2) for row in block.node.tolist()]
    assert timeline == [ROOT]
    assert profile.thread_infos()[0].waits_in == ""


def test_open_interval_of_an_exited_thread_ends() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 0, 0, PARKED, sysno=FUTEX, is_open=True), now_ns=5000
    )
    apply(profile, 6000, threads=[wire.thread(1, 101, "main", flags=abi.THREAD_EXITED)])
    apply(profile, 9000)
    assert weights(profile, Clock.WALL) == {("AB", FUTEX): 5000}
    assert profile.threads[1].exited


def test_hidden_thread_vanishes_with_all_it_has() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 10, 10),
        wire.interval(2, 1, 1000, 20, 20),
        wire.interval(2, 1, 1020, 0, 0, PARKED, sysno=FUTEX, is_open=True),
        now_ns=2000,
    )
    hidden = wire.thread(2, 102, "gum-js-loop", flags=abi.THREAD_HIDDEN)
    apply(profile, 3000, threads=[hidden], intervals=[wire.interval(2, 1, 1500, 5, 5)])
    apply(profile, 4000, intervals=[wire.interval(2, 1, 3500, 5, 5)])
    assert list(profile.threads) == [1]
    assert weights(profile, Clock.WALL) == {"AB": 10}
    assert weights(profile, Clock.WALL, t0_ns=0, t1_ns=10_000) == {"AB": 10}
    assert profile.samples == 1


def test_intervals_of_a_thread_that_was_not_announced_are_kept() -> None:
    profile = profile_with(wire.interval(7, 1, 1000, 10, 10))
    assert profile.threads[7].name == "?"
    assert weights(profile, Clock.CPU, thread_ids=frozenset({7})) == {"AB": 10}


def test_weights_of_some_threads() -> None:
    profile = profile_with(wire.interval(1, 1, 1000, 10, 9), wire.interval(2, 2, 1000, 30, 20))
    assert weights(profile, Clock.CPU, thread_ids=frozenset({2})) == {"AC": 20}
    assert weights(profile, Clock.CPU, thread_ids=frozenset()) == {}
    infos = {info.thread_id: info for info in profile.thread_infos()}
    assert (infos[1].cpu_ns, infos[1].wall_ns, infos[1].off_cpu_ns) == (9, 10, 1)
    assert (infos[2].tid, infos[2].name, infos[2].cpu_ns) == (102, "pool", 20)
    assert profile.total_ns(Clock.WALL) == 40


def test_span_of_time_cuts_intervals() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 100, 50), wire.interval(1, 2, 1100, 100, 100), now_ns=1200
    )
    assert weights(profile, Clock.WALL, t0_ns=1050, t1_ns=1120) == {"AB": 50, "AC": 20}
    assert weights(profile, Clock.CPU, t0_ns=1050, t1_ns=1120) == {"AB": 25, "AC": 20}
    assert weights(profile, Clock.OFF_CPU, t0_ns=1050) == {"AB": 25}
    assert weights(profile, Clock.CPU, t1_ns=1100) == {"AB": 50}
    assert weights(profile, Clock.CPU, t0_ns=5000) == {}


def test_samples_are_counted_by_clock() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 10, 10, samples=3),
        wire.interval(1, 1, 1010, 10, 0, PARKED, sysno=FUTEX, samples=2),
    )
    assert profile.samples == 5
    assert by_stack(profile, profile.leaf_samples(Clock.CPU)) == {"AB": 3}
    assert by_stack(profile, profile.leaf_samples(Clock.OFF_CPU)) == {("AB", FUTEX): 2}
    assert profile.leaf_samples(Clock.WALL, frozenset({2})).total == 0


def test_addresses_are_given_out_once_and_located() -> None:
    profile = profile_with(traces=[wire.trace(1, [B, A, wire.runtime_frame(0x7F00)])])
    first = profile.news()
    assert first.addresses == [
        (0, RawFrame(0, 0x7F00)),
        (1, RawFrame(1, 0x100)),
        (2, RawFrame(1, 0x200)),
    ]
    assert first.leaves == [(2, RawFrame(1, 0x200))]
    assert first.calls.callee_id.tolist() == [2]
    apply(profile, 1, traces=[wire.trace(2, [C, B, A])])
    second = profile.news(first.mark)
    assert second.addresses == second.leaves == [(3, RawFrame(1, 0x300))]
    # Below another root, so A → B is new, too.
    assert (second.calls.caller_id.tolist(), second.calls.callee_id.tolist()) == ([1, 2], [2, 3])
    third = profile.news(second.mark)
    assert (third.addresses, third.leaves, third.mark) == ([], [], second.mark)
    assert profile.locate(1) == (RawFrame(1, 0x100), "prog")
    assert profile.locate(0) == (RawFrame(0, 0x7F00), "")


def test_times_of_the_profile() -> None:
    profile = Profile()
    assert (profile.start_ns, profile.duration_ns, profile.samples) == (0, 0, 0)
    profile = profile_with(wire.interval(1, 1, 1000, 10, 10), now_ns=1500)
    assert (profile.start_ns, profile.now_ns, profile.duration_ns) == (1000, 1500, 500)


def test_revision_grows_with_each_change() -> None:
    profile = profile_with()
    revision = profile.revision
    apply(profile, 1, intervals=[wire.interval(1, 1, 1, 1)])
    assert profile.revision == revision + 1
    apply(profile, 2)
    assert profile.revision == revision + 1, "nothing changed"


def test_timeline_is_in_order_and_merges_equal_neighbours() -> None:
    profile = profile_with(
        wire.interval(1, 1, 1000, 10, 10),
        wire.interval(2, 3, 1000, 10, 10),
        wire.interval(1, 1, 1010, 10, 9),
        wire.interval(1, 2, 1020, 10, 0),
        wire.interval(1, 1, 1030, 10, 8),
        wire.interval(1, 2, 1040, 0, 0, PARKED, sysno=FUTEX, is_open=True),
        now_ns=1100,
    )

    def rows(clock: Clock) -> list[tuple[str, int, int]]:
        return [
            (stack_of(profile, node), sysno, weight)
            for block in profile.timelines(clock)(1)
            for node, sysno, weight in zip(
                block.node.tolist(), block.sysno.tolist(), block.weight.tolist(), strict=True
            )
        ]

    # Without weight in between, the second and third stretch of AB are one on the CPU clock.
    assert rows(Clock.CPU) == [("AB", -1, 27)]
    assert rows(Clock.WALL) == [
        ("AB", -1, 20),
        ("AC", -1, 10),
        ("AB", -1, 10),
        ("AC", FUTEX, 60),
    ]


def test_random_profile_equals_a_naive_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of intervals through small chunks, with long ones, against plain dictionaries."""
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 256)
    rng = random.Random(3)
    profile = Profile()
    stacks = [[rng.choice((A, B, C, D)) for _ in range(rng.randint(1, 12))] for _ in range(200)]
    traces = [wire.trace(i, stack) for i, stack in enumerate(stacks, 1)]
    apply(profile, 1, modules=[wire.module(1, "/opt/prog")], traces=traces)
    at = dict.fromkeys(range(1, 9), 10**12)
    naive: dict[Clock, Counter[Any]] = {clock: Counter() for clock in Clock}
    per_thread: Counter[int] = Counter()
    for _ in range(60):
        rows = []
        for _ in range(100):
            thread, trace = rng.randint(1, 8), rng.randint(1, 200)
            wall = rng.choice((rng.randint(0, 10**7), rng.randint(0, 10**12)))
            state = rng.choice((RUNNING, PARKED, BLOCKED))
            cpu = rng.randint(0, 2 * wall) if state is RUNNING else 0
            sysno = rng.choice((-1, 0, FUTEX, 330)) if state is PARKED else -1
            rows.append(wire.interval(thread, trace, at[thread], wall, cpu, state, sysno=sysno))
            at[thread] += wall
            text = "".join("?ABCD"[(f & 0xFFF) >> 8] for f in reversed(stacks[trace - 1]))
            leaf = (text, sysno) if sysno >= 0 else text
            naive[Clock.CPU][text] += cpu
            naive[Clock.WALL][leaf] += wall
            naive[Clock.OFF_CPU][leaf] += max(0, wall - cpu) if state is RUNNING else wall
            per_thread[thread] += wall
        apply(profile, max(at.values()), intervals=rows)
    for clock in Clock:
        expected = {leaf: weight for leaf, weight in naive[clock].items() if weight}
        assert weights(profile, clock) == expected
        assert weights(profile, clock, t0_ns=0, t1_ns=1 << 61) == expected
        timelines: Counter[Any] = Counter()
        timeline = profile.timelines(clock)
        for thread in at:
            for block in timeline(thread):
                timelines.update(by_stack(profile, block))
        assert dict(timelines) == expected
    assert {i.thread_id: i.wall_ns for i in profile.thread_infos()} == dict(per_thread)
    # Two halves make a whole, within a nanosecond per cut interval and the rounding of starts.
    middle = (profile.start_ns + profile.now_ns) // 2
    halves = [
        profile.leaf_weights(Clock.WALL, t1_ns=middle).total,
        profile.leaf_weights(Clock.WALL, t0_ns=middle, t1_ns=1 << 61).total,
    ]
    assert abs(sum(halves) - profile.total_ns(Clock.WALL)) < 8 * 2
