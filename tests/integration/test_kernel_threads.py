"""Threads of the kernel that work for a process are left alone, and their CPU time is counted
(``tests/targets/polled.c``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kernel
import receipt
from flametap.inject.frida.attach_state import Progress
from flametap.inject.frida.fork_hold import ForkHold
from flametap.linux.tasks import is_of_kernel
from kernel import CpuLog
from recording import capturing, doubts, stacks
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

ENOUGH_NS = 500_000_000
PATIENCE_S = 120.0
# Kernel ticks at both ends: see test_cpu_accounting.
SLACK_NS = 30_000_000


@pytest.fixture
def polled(start: Start) -> Iterator[Target]:
    target = start("polled")
    if not target.facts["ring"]:
        pytest.skip("the kernel gives us no ring with a thread")
    yield target
    target.say("ask")
    assert target.lines[-1] == "done", "the ring has stopped"
    target.finish()


def test_ring_works_on_and_its_thread_is_counted(polled: Target) -> None:
    tid = polled.facts["ring"]
    before, mask = receipt.take_at_rest(polled.pid), kernel.status(polled.pid, tid)["SigBlk"]
    with CpuLog(polled.pid, [tid]) as log, capturing(polled.pid, rate_hz=100) as capture:
        profile = capture.profile

        def counted_ns() -> int:
            return sum(info.cpu_ns for info in capture.profile.thread_infos() if info.tid == tid)

        wait_until(lambda: counted_ns() > ENOUGH_NS, "CPU time of the ring's thread", PATIENCE_S)
        polled.say("ask")
        assert polled.lines[-1] == "done", doubts(capture)
        capture.stop()
    least_ns, most_ns = log.used_ns(tid, profile.start_ns, profile.now_ns)
    assert least_ns - SLACK_NS <= counted_ns() <= most_ns + SLACK_NS, doubts(capture)
    seen = stacks(capture, tid=tid)
    assert seen.share("[kernel thread]") > 0.99, seen.heaviest()
    status = capture.status()
    assert status.counters["threads_admitted"] == 0
    assert not [note for note in status.notes if "in system calls" in note]
    assert not [info for info in profile.threads.values() if info.signals_blocked]
    assert kernel.status(polled.pid, tid)["SigBlk"] == mask
    assert receipt.harm_after_settling(polled.pid, before) == []


def test_nobody_traces_it(polled: Target) -> None:
    tid = polled.facts["ring"]
    assert is_of_kernel(polled.pid, tid)
    assert not is_of_kernel(polled.pid, polled.pid)
    hold, looks = ForkHold(Progress(polled.pid)), list[int]()
    hold.look(tid, lambda: looks.append(tid))
    hold.look(polled.pid, lambda: looks.append(polled.pid))
    hold.tracer.end(hold.release_all)
    assert looks == [polled.pid]
