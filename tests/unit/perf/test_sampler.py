"""Whose samples are kept, and for whom."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from flametap.model import Verdict
from flametap.perf import sampler as module
from flametap.perf.events import REGISTERS, Forked, Record, Replaced, Sample
from flametap.perf.sampler import EACH, FULL, TAIL, PerfSampler
from flametap.recording.kernel_samples import ENDING, STARTING, UNKNOWN, Place, Sampled, Stack
from running import wait_until

MS = 10**6
ROOT, CHILD, STRANGER = 1_000_000_010, 1_000_000_011, 1_000_000_012  # no pids
BIRTH = Forked(0, CHILD, ROOT)


class FakeEvents:
    def __init__(self, *_: object) -> None:
        self.records: list[Record] = []
        self.is_closed = False

    def read(self) -> list[Record]:
        found, self.records = self.records, []
        return found

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> FakeEvents:
    found = FakeEvents()
    monkeypatch.setattr(module, "PerfEvents", lambda *_: found)
    monkeypatch.setattr(module, "walk", lambda sample, _: stack_of(sample))
    return found


@pytest.fixture
def sampler(events: FakeEvents) -> Iterator[PerfSampler]:
    found = PerfSampler([ROOT], is_new=True)
    yield found
    found.close()
    assert events.is_closed


def stack_of(sample: Sample) -> Stack:
    return Stack((Place("/bin/x", "", sample.registers[0]),), Verdict.COMPLETE)


def sample(pid: int, time_ns: int, *, in_kernel: bool = False) -> Sample:
    return Sample(time_ns, pid, pid, in_kernel, (time_ns,) * len(REGISTERS), b"12345678")


def times(found: Sampled) -> list[int]:
    return [each.time_ns for each in found.seen]


def test_process_without_an_agent_keeps_its_stacks_until_they_are_taken(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    events.records = [BIRTH, sample(CHILD, 2), sample(CHILD, 3)]
    assert times(sampler.take(CHILD)) == [2, 3]
    assert times(sampler.take(CHILD)) == []


def test_of_a_long_one_each_fifth_stands_for_five(sampler: PerfSampler, events: FakeEvents) -> None:
    events.records = [BIRTH]
    events.records += [sample(CHILD, at) for at in range(1, FULL + 10 * EACH + 1)]
    found = sampler.take(CHILD)
    assert len(found.seen) == FULL + 10
    assert found.cpu_ns == (FULL + 10 * EACH) * found.seen[0].cpu_ns


def test_agent_takes_over_and_the_last_samples_are_kept(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    events.records = [BIRTH, sample(CHILD, 1), sample(CHILD, 5)]
    assert times(sampler.hand_over(CHILD, 3)) == [1]
    events.records = [sample(CHILD, at) for at in range(10, 10 + 2 * TAIL)]
    assert times(sampler.take(CHILD)) == list(range(10 + TAIL, 10 + 2 * TAIL))


def test_another_program_is_without_an_agent_again(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    events.records = [BIRTH]
    sampler.hand_over(CHILD, 0)
    events.records = [sample(CHILD, 1), Replaced(2, CHILD, "ls"), sample(CHILD, 3)]
    assert times(sampler.take(CHILD)) == [3]


def test_what_nobody_has_taken_is_left_with_its_name(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    events.records = [BIRTH, Replaced(1, CHILD, "ls"), sample(CHILD, 2), sample(ROOT, 3)]
    ((name, found),) = sampler.rest({ROOT})
    assert (name, times(found)) == ("ls", [2])


def test_last_samples_come_with_the_end(sampler: PerfSampler, events: FakeEvents) -> None:
    wait_until(lambda: sampler._thread.is_alive(), "the thread")
    events.records = [BIRTH, sample(CHILD, 2)]
    sampler.close()
    assert times(sampler.take(CHILD)) == [2]


def test_damage_ends_the_sampling_and_nothing_else(
    sampler: PerfSampler, events: FakeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged() -> list[Record]:
        raise ValueError("damaged")

    monkeypatch.setattr(events, "read", damaged)
    assert times(sampler.take(CHILD)) == []
    assert times(sampler.take(CHILD)) == []


def test_processes_of_others_are_left_out(sampler: PerfSampler, events: FakeEvents) -> None:
    child = 1_000_000_013
    events.records = [
        *(Replaced(1, STRANGER, "ls"), sample(STRANGER, 2)),
        *(Forked(3, child, STRANGER), sample(child, 4)),
        *(Forked(5, child, ROOT), sample(child, 6)),
        *(Forked(7, child, STRANGER), sample(child, 8)),  # a pid that is used again
    ]
    assert times(sampler.take(STRANGER)) == []
    assert times(sampler.take(child)) == []


def test_agent_that_has_not_told_of_anything_leaves_what_was_seen(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    events.records = [BIRTH, sample(CHILD, 1), sample(CHILD, 5)]
    assert times(sampler.hand_over(CHILD, 3)) == [1]
    assert times(sampler.take(CHILD)) == [5]


def test_process_without_memory_is_ending(sampler: PerfSampler, events: FakeEvents) -> None:
    ended = sample(CHILD, 4)._replace(registers=(), has_memory=False)
    events.records = [BIRTH, Replaced(1, CHILD, "ls"), sample(CHILD, 2), ended]
    assert times(sampler.take(CHILD)) == [2]
    ((pid, name, found),) = sampler.ending()
    assert (pid, name, [each.stack for each in found.seen]) == (CHILD, "ls", [ENDING])
    assert sampler.ending() == []


def test_those_that_ended_long_ago_are_forgotten(
    sampler: PerfSampler, events: FakeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 2)
    pids = range(CHILD, CHILD + 5)
    for pid in pids:
        events.records = [Forked(0, pid, ROOT), sample(pid, 1)]
        assert times(sampler.take(pid)) == [1]
    assert sampler._family == {ROOT, *pids[-2:]}
    events.records = [Forked(0, pids[-1], ROOT), sample(pids[-1], 2)]  # again
    assert times(sampler.take(pids[-1])) == [2]


def test_program_that_has_not_begun_is_starting(
    sampler: PerfSampler, events: FakeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registers are of the one before."""
    monkeypatch.setattr(module, "walk", lambda *_: UNKNOWN)
    events.records = [
        *(BIRTH, sample(CHILD, 1, in_kernel=True)),
        *(Replaced(2, CHILD, "ls"), sample(CHILD, 3, in_kernel=True), sample(CHILD, 4)),
        sample(CHILD, 5, in_kernel=True)._replace(stack=b""),
    ]
    found = sampler.take(CHILD)
    assert [each.stack for each in found.seen] == [UNKNOWN, STARTING, UNKNOWN, STARTING]


