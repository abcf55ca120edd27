"""What several agents send has the numbers of one recording."""

from __future__ import annotations

import pytest

import wire
from flametap.model import GUESSED_CALLER, MANAGED, Clock, Process
from flametap.wire.decoder import ProtocolError
from flametap.wire.events import raw_frame
from several import Several

ID = bytes(range(20))
JIT_ADDR = 0x7F12_3456_7890


@pytest.fixture
def several() -> Several:
    return Several()


def test_workers_of_one_program_share_modules_and_addresses(several: Several) -> None:
    for process, module_id in ((0, 3), (1, 1)):  # loaded in another order
        several.send(
            process,
            1000,
            modules=[wire.module(module_id, "/opt/worker", build_id=ID)],
            threads=[wire.thread(1, 100 + process, "main")],
            traces=[wire.trace(1, [wire.frame(module_id, 0x10), wire.frame(module_id, 0x20)])],
            intervals=[wire.interval(1, 1, 100, 500, 500)],
        )
    assert len(several.profile.modules) == 1
    assert {frame.addr for frame in several.frames()} == {0x10, 0x20}
    assert len(several.frames()) == 2
    threads = several.profile.thread_infos()
    assert [(each.process, each.tid, each.cpu_ns) for each in threads] == [
        (0, 100, 500),
        (1, 101, 500),
    ]


def test_modules_without_a_build_id_are_of_their_process(several: Several) -> None:
    for process in (0, 1):
        several.send(process, 1000, modules=[wire.module(1, "/memfd:jit", build_id=b"")])
    assert len(several.profile.modules) == 2


def test_code_in_memory_and_of_interpreters_is_of_its_process(several: Several) -> None:
    for process in (0, 1):
        several.send(
            process,
            1000,
            threads=[wire.thread(1, 100 + process, "main")],
            traces=[wire.trace(1, [wire.runtime_frame(JIT_ADDR), wire.managed_frame(7, 5)])],
            intervals=[wire.interval(1, 1, 100, 500, 500)],
        )
    jit = [frame for frame in several.frames() if frame.module_id == 0]
    assert [frame.addr for frame in jit] == [JIT_ADDR, JIT_ADDR]  # two addresses of one number
    managed = [frame for frame in several.frames() if frame.module_id == MANAGED]
    assert len({frame.code_id for frame in managed}) == 2
    assert {frame.position for frame in managed} == {5}


def test_marks_stay_what_they_are(several: Several) -> None:
    for process in (0, 1):
        mark = wire.runtime_frame(GUESSED_CALLER.addr)
        several.send(process, 1000, traces=[wire.trace(1, [wire.runtime_frame(16), mark])])
    assert several.frames().count(GUESSED_CALLER) == 1


def test_code_of_very_many_processes_has_no_name(several: Several) -> None:
    for process in range(300):
        several.send(process, 1000, traces=[wire.trace(1, [wire.runtime_frame(JIT_ADDR)])])
    addrs = [frame.addr for frame in several.frames()]
    assert addrs.count(JIT_ADDR) == 256
    assert addrs.count(0) == 1


def test_stack_that_was_not_received_is_unattributed(several: Several) -> None:
    several.send(0, 1000, traces=[wire.trace(1, [wire.frame(1, 16)])])
    several.send(1, 1000, intervals=[wire.interval(1, 1, 100, 500, 500)])
    assert several.profile.verdicts().native == {"NO_STACK": 500}


def test_holders_and_locks_are_of_their_process(several: Several) -> None:
    for process in (0, 1):
        several.send(
            process,
            1000,
            intervals=[wire.interval(2, 0, 100, 500, holder_id=1, awaited_lock=9)],
        )
    rows = several.profile.moments().intervals.tail
    assert sorted(rows["holder_id"].tolist()) == [2, 4]  # each process's thread 1
    assert len(set(rows["awaited_lock"].tolist())) == 2


def test_trace_ids_that_jump_are_refused(several: Several) -> None:
    with pytest.raises(ProtocolError, match="trace id"):
        several.send(0, 1000, traces=[wire.trace(1 << 30, [wire.frame(1, 16)])])


def test_end_of_one_process_ends_its_sleeps_only(several: Several) -> None:
    for process in (0, 1):
        several.send(
            process,
            1000,
            threads=[wire.thread(1, 100 + process, "main")],
            intervals=[wire.interval(1, 0, 100, 900, state=wire.PARKED, is_open=True)],
        )
    several.profile.end_process(Process(1, 101, "worker", "worker", ended_ns=1000))
    several.send(0, 9000, intervals=[])
    walls = {each.process: each.wall_ns for each in several.profile.thread_infos()}
    assert walls == {0: 8900, 1: 900}
    assert several.profile.total_ns(Clock.WALL) == 9800
    assert [each.exited for each in several.profile.thread_infos()] == [False, True]


def test_owner_of_code_is_above_the_address() -> None:
    owned = wire.runtime_frame(JIT_ADDR) | 5 << 48
    assert raw_frame(owned) == raw_frame(wire.runtime_frame(JIT_ADDR))


def test_threads_of_several_processes_say_whose_they_are(several: Several) -> None:
    for process in (0, 1):
        threads = [wire.thread(1, 100 + process, "worker"), wire.thread(2, 300 + process, "pool")]
        rows = [wire.interval(1, 0, 100, 500, 5), wire.interval(2, 0, 100, 500, 5)]
        several.send(process, 1000, threads=threads, intervals=rows)
    names = [each.name for each in several.profile.threads.values()]
    assert names == ["worker 100", "worker 100: pool", "worker 101", "worker 101: pool"]
    assert [each.name for each in several.profile.plain_threads.values()][:2] == ["worker", "pool"]
