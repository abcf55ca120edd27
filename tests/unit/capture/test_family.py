"""Who of a family is attached to, and who is counted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator

import pytest

from flametap.capture.births import NoBirths, SeenBirths
from flametap.capture.family import AT_ONCE, Family
from flametap.errors import CannotAttachError, UsageError
from flametap.linux.proc_events import Event, What
from flametap.linux.task_stats import Ended
from running import wait_until

ROOT, CHILD, GRANDCHILD, STRANGER = 10, 11, 12, 99


class ToldByTest:
    """Tells what a test says."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stats: list[Ended] = []
        self._lock = threading.Lock()

    def say(self, what: What, pid: int, parent: int = 0) -> None:
        with self._lock:
            self.events.append(Event(what, pid, parent, 0))

    def wait(self, known: Collection[int], timeout_s: float) -> list[Event]:
        time.sleep(min(timeout_s, 0.001))
        with self._lock:
            found, self.events = self.events, []
        return found

    def ended(self) -> list[Ended]:
        with self._lock:
            found, self.stats = self.stats, []
        return found

    def close(self) -> None:
        pass


class Recorder:
    """Notes whom it is to attach to."""

    def __init__(self) -> None:
        self.attached: list[tuple[int, int]] = []
        self.before: dict[int, int | None] = {}
        self.counted: list[tuple[str, int]] = []
        self.settled: list[tuple[int, int]] = []
        self.refused: set[int] = set()

    def attach(self, pid: int, parent: int, before_ns: int | None) -> int:
        if pid in self.refused:
            raise CannotAttachError(f"process {pid} is a 32-bit program", "")
        self.attached.append((pid, parent))
        self.before[pid] = before_ns
        return len(self.attached)

    def count(self, pid: int, name: str, elapsed_ns: int, cpu_ns: int) -> None:
        self.counted.append((name, cpu_ns))

    def settle(self, pid: int, cpu_ns: int) -> None:
        self.settled.append((pid, cpu_ns))


@pytest.fixture
def told() -> ToldByTest:
    return ToldByTest()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def family(
    told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Family]:
    monkeypatch.setattr("flametap.capture.family.shares_memory", lambda *_: False)
    monkeypatch.setattr("flametap.linux.procfs.read_task_name", lambda *_: "old")
    monkeypatch.setattr("flametap.linux.procfs.read_task_state", lambda *_: "S")
    monkeypatch.setattr("flametap.capture.family.os.readlink", lambda *_, **__: "/opt/old")
    monkeypatch.setattr("flametap.capture.family.SeenBirths", lambda: told)
    monkeypatch.setattr("flametap.capture.family.cpu_ns", lambda _: 0)
    found = Family(ROOT, recorder, lambda: told)
    found.start()
    yield found
    found.close()


def test_children_of_children_are_attached_to_with_their_parents(
    family: Family, told: ToldByTest, recorder: Recorder
) -> None:
    told.say(What.BEGAN, CHILD, ROOT)
    told.say(What.BEGAN, STRANGER, 1)
    wait_until(lambda: recorder.attached, "the child")
    told.say(What.BEGAN, GRANDCHILD, CHILD)
    wait_until(lambda: len(recorder.attached) == 2, "the grandchild")
    assert recorder.attached == [(CHILD, 0), (GRANDCHILD, 1)]
    assert not family.expects_more


def test_new_program_is_attached_to_as_one_of_its_own(
    family: Family, told: ToldByTest, recorder: Recorder
) -> None:
    family.replaced(ROOT)
    wait_until(lambda: recorder.attached, "the new program")
    assert recorder.attached == [(ROOT, 0)]


