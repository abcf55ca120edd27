"""The host looks at threads that compute while it attaches, keeps out of their waits, and waits for
handlers that run meanwhile (``tests/targets/pulse.c``, ``reentered.c``)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cli
import receipt
import recording
from flametap.inject.link.session import Session
from flametap.inject.ways import injector_for
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")

WAIT_S = 12  # a recording of 0.2 s takes a few on a busy machine
WAITS_FOR_A_TIME = f"""
import select, time
begin_s = time.monotonic()
print("ready", flush=True)
assert select.epoll().poll({WAIT_S}) == []
print(time.monotonic() - begin_s)
"""
MANY = 40  # of the old attaches one in five lost a signal
GOES_ON_S = 20.0
MET = 3
MET_LIMIT_S = 120.0
ATTACHES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))


def test_thread_that_computes_and_waits_by_turns_loses_no_wait(start: Start) -> None:
    target = start("pulse", "1")
    before = receipt.take_at_rest(target.pid)
    for _ in range(ATTACHES):
        cli.run(
            *("record", "-p", target.pid, "-d", 0.5, "-r", 1000, "-f", "folded", "-o", os.devnull)
        ).assert_saved()
    found = receipt.harm_after_settling(target.pid, before, attaches=ATTACHES, timeout_s=60)
    assert found == []
    (report,) = target.finish()
    assert re.fullmatch(r"waits \d\d+ eintr 0", report), report


def test_wait_for_a_time_ends_on_time(tmp_path: Path) -> None:
    """The only thread waits for some seconds, and is stopped in between."""
    command = [sys.executable, "-I", "-S", "-c", WAITS_FOR_A_TIME]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        cli.run(
            *("record", "-p", process.pid, "-d", 0.2, "--clock", "wall"),
            *("-o", tmp_path / "out.folded"),
        ).assert_saved()
        assert process.poll() is None
        waited_s = float(process.stdout.readline())
    assert WAIT_S <= waited_s < WAIT_S + 0.8


def test_signal_that_comes_while_a_wait_is_stopped_ends_it(start: Start) -> None:
    """As a garbage collector resumes a thread. Without the signal, the program waits for ever."""
    target = start("suspended")
    before = receipt.take_at_rest(target.pid)
    for _ in range(MANY):
        session = Session(target.pid, injector_for(target.pid, recording.WAY)[0])
        try:
            session.attach(100.0)
        finally:
            session.close()
        target.say("goes on?", GOES_ON_S)
    found = receipt.harm_after_settling(target.pid, before, attaches=MANY, timeout_s=60)
    assert found == []
    (*_, last) = target.finish()
    assert re.fullmatch(r"suspended \d+ times", last), last


def test_handler_that_interrupts_the_stub_is_waited_for(start: Start) -> None:
    """Another thread is sent there, and the stub is taken away, when the one before has left."""
    target = start("reentered")
    before = receipt.take_at_rest(target.pid)
    attaches, met, end_s = 0, 0, time.monotonic() + MET_LIMIT_S
    while met < MET and time.monotonic() < end_s:
        cli.run("record", target.pid, "-d", 0.1, "-f", "folded", "-o", os.devnull).assert_saved()
        attaches += 1
        target.say("met?")
        met = int(target.lines[-1].removeprefix("met "))
    assert met >= MET
    found = receipt.harm_after_settling(target.pid, before, attaches=attaches, timeout_s=60)
    assert found == []
    assert target.finish()[-1] == "wrong 0"
