"""Phases of attaches, one after another, to a server at work, and what they cost it.

The load is steady, and the time that each answer took is written down. The attaches come in phases;
between them, in random order, lie phases of two other kinds: nobody attaches, or the same attaches
go to an idle program. The latter shows what the work of the profiler costs a server that shares its
CPUs.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import Run
from load import READY_S

KINDS: tuple[str, ...] = ("quiet", "elsewhere", "attached")
QUIET, ELSEWHERE, ATTACHED = KINDS
PHASES = 40
FEWEST = 5  # attaches of a phase
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
SHUFFLES = 10_000
# A finding is a p99.9 that is so many times that of the phases beside, and not by chance.
SLOWER, CHANCE = 1.5, 0.01


@dataclass
class Attaches:
    """What ``attacher.py`` says, for all phases of a kind."""

    attach_ms: list[float] = field(default_factory=list)
    detach_ms: list[float] = field(default_factory=list)
    stopped_us: list[float] = field(default_factory=list)  # the one thread, each time
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signals_handled: int = 0
    parked_reads: int = 0
    eintr_unrepairable: int = 0
    signals_late: int = 0
    signals_failed: int = 0

    def add(self, said: dict[str, Any]) -> None:
        """Add a phase's."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + said[name])


@dataclass(frozen=True)
class Phase:
    """A stretch of time, CLOCK_MONOTONIC."""

    round: int
    kind: str
    began_ns: int
    ended_ns: int


