"""Attach again and again to programs that are in the middle of the C library at each attach."""

from __future__ import annotations

from functools import partial

import counted
from harness import Run, enter
from loop_targets import LOOPS, STUCK, VARIANT, arguments, dumped, is_its_own_change

SHORT_S = 0.1
# For a second that recordings usually last: `make stress` makes a hundred of each kind.
ATTACHES_PER_S = 20


def _attach_often(program: str, mode: str, run: Run) -> None:
    """Record and dump in turn, so that a failure of one of them is seen at the other, too."""
    target = run.target(program, *arguments(mode, run.program), variant=VARIANT)
    times = max(5, round(ATTACHES_PER_S * run.seconds))
    with run.unharmed(
        target.pid, attaches=2 * times, ignore=lambda line: is_its_own_change(mode, line)
    ):
        for number in range(times):
            run.collect(run.begin(target.pid, SHORT_S))
            if not run.expect(target.alive, f"it died by recording {number} of {times}"):
                return
            try:
                dumped(target.pid)
            except AssertionError as error:
                run.findings.append(f"dump {number} of {times}: {error}")
            if not run.expect(target.alive, f"it died by dump {number} of {times}"):
                return
    told = counted.finish(target)
    run.fact("rounds", told["rounds"])


def _enter_all() -> None:
    for mode in LOOPS:
        about = f"A tight loop of {mode}, attached to a hundred times."
        enter(f"loops-{mode}", partial(_attach_often, "loops", mode), about=about, needs=("gcc",))
    for mode in STUCK:
        about = f"A program that is stuck ({mode}), attached to a hundred times."
        enter(f"stuck-{mode}", partial(_attach_often, "stuck", mode), about=about, needs=("gcc",))


_enter_all()
