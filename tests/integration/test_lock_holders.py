"""Who holds a lock while others wait for it: mutexes of C (``holders.c``), monitors of Java
(``Monitors.java``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import cli
import receipt
from flametap.capture.live import Capture
from flametap.locks.lock_places import LockPlace, lock_places
from flametap.tree.selection import EVERYTHING
from nightly import nightly
from recording import record
from running import Start, Target, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

KINDS = ("normal", *nightly("recursive", "checking", "adaptive", "robust", "inherit"))
SECONDS = 2.0
# Waits begin a moment later than the lock is taken, the holder's moments are those of samples, and
# on a busy machine it is told late that another thread has the lock.
ERROR = 0.3
KNOWN = 0.5  # the least part of the waits whose holder is told


@pytest.mark.parametrize("kind", KINDS)
def test_holder_of_a_mutex_and_what_it_does(start: Start, kind: str) -> None:
    target = start("holders", kind)
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, SECONDS)
    assert receipt.harm_after_settling(target.pid, before) == []
    places = _places(capture, "reads")
    assert {each.kind for each in places} == {"a mutex"}
    (writer,) = _ids(capture, lambda thread: thread.tid == target.facts["first"])
    _check(capture, places, writer, ("sums_up", "sleeps_inside"), target.finish()[0])


def test_function_that_runs_after_the_unlock_holds_nothing(start: Start) -> None:
    """Neither does one that sleeps then: threads of a convoy do both, and one function has all."""
    target = start("holders", "convoy")
    capture = record(target.pid, SECONDS)
    places = _places(capture, "goes_in_convoy")
    computed_ns, slept_ns = (int(each.partition("=")[2]) for each in target.finish()[0].split())
    held = [each.held for each in places if each.held]
    sums = Counter[str]()
    for each in (holder for one in held for holder in one.holders):
        sums[capture.names.functions[each.function_id].name] += each.ns
    assert sums["sorts_outside"] + sums["rests"] <= 0.03 * sums.total(), sums
    assert sums.total() >= KNOWN * sum(each.wait_ns for each in places), sums
    # How much of each is seen depends on the machine, where threads wait for CPUs.
    for held_ns, name in ((computed_ns, "sums_up"), (slept_ns, "sleeps_inside")):
        share = held_ns / (computed_ns + slept_ns)
        assert sums[name] >= 0.2 * share * sums.total(), sums


@pytest.mark.needs("musl-gcc")
@pytest.mark.parametrize("kind", ["recursive", *nightly("checking", "robust", "inherit")])
def test_holder_of_a_mutex_of_musl(start: Start, kind: str) -> None:
    """A normal one does not say whose it is."""
    target = start("holders", kind, variant="musl")
    capture = record(target.pid, SECONDS)
    (writer,) = _ids(capture, lambda thread: thread.tid == target.facts["first"])
    places = _places(capture, "reads")
    _check(capture, places, writer, ("sums_up", "sleeps_inside"), target.finish()[0])


@pytest.mark.needs("java")
@pytest.mark.parametrize("version", ["java", *nightly("java11", "java21", "java25")])
def test_holder_of_a_monitor_and_what_it_does(
    adopt: Callable[[Target], Target],
    builder: Builder,
    require_capability: Callable[[str], str],
    version: str,
) -> None:
    found = require_capability(version)
    java = "java" if version == "java" else found  # the first one is the compiler
    target = adopt(_java(builder, java, "held"))
    capture = record(target.pid, SECONDS)
    places = _places(capture, "Monitors.reads")
    assert {each.kind for each in places} == {"a Java monitor (synchronized)"}
    (writer,) = _ids(capture, lambda thread: thread.name == "writer")
    names = ("Monitors.sumsUp", "Monitors.sleepsInside")
    _check(capture, places, writer, names, target.finish()[0])


def _java(builder: Builder, java: str, what: str) -> Target:
    return Target([java, "-cp", str(builder.java_class("Monitors")), "Monitors", what])


def _ids(capture: Capture, is_it: Callable[[Any], bool]) -> list[int]:
    return [each.thread_id for each in capture.profile.threads.values() if is_it(each)]


def _places(capture: Capture, function: str) -> list[LockPlace]:
    places = lock_places(capture.profile, capture.names, EVERYTHING).places
    found = [each for each in places if each.frame and each.frame.function.name == function]
    assert found, places
    return found


def _check(
    capture: Capture, places: list[LockPlace], writer: int, names: tuple[str, str], report: str
) -> None:
    """Compare what the writer did with the lock with its own report."""
    computed_ns, slept_ns = (int(each.partition("=")[2]) for each in report.split())
    held = [each.held for each in places if each.held]
    whole_ns = sum(each.total_ns for each in held)
    assert whole_ns >= (1 - ERROR) * sum(each.wait_ns for each in places)
    sums = Counter[str]()
    for each in (holder for one in held for holder in one.holders):
        # Readers hold it for a moment.
        if each.thread_id == writer:
            sums[capture.names.functions[each.function_id].name] += each.ns
    assert sums.total() >= (1 - ERROR) * whole_ns, sums
    share = computed_ns / (computed_ns + slept_ns)
    for name, expected in zip(names, (share, 1 - share), strict=True):
        assert sums[name] / whole_ns == pytest.approx(expected, abs=ERROR), (sums, expected)


def _deadlock(target: Target) -> str:
    """What dump says of a deadlock. On a busy machine one dump may not have met all of them."""
    found: list[str] = []

    def is_told() -> bool:
        result = cli.run("dump", target.pid)
        result.assert_saved()
        found.append(result.stdout)
        return "deadlock: " in result.stdout and result.stdout.count(" holds") == 3

    wait_until(is_told, "threads that wait for each other")
    return found[-1]


def test_dump_tells_a_deadlock(start: Start) -> None:
    target = start("holders", "deadlock")
    first, second, third = (target.facts[each] for each in ("first", "second", "third"))
    text = _deadlock(target)
    assert text.count(f'for a lock that thread {first} "holders" holds') == 2
    assert f"deadlock: threads {first}, {second} wait for each other's locks" in text

    def waits() -> dict[int, int | None]:
        result = cli.run("dump", "--json", target.pid)
        result.assert_saved()
        threads = json.loads(result.stdout)["threads"]
        return {each["tid"]: each["waits_for_tid"] for each in threads}

    circle = {first: second, second: first, third: first, target.pid: None}
    wait_until(lambda: waits() == circle, "the same as JSON")
    target.finish()


@pytest.mark.needs("java")
def test_dump_tells_a_deadlock_of_java(adopt: Callable[[Target], Target], builder: Builder) -> None:
    target = adopt(_java(builder, "java", "deadlock"))
    text = _deadlock(target)
    assert text.count('"one" holds') == 2, text
    assert text.count('"two" holds') == 1
    assert text.count("deadlock: threads ") == 1
    result = cli.run("dump", "--json", target.pid)
    result.assert_saved()
    assert json.loads(result.stdout)["interpreters"]
    target.finish()