def test_what_ends_before_is_counted_and_threads_are_not(
    family: Family, told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flametap.capture.family.SETTLE_S", 60.0)
    told.say(What.BEGAN, CHILD, ROOT)
    told.say(What.ENDED, CHILD)
    told.stats = [
        Ended(CHILD, ROOT, "true", 1000, 700),
        Ended(500, ROOT, "a thread", 1000, 900),
        Ended(STRANGER, 1, "cron", 1000, 900),
        Ended(ROOT, 1, "main", 1000, 800),
    ]
    wait_until(lambda: recorder.counted and recorder.settled, "what has ended")
    assert recorder.counted == [("true", 700)]
    assert recorder.settled == [(ROOT, 800)]


def test_what_waited_for_its_attach_is_counted_at_the_end(
    told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flametap.capture.family.SETTLE_S", 0.0)
    monkeypatch.setattr("flametap.capture.family.shares_memory", lambda *_: False)
    monkeypatch.setattr("flametap.capture.family.SeenBirths", lambda: told)
    monkeypatch.setattr("flametap.capture.family.cpu_ns", lambda _: 0)
    children = range(CHILD, CHILD + 3 * AT_ONCE)
    for child in children:
        told.say(What.BEGAN, child, ROOT)
    attaching, is_closing = threading.Event(), threading.Event()

    def attach(pid: int, parent: int, before_ns: int | None) -> int:
        attaching.set()
        assert is_closing.wait(30)
        raise UsageError("it has ended", "")

    monkeypatch.setattr(recorder, "attach", attach)
    family = Family(ROOT, recorder, lambda: told)
    family.start()
    assert attaching.wait(30)
    told.stats = [Ended(child, ROOT, "true", 1000, 700) for child in children]
    closing = threading.Thread(target=family.close)
    closing.start()
    wait_until(lambda: family._pool._shutdown, "the end")
    is_closing.set()
    closing.join()
    assert len(recorder.counted) == len(children)


def test_process_that_cannot_be_entered_is_named_and_counted(
    family: Family, told: ToldByTest, recorder: Recorder
) -> None:
    recorder.refused = {CHILD}
    told.say(What.BEGAN, CHILD, ROOT)
    wait_until(family.notes, "the refusal")
    assert family.notes() == [f"old {CHILD} is not recorded: process {CHILD} is a 32-bit program"]
    told.stats = [Ended(CHILD, ROOT, "old", 1000, 700)]
    wait_until(lambda: recorder.counted, "its time")
    assert not recorder.settled


def test_what_a_process_used_before_is_not_counted(
    told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flametap.capture.family.shares_memory", lambda *_: False)
    monkeypatch.setattr("flametap.capture.family.SeenBirths", lambda: told)
    monkeypatch.setattr("flametap.capture.family.cpu_ns", lambda _: 500)
    recorder.refused = {GRANDCHILD}
    told.say(What.BEGAN, CHILD, ROOT)
    told.say(What.BEGAN, GRANDCHILD, CHILD)
    family = Family(ROOT, recorder, lambda: told)
    family.start()
    try:
        wait_until(lambda: not family.expects_more, "both attaches")
        told.stats = [Ended(GRANDCHILD, CHILD, "old", 1000, 700)]
        wait_until(lambda: recorder.counted, "its time")
    finally:
        family.close()
    assert recorder.counted == [("old", 200)]
    assert recorder.before == {CHILD: 500}


def test_others_that_are_named_are_attached_to_at_once(
    told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no family, their recordings begin with the attach, and their children stay alone."""
    recorder.refused.add(CHILD)
    monkeypatch.setattr("flametap.linux.procfs.read_task_name", lambda *_: "old")
    monkeypatch.setattr("flametap.linux.procfs.read_task_state", lambda *_: "S")
    monkeypatch.setattr("flametap.capture.family.os.readlink", lambda *_, **__: "/opt/old")
    family = Family(ROOT, recorder, NoBirths, [CHILD, GRANDCHILD])
    assert family.expects_more
    family.start()
    wait_until(lambda: not family.expects_more, "both")
    assert recorder.attached == [(GRANDCHILD, -1)]
    assert recorder.before == {GRANDCHILD: None}
    assert family.notes() == ["old 11 is not recorded: process 11 is a 32-bit program"]
    family.close()


def test_native_programs_that_the_kernel_samples_are_attached_to_later(
    family: Family, told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter's functions are seen by an agent only."""
    programs = {CHILD: "/usr/bin/cc1", GRANDCHILD: "/usr/bin/python3.11"}
    monkeypatch.setattr(
        "flametap.capture.family.os.readlink",
        lambda path: programs[int(path.split("/")[-2])],
    )
    family.sampled_s = 0.3
    began_s = time.monotonic()
    told.say(What.BEGAN, CHILD, ROOT)
    told.say(What.BEGAN, GRANDCHILD, CHILD)
    wait_until(lambda: len(recorder.attached) == 2, "both")
    assert [pid for pid, _ in recorder.attached] == [GRANDCHILD, CHILD]
    assert time.monotonic() - began_s >= 0.3


def test_vfork_child_is_not_touched_before_it_has_memory_of_its_own(
    family: Family, told: ToldByTest, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def shares(pid: int, _: int) -> bool:
        asked.append(pid)
        return len(asked) < 5

    monkeypatch.setattr("flametap.capture.family.shares_memory", shares)
    monkeypatch.setattr("flametap.capture.family.cpu_ns", lambda _: 0)
    told.say(What.BEGAN, CHILD, ROOT)
    wait_until(lambda: recorder.attached, "the child")
    assert len(asked) == 5


def test_looking_finds_children_and_new_programs() -> None:
    births = SeenBirths()
    code = "import os, sys; sys.stdin.readline(); os.execv('/bin/cat', ['cat'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        found: list[Event] = []

        def sees(what: What) -> bool:
            found.extend(births.wait({os.getpid(), child.pid}, 0.0))
            return any(each.what is what and each.pid == child.pid for each in found)

        assert not sees(What.REPLACED)
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_until(lambda: sees(What.REPLACED), "the exec")
        assert births.wait({os.getpid()}, 0.0)[0].what is What.BEGAN
        child.stdin.close()
        wait_until(lambda: sees(What.ENDED), "the end")
