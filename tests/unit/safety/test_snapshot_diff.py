"""Who has to answer for what differs between two receipts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flametap.inject.frida.footprint import BOOTSTRAP_BYTES, LOADER_BYTES
from flametap.linux.maps import Mapping
from flametap.safety.snapshot import SIGNAL_FIELDS, CpuTimer, Receipt
from flametap.safety.snapshot_diff import STARTING, Blame, differences

LIBC = Mapping(0x1000, 0x5000, "r-xp", 0x1000, "/nowhere/libc.so.6")
MAIN = Mapping(0x10000, 0x20000, "r-xp", 0, "/nowhere/main")
NO_SIGNALS: dict[str, int] = dict.fromkeys(SIGNAL_FIELDS, 0)
BEFORE = Receipt(
    pid=0,
    threads={10: "main"},
    descriptors={0: "/dev/null"},
    signals={10: NO_SIGNALS},
    code={LIBC: {0x2000: "old"}, MAIN: {}},
    anonymous_code=[],
    memory_files=[],
    files=frozenset({"/nowhere/libc.so.6", "/nowhere/main"}),
    tracer=0,
)


def blames(after: Receipt, before: Receipt = BEFORE, **options: object) -> set[Blame]:
    found = differences(before, after, **options)  # type: ignore[arg-type]
    return {difference.blame for difference in found}


OUR_TIMER, THEIR_TIMER = CpuTimer(3, 23, 10), CpuTimer(4, 27, 10)  # SIGURG, SIGPROF


def test_timer_of_ours_that_is_left_is_told() -> None:
    after = replace(BEFORE, cpu_timers=frozenset({OUR_TIMER, THEIR_TIMER}))
    (difference,) = differences(BEFORE, after)
    assert difference.blame is Blame.OURS
    assert difference.what == "CPU timer 3 of ours is still there, for thread 10"
    # With the other signal, it is not the agent's.
    assert differences(BEFORE, after, our_signal=28) == []


def test_timer_that_a_filter_kept_us_from_deleting() -> None:
    after = replace(BEFORE, cpu_timers=frozenset({OUR_TIMER}), is_filtered=True)
    assert blames(after) == {Blame.RESIDUE}
    # It was there when we came, and had let us make the timer.
    assert blames(after, replace(BEFORE, is_filtered=True)) == {Blame.OURS}


def test_timer_that_was_there_before_is_the_targets() -> None:
    with_it = replace(BEFORE, cpu_timers=frozenset({OUR_TIMER}))
    assert differences(with_it, with_it) == []
    assert differences(with_it, BEFORE) == []


def test_nothing_differs() -> None:
    assert differences(BEFORE, BEFORE) == []


@pytest.mark.parametrize(
    "after",
    [
        replace(BEFORE, tracer=7),
        replace(BEFORE, threads={10: "main", 11: "gum-js-loop"}),
        replace(BEFORE, descriptors={0: "/dev/null", 5: "/memfd:frida-agent-64.so (deleted)"}),
        replace(BEFORE, memory_files=["/memfd:frida-agent-64.so (deleted)"]),
        replace(BEFORE, signals={10: {**NO_SIGNALS, "SigCgt": 1 << 22}}),  # SIGURG
        replace(BEFORE, code={LIBC: {0x2000: "new"}, MAIN: {}}),
        replace(BEFORE, code={MAIN: {}}),
    ],
)
def test_what_only_a_profiler_leaves_is_ours(after: Receipt) -> None:
    assert blames(after) == {Blame.OURS}


@pytest.mark.parametrize(
    "after",
    [
        replace(BEFORE, anonymous_code=[BOOTSTRAP_BYTES]),
        replace(BEFORE, anonymous_code=[LOADER_BYTES]),
        replace(BEFORE, files=BEFORE.files | {"/lib/libm.so.6"}),
        replace(BEFORE, signals={10: {**NO_SIGNALS, "SigCgt": 1 << 31 | 1 << 32}}),
        replace(BEFORE, resident_bytes=1 << 20),
    ],
)
def test_what_the_injection_leaves_is_named_and_explained(after: Receipt) -> None:
    (difference,) = differences(BEFORE, after)
    assert difference.blame is Blame.RESIDUE
    assert difference.why


@pytest.mark.parametrize(
    "after",
    [
        replace(BEFORE, threads={10: "main", 11: "worker"}),
        replace(BEFORE, threads={}),
        replace(BEFORE, descriptors={}),
        replace(BEFORE, descriptors={0: "/dev/null", 5: "socket:[1]"}),
        replace(BEFORE, files=BEFORE.files | {"/lib/plugin.so"}),
        replace(BEFORE, signals={10: {**NO_SIGNALS, "SigCgt": 1}}),
        replace(BEFORE, code={LIBC: {0x2000: "old"}}),
    ],
)
def test_what_programs_do_by_themselves_is_not_blamed_on_us(after: Receipt) -> None:
    assert blames(after) == {Blame.TARGET}


def test_socket_that_came_with_the_attach_is_unclear() -> None:
    after = replace(BEFORE, descriptors={0: "/dev/null", 5: "socket:[1]"})
    assert blames(after, attached=after) == {Blame.UNCLEAR}
    assert blames(after, attached=BEFORE) == {Blame.TARGET}
    # The direct way brings no descriptors, and one thread with our name.
    assert blames(after, attached=after, by_frida=False) == {Blame.TARGET}


def test_thread_that_came_with_the_attach_is_unclear_whatever_its_name() -> None:
    after = replace(BEFORE, threads={10: "main", 11: "main"})
    assert blames(after, attached=after) == {Blame.UNCLEAR}
    assert blames(after, attached=BEFORE) == {Blame.TARGET}
    assert blames(after, attached=after, by_frida=False) == {Blame.TARGET}


def test_signal_that_the_agent_did_not_use_is_the_targets() -> None:
    after = replace(BEFORE, signals={10: {**NO_SIGNALS, "SigCgt": 1 << 22}})
    assert blames(after, our_signal=28) == {Blame.TARGET}


@pytest.mark.parametrize("name", ["SigCgt", "SigIgn"])
@pytest.mark.parametrize("number", [4, 5, 7, 8, 11, 31])
def test_lost_handler_of_a_fault_signal_is_ours(name: str, number: int) -> None:
    before = replace(BEFORE, signals={10: {**NO_SIGNALS, name: 1 << (number - 1)}})
    assert blames(BEFORE, before) == {Blame.OURS}
    assert blames(before, BEFORE) == {Blame.TARGET}


@pytest.mark.parametrize("mask", STARTING)
def test_mask_of_a_thread_that_was_just_starting_another_is_its_own(mask: int) -> None:
    before = replace(BEFORE, signals={10: {**NO_SIGNALS, "SigBlk": mask}})
    assert blames(BEFORE, before) == {Blame.TARGET}
    assert blames(before, BEFORE) == {Blame.OURS}
    one_less = replace(BEFORE, signals={10: {**NO_SIGNALS, "SigBlk": mask & ~(1 << 22)}})
    assert blames(one_less, before) == {Blame.OURS}


def test_code_that_cannot_be_compared_is_unclear() -> None:
    after = replace(BEFORE, code={LIBC: {0x2000: "old"}, MAIN: {0x10000: "written"}})
    assert blames(after) == {Blame.UNCLEAR}


def test_new_executable_memory_of_a_program_that_makes_code_is_its_own() -> None:
    assert blames(replace(BEFORE, anonymous_code=[4096])) == {Blame.UNCLEAR}
    before = replace(BEFORE, anonymous_code=[4096])
    assert blames(replace(BEFORE, anonymous_code=[4096, 8192]), before) == {Blame.TARGET}
