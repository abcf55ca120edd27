"""Scenarios of targets that live by signals of their own."""

from __future__ import annotations

import re
import time

from harness import Run, scenario
from running import Target

# The target's own signals are pending, or blocked in a handler, at any moment.
OWN_SIGNALS = re.compile(r"Sig(Pnd|Blk)|ShdPnd")
# For each thread: the one of its timer, and one that a round has sent.
SIGNALS_UNDER_WAY_MAX = 2
STORM = re.compile(
    r"sent (\d+) handled (\d+) eintr (\d+) foreign (\d+) strange (\d+) disorder (\d+) "
    r"swallowed (\d+)"
)


def _own_signals(line: str) -> bool:
    return OWN_SIGNALS.search(line) is not None


def _storm(run: Run, kind: str) -> None:
    target = run.target("storms", kind)
    run.record(target.pid, ignore=_own_signals)
    (report,) = target.finish()
    found = STORM.fullmatch(report)
    assert found, report
    sent, handled, eintr, *wrong, swallowed = (int(number) for number in found.groups())
    run.expect(wrong == [0, 0, 0], report)
    # One that arrives between our handler's last look for others and its return is not seen: a
    # microsecond. Without that look it is one in sixty.
    run.expect(swallowed * 1000 <= handled, report)
    run.fact("swallowed", swallowed)
    run.expect(0 < eintr <= handled, report)
    run.expect(kind != "queue" or handled == sent, f"a queued signal was lost: {report}")


@scenario("gcc")
def storm_of_timer_signals(run: Run) -> None:
    """SIGALRM every 100 us at a thread that waits in poll."""
    _storm(run, "alrm")


@scenario("gcc")
def storm_of_profiling_signals(run: Run) -> None:
    """SIGPROF by the kernel's clock at a thread that waits in poll."""
    _storm(run, "prof")


@scenario("gcc")
def storm_of_queued_signals(run: Run) -> None:
    """Numbered real-time signals: all arrive, in order."""
    _storm(run, "queue")


@scenario("gcc")
def storm_of_children(run: Run) -> None:
    """SIGCHLD of children that end at once."""
    _storm(run, "chld")


@scenario("gcc")
def storm_of_io_signals(run: Run) -> None:
    """SIGIO from a pipe."""
    _storm(run, "io")


@scenario("gcc")
def signals_in_critical_sections(run: Run) -> None:
    """One thread, and a handler that must never run inside a section or on another thread."""
    target = run.target("critical")
    run.record(target.pid, ignore=_own_signals)
    expected = ["lost 0 other 0 inside 0 torn 0 unequal 0"]
    report = target.finish()
    run.expect(report == expected, f"{report}")


def _recorded_while(run: Run, target: Target, *words: str, disposition: str = "") -> list[str]:
    """Says words to the target while it is recorded, spread over the recording; returns its
    answers. ``disposition``: what "what" has to answer when we are gone."""
    answers = []
    recording = run.begin(target.pid, max(run.seconds, 0.3 * len(words) + 0.5))
    if recording.wait_begun():
        for word in words:
            time.sleep(run.random.uniform(0.05, 0.25))
            target.say(word, timeout_s=120.0)
            answers.append(target.lines[-1])
    run.collect(recording)
    if disposition:
        target.say("what")
        run.expect(target.lines[-1] == f"what {disposition}", f"left {target.lines[-1]}")
    return answers


@scenario("gcc")
def target_sets_a_handler_after_us(run: Run) -> None:
    """Own handlers for SIGURG and SIGWINCH, while they are ours: theirs stay, and get theirs.

    A signal of ours that is under way at that moment reaches the new handler: the thread's timer
    is armed, and one may be sent. No other follows.
    """
    target = run.target("urgent")
    said = _recorded_while(run, target, "handle", "send", "send", disposition="mine mine")
    foreign = int(said[1].rpartition(" ")[2])
    run.fact("foreign", foreign)
    run.expect(foreign <= SIGNALS_UNDER_WAY_MAX, f"{said}")
    run.expect(said[1:] == 2 * [f"send urg 500 winch 500 foreign {foreign}"], f"{said}")
    target.say("send", timeout_s=120.0)
    run.expect(target.finish()[-1] == f"foreign {foreign}", f"{target.lines}")


@scenario("gcc")
def target_chains_to_our_handler(run: Run) -> None:
    """Handlers that call what was there before: ours, also when we have long gone."""
    target = run.target("urgent")
    said = _recorded_while(run, target, "chain", "send", disposition="mine mine")
    run.expect(said[1] == "send urg 500 winch 500 foreign 0", f"{said}")
    target.say("send", timeout_s=120.0)
    run.expect(target.lines[-1] == said[1], f"after us: {target.lines[-1]}")
    run.expect(target.finish()[-1] == "foreign 0", f"{target.lines}")


@scenario("gcc")
def target_ignores_our_signal(run: Run) -> None:
    """SIG_IGN and back to SIG_DFL while we use the signal."""
    target = run.target("urgent")
    words = ("ignore", "send", "default", "send", "ignore")
    _recorded_while(run, target, *words, disposition="ignored ignored")
    run.expect(target.finish()[-1] == "foreign 0", f"{target.lines}")


@scenario("gcc")
def threads_that_toggle_our_signal(run: Run) -> None:
    """Threads that block and unblock our signal all the time, and one that keeps it blocked."""
    target = run.target("urgent")
    target.say("toggle")
    target.say("toggle")
    with run.unharmed(target.pid, ignore=_own_signals):
        _recorded_while(run, target, "block", "send", "block", disposition="default default")
    run.expect(target.finish()[-1] == "foreign 0", f"{target.lines}")


def _read_by_a_thread(run: Run, how: str) -> None:
    target = run.target("urgent")
    said = _recorded_while(run, target, how, "send", disposition="default default")
    run.expect(said[-1] == "send urg 500 winch 500 foreign 0", f"{said}")
    target.say("send", timeout_s=120.0)
    run.expect(target.lines[-1] == said[-1], f"after us: {target.lines[-1]}")
    target.finish()


@scenario("gcc")
def signals_read_from_signalfd(run: Run) -> None:
    """A thread that reads SIGURG and SIGWINCH from a signalfd, begun while we are there."""
    _read_by_a_thread(run, "signalfd")


@scenario("gcc")
def signals_taken_by_sigwait(run: Run) -> None:
    """A thread that takes them by sigwaitinfo."""
    _read_by_a_thread(run, "sigwait")
