"""Scenarios ``zoo-…``: one small program for each of many runtimes, attached to again and again.

A program of ``tests/zoo`` prints ``ready``, works until the file ``keep`` in its working directory
is gone, prints ``rounds N wrong W`` and exits with 0. A wrong round, another line, another exit
code or anything on standard error is a finding. ``tests/zoo/zoo.h`` says what a round is; the table
in ``animals`` and ``hosted`` says how each program is built and started.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

from animals import COMPILED, Animal
from flametap.errors import FlametapError
from flametap.safety import preflight
from harness import Outcome, Run, enter
from hosted import HOSTED
from running import Target

SOURCES = Path(__file__).parent.parent / "zoo"
BUILT_S = 300.0
SHORT_S = 0.2
# Recordings of this many seconds are followed by so many short ones.
SHORT_RECORDINGS = ((30.0, 20), (5.0, 3), (0.0, 1))


def enter_all() -> None:
    """Enter a scenario for each animal into the catalogue."""
    for animal in (*COMPILED, *HOSTED):
        enter(
            f"zoo-{animal.name}",
            partial(visit, animal),
            about=f"{animal.about}.",
            needs=(animal.needs,),
        )


def visit(animal: Animal, run: Run) -> None:
    """Record an animal once for the run's time and then several times for a moment."""
    keep = run.folder / "keep"
    keep.touch()
    target = run.start(build(run, animal), announces=True, cwd=run.folder)
    if _may_attach(run, animal, target):
        _attach_often(run, animal, target)
    keep.unlink()
    check_end(run, animal, target)


def build(run: Run, animal: Animal) -> list[str]:
    """Copy the animal's sources into the run's folder and build it there. Return its command."""
    for name in ("zoo.h", animal.source):
        shutil.copy(SOURCES / name, run.folder)
    if animal.build:
        done = subprocess.run(
            shlex.split(animal.build),
            cwd=run.folder,
            capture_output=True,
            text=True,
            timeout=BUILT_S,
        )
        said = (done.stdout + done.stderr)[-2000:]
        assert done.returncode == 0, f"cannot build {animal.source}: {said}"
    first, *rest = shlex.split(animal.run)
    return [str(run.folder / first) if first.startswith("./") else first, *rest]


def _may_attach(run: Run, animal: Animal, target: Target) -> bool:
    """Ask the profiler whether it would attach; a refusal is a finding."""
    try:
        preflight.check(target.pid, force=animal.force)
    except FlametapError as refused:
        return run.expect(False, f"refused: {refused.message}")
    return True


def _attach_often(run: Run, animal: Animal, target: Target) -> None:
    def ignore(line: str) -> bool:
        return bool(animal.ignore) and re.search(animal.ignore, line) is not None

    outcome = run.record(
        target.pid, has_jit=animal.has_jit, own_threads=animal.own_threads, ignore=ignore
    )
    _note_shares(run, outcome)
    times = next(times for seconds, times in SHORT_RECORDINGS if run.seconds >= seconds)
    if not target.alive:
        return
    with run.unharmed(
        target.pid,
        attaches=times,
        has_jit=animal.has_jit,
        own_threads=animal.own_threads,
        ignore=ignore,
    ):
        for number in range(times):
            if not target.alive:
                run.findings.append(f"the target died by short recording {number} of {times}")
                break
            run.collect(run.begin(target.pid, SHORT_S))


def _note_shares(run: Run, outcome: Outcome) -> None:
    """Put shares of the CPU time and the count of unusable stacks into the report."""
    for fact, verdict in (
        ("complete_pct", "COMPLETE"),
        ("guessed_pct", "GUESSED"),
        ("unattributed_pct", "NO_STACK"),
    ):
        share = outcome.verdict_cpu_s.get(verdict, 0.0) / outcome.cpu_s if outcome.cpu_s else 0.0
        run.fact(fact, 100 * share)
    run.fact("small_stack", outcome.counters.get("small_stack", 0))


def check_end(run: Run, animal: Animal, target: Target) -> None:
    """End of a program without ``keep``: what it says of its rounds, and that it says no more."""
    try:
        lines = target.finish()
    except AssertionError as error:  # it died, or does not end
        run.findings.append(str(error))
        return
    found = re.fullmatch(r"rounds (\d+) wrong (\d+)", "\n".join(lines))
    if run.expect(found, f"it says {lines[-5:]} {target.errors[-5:]}") and found:
        run.fact("rounds", int(found[1]))
        run.expect(found[1] != "0", "not a single round")
        run.expect(found[2] == "0", f"{found[2]} of {found[1]} rounds gave a wrong result")
    known = re.compile(f"({animal.errors})?")
    errors = [line for line in target.errors if not known.fullmatch(line.strip())]
    run.expect(not errors, f"on standard error: {errors[-5:]}")


enter_all()
