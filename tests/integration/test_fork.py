"""Targets that make children, and targets that become another program."""

from __future__ import annotations

import os
import re
import statistics
import time
from dataclasses import dataclass

import pytest

from flametap.inject.frida import fork_exit, fork_hold
from flametap.inject.frida.attach import Attach
from flametap.model import Clock
from nightly import nightly
from recording import capturing, doubts, record, stacks
from running import Start, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

MEGABYTES = int(os.environ.get("FLAMETAP_TEST_MEGABYTES", "256"))
# The bar is 1.5 times the usual; CPU time, so that it holds on a machine with other things to do.
SLOWDOWN = 1.5
KINDS = ("fork", "vfork", "thread", *nightly("spawn", "clone3"))


@dataclass(frozen=True)
class Child:
    """One call that made a child."""

    at_ns: int
    lasted_ns: int
    cpu_ns: int


def _children(lines: list[str]) -> list[Child]:
    *made, summary = lines
    found = re.fullmatch(r"children (\d+) bad (\d+) last (-?\d+)", summary)
    assert found, summary
    assert found[2] == "0", f"the children look at themselves in forks.c: {summary}"
    children = [Child(*(int(word) for word in line.split()[1:])) for line in made]
    assert len(children) == int(found[1])
    return children


@pytest.mark.parametrize("kind", KINDS)
def test_children_are_untouched(start: Start, kind: str, seconds: float) -> None:
    target = start("forks", "16", kind)
    capture = record(target.pid, seconds, rate_hz=1000)
    names = {name for stack in stacks(capture).weights for name in stack}
    made = len(_children(target.finish()))
    assert made > 8, doubts(capture)
    assert "make_children" in names, names
    # A child's stacks would be its parent's, and the parent waits meanwhile.
    assert "look_at_itself" not in names


@pytest.mark.nightly  # it compares the medians of few times
def test_a_big_process_forks_as_fast_as_ever(start: Start, seconds: float) -> None:
    target = start("forks", str(MEGABYTES), "fork")
    length_s = max(seconds, 3.0)
    time.sleep(length_s)  # its usual time, without us
    attached_ns = time.monotonic_ns()
    with capturing(target.pid, rate_hz=1000) as capture:
        began_ns = time.monotonic_ns()
        assert not capture.wait(length_s), capture.status().reason
        ended_ns = time.monotonic_ns()
    children = _children(target.finish())
    usual = [child.cpu_ns for child in children if child.at_ns < attached_ns]
    sampled = [child.cpu_ns for child in children if began_ns <= child.at_ns <= ended_ns]
    assert len(usual) >= 2, children
    assert len(sampled) >= 2, children
    assert statistics.median(sampled) <= SLOWDOWN * statistics.median(usual), (usual, sampled)


@pytest.mark.parametrize("who", ["main", *nightly("thread")])
def test_exec_ends_the_session_and_keeps_what_was_sampled(
    start: Start, builder: Builder, who: str
) -> None:
    target = start("execs", who, str(builder.program("ratio")))
    with capturing(target.pid, rate_hz=1000) as capture:
        wait_until(lambda: capture.status().counters.get("signals_handled", 0) > 100, "samples")
        target.say("go")  # answered by the new program's "ready"
        assert capture.wait(10)
        assert "exec" in capture.status().reason
        capture.stop()
        capture.finish_symbols(60)
        sampled = stacks(capture, Clock.CPU)
    names = {name for stack in sampled.weights for name in stack}
    assert {"before_exec", "thread_work"} <= names, doubts(capture)
    assert not names & {"heavy", "light"}, names
    assert target.alive
    assert target.finish()[-1].startswith("cycles ")


def test_a_held_main_thread_is_not_in_fork(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that it gets a CPU in time on a busy machine, too.
    monkeypatch.setattr(fork_exit, "RUN_LIMIT_S", 0.1)
    monkeypatch.setattr(fork_hold, "LIMIT_S", 60.0)
    target = start("atfork")
    attach = Attach(target.pid)
    for _ in range(10):
        attach.hold.stop()
        try:
            target.say("where is the main thread?", fork_hold.LIMIT_S / 2)
            assert attach.hold.is_held()
        finally:
            attach.hold.let_go()
    attach.end()
    assert target.finish() == ["outside"] * 10


@pytest.mark.parametrize("who", ["thread", *nightly("main")])
def test_children_made_amid_an_attach_find_no_lock_taken(start: Start, who: str) -> None:
    target = start("heirs", who)
    for _ in range(2):
        record(target.pid, 0.2, rate_hz=1000)
    *lost, summary = target.finish()
    found = re.fullmatch(r"children (\d+) hung (\d+) crashed (\d+)", summary)
    assert found, summary
    assert int(found[1]) > 100, summary
    assert found[2] == found[3] == "0", (summary, lost)
