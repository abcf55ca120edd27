"""Who held a lock that others waited for, and what it did meanwhile."""

from __future__ import annotations

import pytest

import wire
from flametap.locks.held_waits import HeldWaits
from flametap.locks.lock_places import LockPlace, lock_places
from flametap.model import Frame
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import EVERYTHING, Selection, Span
from flametap.wire.decoder import Decoder, ProtocolError
from time_rows import FUTEX
from waits import function
from wire import PARKED

MS = 1_000_000
WAIT, COMPUTE, WRITE, OTHER = 1, 2, 3, 4  # traces
STACKS = {
    WAIT: ("__lll_lock_wait", "pthread_mutex_lock", "store@prog"),
    COMPUTE: ("sums_up@prog", "main@prog"),
    WRITE: ("fsync", "flush@prog", "main@prog"),
    OTHER: ("idle@prog", "main@prog"),
}
HOLDER, WAITING, LATER, SECOND_HOLDER = 1, 2, 3, 4
LOCK, OTHER_LOCK = 7, 8


def waits(thread_id: int, t0_ms: int, wall_ms: int, lock: int, holder_id: int = 0) -> bytes:
    whose = thread_id, WAIT, t0_ms * MS, wall_ms * MS, 0, PARKED
    return wire.interval(*whose, sysno=FUTEX, awaited_lock=lock, holder_id=holder_id)


def ran(thread_id: int, trace: int, t0_ms: int, wall_ms: int, lock: int = 0) -> bytes:
    return wire.interval(thread_id, trace, t0_ms * MS, wall_ms * MS, wall_ms * MS, held_lock=lock)


# The holder computes, writes, and computes without the lock; then another one has it.
INTERVALS = (
    ran(HOLDER, COMPUTE, 100, 30, LOCK),
    wire.interval(HOLDER, WRITE, 130 * MS, 10 * MS, 0, PARKED, sysno=74, held_lock=LOCK),
    ran(HOLDER, COMPUTE, 140, 30),
    ran(HOLDER, OTHER, 170, 30),
    ran(SECOND_HOLDER, COMPUTE, 105, 30, OTHER_LOCK),
    ran(SECOND_HOLDER, COMPUTE, 135, 20, LOCK),
    ran(SECOND_HOLDER, OTHER, 155, 45),
    waits(WAITING, 100, 40, LOCK, HOLDER),
    waits(WAITING, 140, 20, LOCK, SECOND_HOLDER),
    waits(LATER, 120, 20, LOCK, HOLDER),
    wire.interval(LATER, WAIT, 140 * MS, 20 * MS, 0, PARKED, sysno=FUTEX, is_open=True),
)


@pytest.fixture
def recorded() -> tuple[Profile, SymbolTable]:
    profile = Profile()
    table = SymbolTable(profile.locate)
    frames = {
        name: wire.frame(1, 0x100 + at)
        for at, name in enumerate(sorted({name for names in STACKS.values() for name in names}))
    }
    traces = [wire.trace(i, [frames[name] for name in names]) for i, names in STACKS.items()]
    data = wire.batch(160 * MS, traces=traces, intervals=INTERVALS)
    for batch in Decoder().feed(data):
        profile.apply(batch)
    for address, _ in profile.news().addresses:
        at = profile.locate(address)[0].addr - 0x100
        table.set(address, [Frame(function(sorted(frames)[at]))])
    return profile, table


def held(
    recorded: tuple[Profile, SymbolTable], selection: Selection = EVERYTHING
) -> tuple[LockPlace, dict[tuple[int, str], int]]:
    """The only place, and in ms how long who held it in which function."""
    profile, table = recorded
    (place,) = lock_places(profile, table, selection).places
    assert place.held is not None
    functions = [*table.functions, function("-")]
    holders = {
        (each.thread_id, functions[each.function_id].name): round(each.ns / MS)
        for each in place.held.holders
    }
    return place, holders


def test_holders_and_what_they_did_meanwhile(recorded: tuple[Profile, SymbolTable]) -> None:
    place, holders = held(recorded)
    assert (place.kind, place.wait_ns) == ("a mutex", 100 * MS)
    # Of the last wait of LATER, nobody knows which lock it is for. Moments of samples are not
    # exact: they sum up to 100 ms, and count for 80.
    assert place.held
    assert place.held.total_ns == 80 * MS
    assert holders == {
        (HOLDER, "sums_up"): 48,  # its sample came while both waited
        (HOLDER, "flush"): 16,
        (SECOND_HOLDER, "sums_up"): 16,
    }


def test_only_the_chosen_time_and_threads(recorded: tuple[Profile, SymbolTable]) -> None:
    _, holders = held(recorded, Selection(thread_ids=frozenset({LATER})))
    assert holders == {(HOLDER, "sums_up"): 15, (HOLDER, "flush"): 5}
    _, holders = held(recorded, Selection(span=Span(30 * MS, 60 * MS)))
    assert holders == {(HOLDER, "flush"): 20, (SECOND_HOLDER, "sums_up"): 20}


def test_last_holders(recorded: tuple[Profile, SymbolTable]) -> None:
    assert HeldWaits(recorded[0].lock_intervals()).last() == {WAITING: (SECOND_HOLDER, 20 * MS)}


def test_holder_that_no_sample_has_met() -> None:
    profile = Profile()
    table = SymbolTable(profile.locate)
    row = waits(WAITING, 0, 20, LOCK, holder_id=99)
    traces = [wire.trace(WAIT, [wire.frame(1, 0x100)])]
    for batch in Decoder().feed(wire.batch(20 * MS, traces=traces, intervals=[row])):
        profile.apply(batch)
    place, holders = held((profile, table))
    assert place.held
    assert place.held.total_ns == 20 * MS
    assert holders == {}


def test_holder_that_cannot_be() -> None:
    row = wire.interval(WAITING, 1, 0, 20 * MS, 0, PARKED, sysno=FUTEX, holder_id=1 << 31)
    with pytest.raises(ProtocolError, match="holder"):
        Decoder().feed(wire.batch(20 * MS, intervals=[row]))