def test_watched_thread_keeps_its_stacks_though_an_agent_is_there(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    thread = CHILD + 100
    sampler.hand_over(CHILD, 0)
    sampler.watch(thread)
    events.records = [BIRTH]
    events.records += [sample(CHILD, at)._replace(tid=thread) for at in range(1, 9)]
    events.records.append(sample(CHILD, 9))
    assert [each.time_ns for each in sampler.of_thread(thread, 2, 5)] == [3, 4, 5]
    assert [each.time_ns for each in sampler.of_thread(thread, 6, 50)] == [7, 8]
    assert times(sampler.take(CHILD)) == [9]


def test_without_their_children_only_those_that_are_named_are_sampled(events: FakeEvents) -> None:
    found = PerfSampler([os.getpid()], is_new=False, follows=False)
    events.records = [Forked(0, CHILD, os.getpid()), sample(CHILD, 1)]
    assert times(found.take(CHILD)) == []
    found.close()


def test_number_that_is_used_again_leaves_what_was_seen(
    sampler: PerfSampler, events: FakeEvents
) -> None:
    """Where nobody tells of ends, nobody takes it."""
    events.records = [BIRTH, Replaced(1, CHILD, "ls"), sample(CHILD, 2), BIRTH, sample(CHILD, 4)]
    assert times(sampler.take(CHILD)) == [4]
    ((name, found),) = sampler.left()
    assert (name, times(found)) == ("ls", [2])
    assert sampler.left() == []


def test_no_time_is_lost_where_nobody_takes_it(
    sampler: PerfSampler, events: FakeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    events.records = [BIRTH, *(sample(CHILD, at) for at in range(1, 11))]
    found = times(sampler.take(CHILD))
    left = [at for _, each in sampler.left() for at in times(each)]
    assert sorted(left + found) == list(range(1, 11))
