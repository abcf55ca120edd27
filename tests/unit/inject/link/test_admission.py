"""Masks of threads that block our signal, changed and put back (``tests/targets/masked.c``)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import kernel
from flametap.inject.frida.attach_state import Progress
from flametap.inject.frida.fork_hold import ForkHold
from flametap.inject.link import admission
from flametap.inject.link.admission import Admission
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

REPLACED: list[int] = []  # a test puts something in: the process is another program
BIT = 1 << (signal.SIGURG - 1)


@pytest.fixture
def target(start: Start) -> Iterator[Target]:
    target = start("masked")
    yield target
    target.finish()


@pytest.fixture
def admitting(target: Target) -> Iterator[Admission]:
    hold = ForkHold(Progress(target.pid))
    yield Admission(hold, lambda: bool(REPLACED))
    REPLACED.clear()
    hold.tracer.end(hold.release_all)


def mask_of(target: Target, worker: str) -> int:
    return int(kernel.status(target.pid, target.facts[worker])["SigBlk"], 16)


def admit(target: Target, admitting: Admission, worker: str) -> None:
    """As the agent does: again until it is met while it runs."""
    tid = target.facts[worker]
    wait_until(lambda: admitting.admit(tid, signal.SIGURG), f"{worker} to be admitted", 60)


def test_admitted_thread_takes_the_signal_until_its_mask_is_put_back(
    target: Target, admitting: Admission
) -> None:
    before = mask_of(target, "first")
    assert before & BIT
    admit(target, admitting, "first")
    assert mask_of(target, "first") == before & ~BIT
    assert not admitting.admit(target.facts["first"], signal.SIGURG), "it does not block it"
    assert admitting.put_back() == 0
    assert mask_of(target, "first") == before
    assert not admitting.admit(target.facts["second"], signal.SIGURG), "all is over"
    assert mask_of(target, "second") == before


def test_mask_that_a_thread_has_set_itself_stays(target: Target, admitting: Admission) -> None:
    admit(target, admitting, "first")
    target.say("own")
    own = mask_of(target, "first")
    assert not own & 1 << (signal.SIGUSR1 - 1)
    admit(target, admitting, "second")
    assert admitting.put_back() == 0
    assert [mask_of(target, each) for each in ("first", "second")] == [own, own]


def test_mask_is_put_back_in_a_thread_that_sleeps(target: Target, admitting: Admission) -> None:
    before = mask_of(target, "first")
    admit(target, admitting, "first")
    target.say("sleep")
    assert admitting.put_back() == 0
    assert mask_of(target, "first") == before


def test_only_threads_of_the_process_that_run_are_admitted(
    target: Target, admitting: Admission
) -> None:
    wait_until(
        lambda: kernel.status(target.pid)["State"].startswith("S"), "its main thread to sleep", 60
    )
    assert not admitting.admit(os.getpid(), signal.SIGURG)
    assert not admitting.admit(target.pid, signal.SIGURG), "its main thread sleeps"


def test_no_more_threads_than_fit(
    target: Target, admitting: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "THREADS_MAX", 1)
    admit(target, admitting, "first")
    assert not admitting.admit(target.facts["second"], signal.SIGURG)
    assert admitting.put_back() == 0


def test_masks_of_another_program_are_not_touched(target: Target, admitting: Admission) -> None:
    before = mask_of(target, "first")
    admit(target, admitting, "first")
    REPLACED.append(1)
    assert not admitting.admit(target.facts["second"], signal.SIGURG)
    assert admitting.put_back() == 0
    assert mask_of(target, "first") == before & ~BIT


def test_nobody_is_admitted_while_the_program_reads_the_signal(
    target: Target, admitting: Admission
) -> None:
    target.say("listen")
    tid = target.facts["first"]
    for _ in range(20):
        assert not admitting.admit(tid, signal.SIGURG)
    assert mask_of(target, "first") & BIT