class Campaign:
    """Phases of attaches to one process, and of their absence."""

    def __init__(self, run: Run, attaches: int) -> None:
        self.seen = {kind: Attaches() for kind in KINDS}
        self.phases: list[Phase] = []
        self.queued_ns = dict.fromkeys(KINDS, 0)
        self._run = run
        self._attaches = attaches
        script = Path(__file__).with_name("attacher.py")
        self._attacher = run.start([sys.executable, script], announces=True)
        self._idle = run.target("sleeper")

    def attach(self, pid: int, attaches: int, kind: str = ATTACHED) -> dict[str, Any]:
        """Attach some times in a row; a failure is a finding."""
        self._attacher.say(f"{pid} {attaches}", READY_S + 10 * attaches)
        assert self._attacher.alive, self._attacher.errors
        said: dict[str, Any] = json.loads(self._attacher.lines[-1])
        self.seen[kind].add(said)
        return said

    def alternate(self, pid: int) -> None:
        """Go through all phases."""
        count = max(FEWEST, self._attaches // PHASES)
        self.attach(pid, FEWEST)  # all is loaded
        said = first = self.attach(self._idle.pid, FEWEST, ELSEWHERE)
        pause_s = count / FEWEST * (said["ended_ns"] - said["began_ns"]) / 1e9
        for number in range(max(1, self._attaches // count)):
            for kind in self._run.random.sample(KINDS, len(KINDS)):
                queued_ns = _queued_ns(pid)
                if kind == QUIET:
                    said = self._pause(pause_s)
                else:
                    said = self.attach(pid if kind == ATTACHED else self._idle.pid, count, kind)
                    pause_s = (said["ended_ns"] - said["began_ns"]) / 1e9
                self.phases.append(Phase(number, kind, said["began_ns"], said["ended_ns"]))
                self.queued_ns[kind] += _queued_ns(pid) - queued_ns
        said = self.attach(self._idle.pid, FEWEST, ELSEWHERE)
        for name in ("descriptors", "threads"):
            more = said[name] - first[name]
            # What watches the target notices the end of an attach some 100 ms after it.
            self._run.expect(more < FEWEST, f"{more} {name} more in the profiler than at its start")

    def _pause(self, seconds: float) -> dict[str, int]:
        began_ns = time.monotonic_ns()
        time.sleep(seconds)
        return {"began_ns": began_ns, "ended_ns": time.monotonic_ns()}

    def judge(self, answers: np.ndarray) -> None:
        """Note figures and findings. ``answers``: (due, took) of each request, both in ns."""
        seen, run = self.seen[ATTACHED], self._run
        run.expect(not seen.errors, f"{len(seen.errors)} attaches failed: {seen.errors[:3]}")
        run.expect(not seen.notes, f"{len(seen.notes)} times: {seen.notes[:3]}")
        run.expect(seen.signals_handled + seen.parked_reads > 0, "nothing was sampled")
        run.expect(not seen.eintr_unrepairable, f"{seen.eintr_unrepairable} EINTR")
        run.fact("attaches", len(seen.attach_ms))
        for name in ("signals_handled", "parked_reads", "signals_late"):
            run.fact(name, getattr(seen, name))
        for name in ("attach_ms", "detach_ms", "stopped_us"):
            run.fact(f"{name}_p50", float(np.median(getattr(seen, name))))
            run.fact(f"{name}_max", max(getattr(seen, name)))
        took = [(phase, _during(answers, phase)) for phase in _equally_long(self.phases)]
        pooled = {kind: _pooled(took, kind) for kind in KINDS}
        for kind, ns in pooled.items():
            run.fact(f"answers_{kind}", len(ns))
            lasted_ns = sum(
                each.ended_ns - each.began_ns for each in self.phases if each.kind == kind
            )
            run.fact(f"queued_pct_{kind}", 100 * self.queued_ns[kind] / lasted_ns)
            for name, share in QUANTILES.items():
                run.fact(f"{name}_us_{kind}", float(np.quantile(ns, share)) / 1e3)
        run.fact("times_quiet", self._compared(took, QUIET)[0])
        slower, chance = self._compared(took, ELSEWHERE)
        run.fact("times_elsewhere", slower)
        run.fact("chance", chance)
        is_slower = slower > SLOWER and chance < CHANCE
        run.expect(not is_slower, f"p99.9 is {slower:.2f} times as long ({chance:.2%} by chance)")

    def _compared(self, took: Sequence[tuple[Phase, np.ndarray]], kind: str) -> tuple[float, float]:
        """Compare p99.9 of the attached phase of each round with that of another kind.

        Returns:
            how many times as long it is, the geometric mean of all rounds; and how often it is as
            long or longer when the two phases of each round are swapped by lot.
        """
        logs: dict[tuple[int, str], float] = {
            (phase.round, phase.kind): float(np.log(np.quantile(ns, 0.999))) for phase, ns in took
        }
        rounds = {phase.round for phase, _ in took}
        differences = np.array([logs[each, ATTACHED] - logs[each, kind] for each in rounds])
        lots = np.random.default_rng(1).choice((-1, 1), (SHUFFLES, len(differences)))
        chance = np.mean((lots * differences).mean(axis=1) >= differences.mean())
        return float(np.exp(differences.mean())), float(chance)


def _queued_ns(pid: int) -> int:
    """How long the main thread was ready to run, and had no CPU: sched-stats.rst."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1])


def _equally_long(phases: Sequence[Phase]) -> list[Phase]:
    """Cut the phases of each round to the shortest one: the longest of more answers is longer."""
    shortest_ns: dict[int, int] = {}
    for each in phases:
        lasted_ns = each.ended_ns - each.began_ns
        shortest_ns[each.round] = min(lasted_ns, shortest_ns.get(each.round, lasted_ns))
    return [replace(each, ended_ns=each.began_ns + shortest_ns[each.round]) for each in phases]


def _during(answers: np.ndarray, phase: Phase) -> np.ndarray:
    due = answers[:, 0]
    taken: np.ndarray = answers[(due >= phase.began_ns) & (due < phase.ended_ns), 1]
    return taken


def _pooled(took: Sequence[tuple[Phase, np.ndarray]], kind: str) -> np.ndarray:
    return np.concatenate([ns for phase, ns in took if phase.kind == kind])


@contextlib.contextmanager
def nothing_mapped_more(run: Run, pid: int, attaches: int, *, is_steady: bool) -> Iterator[None]:
    """Compare the address space around the block. ``is_steady``: the program maps nothing then."""

    def look() -> tuple[int, ...]:
        folder = Path(f"/proc/{pid}")
        lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        sizes = (int(lines[name].split()[0]) for name in ("VmSize", "VmRSS"))
        return len((folder / "maps").read_text().splitlines()), *sizes

    before = look()
    yield
    more = [now - then for now, then in zip(look(), before, strict=True)]
    for name, value in zip(("mappings", "size_kib", "resident_kib"), more, strict=True):
        run.fact(f"{name}_more", value)
    limit = 0 if is_steady else max(attaches, 100)
    run.expect(more[0] <= limit, f"{more[0]} mappings more after {attaches} attaches")


@contextlib.contextmanager
def asking(
    run: Run, address: str | int, request: str, rate: int, *, is_kept: bool = True
) -> Iterator[tuple[Path, list[int]]]:
    """Ask for something while the block runs: four connections. Each wrong answer is a finding.

    Yields the log of ``tests/targets/asks.c``, and a list that gets the number of answers.
    """
    question, log = run.folder / "request", run.folder / "asks.log"
    question.write_bytes(request.encode())
    log.unlink(missing_ok=True)
    arguments = [str(address), str(question), str(log), "4", str(rate), str(int(is_kept))]
    client = run.target("asks", *arguments)
    counts: list[int] = []
    yield log, counts
    asked, wrong = client.finish()[-1].removeprefix("asked ").split(" wrong ")
    run.expect(wrong == "0", f"{wrong} of {asked} answers were wrong: {client.errors[:5]}")
    counts.append(int(asked))


def answers_of(log: Path) -> np.ndarray:
    """Read what ``asks.c`` has written: (due, took) of each request, ns."""
    return np.fromfile(log, dtype=np.int64).reshape(-1, 2)
