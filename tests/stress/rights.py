"""Scenarios of targets that give their rights away, or run out of what they may use, while they are
recorded."""

from __future__ import annotations

import os
import re
import time

from harness import Outcome, Run, scenario

# A thread may be just in our handler, or be answering the C library's broadcast, when it is looked
# at; the thread that the target starts on the way is its own; after a chroot no file is to be had.
PASSING = re.compile(r"SigBlk|new thread \d+ \(privileges\)|no file to compare with")
# For a recording that ends by what the target does: long enough for any machine to do it.
ENDS_ITSELF_S = 60.0


def _gives_up(run: Run, *words: str, seconds: float = 0.0) -> Outcome:
    """Says words to a target at random moments of its recording; each has to work.

    Args:
        seconds: how long to record, at least.
    """
    target = run.target("privileges")
    with run.unharmed(target.pid, ignore=lambda line: PASSING.search(line) is not None):
        recording = run.begin(target.pid, max(run.seconds, 0.3 * len(words) + 0.5, seconds))
        if recording.wait_begun():
            for word in words:
                time.sleep(run.random.uniform(0.05, 0.3))
                target.say(word, timeout_s=120.0)
                run.expect(target.lines[-1] == word, f"said {word!r}: {target.lines[-1]!r}")
        outcome = run.collect(recording)
    ends_at_once = "seccomp" in outcome.reason  # on a busy machine before the first look
    run.expect(outcome.samples > 0 or ends_at_once, f"nothing was sampled: {outcome.counters}")
    run.expect(target.finish()[-1] == "worked 1", f"{target.lines}")
    return outcome


def _needs_root() -> bool:
    return os.geteuid() == 0


@scenario("gcc")
def drops_its_user(run: Run) -> None:
    """setgid and setuid to nobody: a broadcast to every thread, ours included; procfs is closed."""
    if _needs_root():
        _gives_up(run, "setgid", "thread", "setuid", "thread")


@scenario("gcc")
def changes_its_root(run: Run) -> None:
    """chroot: no /proc any more."""
    if _needs_root():
        _gives_up(run, "chroot", "thread")


@scenario("gcc")
def becomes_undumpable(run: Run) -> None:
    """PR_SET_DUMPABLE 0: its procfs files belong to root."""
    _gives_up(run, "undumpable", "thread", "nonewprivs")


@scenario("gcc")
def filters_its_calls(run: Run) -> None:
    """A seccomp filter on all threads that refuses what procfs and signals need: sampling ends."""
    outcome = _gives_up(run, "filter", seconds=ENDS_ITSELF_S)
    run.expect("seccomp" in outcome.reason, f"ended because: {outcome.reason}")


@scenario("gcc")
def filters_its_calls_deadly(run: Run) -> None:
    """The same, where one such call kills the process."""
    for _ in range(3):
        outcome = _gives_up(run, "kill", seconds=ENDS_ITSELF_S)
        run.expect("seccomp" in outcome.reason, f"ended because: {outcome.reason}")


@scenario("gcc")
def runs_out_of_descriptors(run: Run) -> None:
    """RLIMIT_NOFILE down to what is open."""
    _gives_up(run, "nofile", "thread")


@scenario("gcc")
def runs_out_of_address_space(run: Run) -> None:
    """RLIMIT_AS a megabyte above what is mapped."""
    _gives_up(run, "as")


@scenario("gcc")
def runs_out_of_queued_signals(run: Run) -> None:
    """RLIMIT_SIGPENDING 0: signals arrive without what was sent with them."""
    # Signals have to be sent under the limit, also where we were long in getting there.
    outcome = _gives_up(run, "sigpending", "thread", seconds=4.0)
    run.expect(outcome.counters["signals_failed"] > 0, f"not told: {outcome.counters}")


@scenario("gcc")
def locks_its_memory(run: Run) -> None:
    """mlockall, also of what is mapped later, and no process more than there are."""
    _gives_up(run, "lock", "nproc", "thread" if os.geteuid() == 0 else "nonewprivs")
