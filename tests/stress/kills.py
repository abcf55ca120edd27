"""Hosts that die at random moments of an attach, one after the other (``hosts.py``)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import counted
from animals import COMPILED
from harness import Run, scenario
from hosted import HOSTED
from running import Target
from standstill import check_parked
from zoo import build, check_end

HOSTS = Path(__file__).with_name("hosts.py")
KILLS_PER_SECOND = 20
# A whole attach comes after so many.
KILLS_IN_A_ROW = 10
# A little over the length of an attach: some hosts are killed as they end, or not at all.
SHARE_MAX = 1.1
GO_THREADS, GO_IGNORED = "shares", ("Sig", "ShdPnd", "socket:")


@dataclass(frozen=True)
class _Victim:
    """A program whose hosts die."""

    target: Target
    check: Callable[[], None]  # ends it
    has_jit: bool = False
    own_threads: str = ""
    ignored: tuple[str, ...] = ()

    def ignores(self, line: str) -> bool:
        return any(part in line for part in self.ignored)


class _Hosts:
    """The process whose forks are the hosts."""

    def __init__(self, run: Run) -> None:
        self._errors = run.folder / "hosts.err"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, HOSTS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        run.at_end(self._end)

    def _end(self) -> None:
        self._process.communicate()

    def attach(self, pid: int, share: float) -> tuple[str, float]:
        """Return at which step a host was killed, and how long it lived; share 0: not at all."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{pid} {share}\n")
        self._process.stdin.flush()
        step, lived_s = self._process.stdout.readline().split()
        assert step != "failed", f"no attach: {self._errors.read_text()[-2000:]}"
        return step, float(lived_s)


@scenario("gcc", "static-glibc", "go", "java", "node", "python")
def hosts_killed(run: Run) -> None:
    """SIGKILL for hosts at random moments of an attach to six programs in turn."""
    victims = [*_own(run), *_animals(run)]
    hosts = _Hosts(run)
    attaches = 2 + round(run.seconds * KILLS_PER_SECOND)
    with ExitStack() as stack:
        for each in victims:
            stack.enter_context(
                run.unharmed(
                    each.target.pid,
                    attaches=attaches,
                    was_killed=True,
                    has_jit=each.has_jit,
                    own_threads=each.own_threads,
                    ignore=each.ignores,
                )
            )
        _kill(run, hosts, [each.target for each in victims], attaches - 2)
    (run.folder / "keep").unlink()
    for each in victims:
        each.check()


def _kill(run: Run, hosts: _Hosts, targets: list[Target], kills: int) -> None:
    """Take turns, so that what a host has left is mostly gone when the next one comes."""
    since_whole = dict.fromkeys(targets, KILLS_IN_A_ROW)
    at_step: dict[str, int] = {}
    for number in range(kills):
        target = targets[number % len(targets)]
        if since_whole[target] == KILLS_IN_A_ROW:
            _whole(run, hosts, target)
            since_whole[target] = 0
        share = run.random.uniform(0.001, SHARE_MAX)
        step, _ = hosts.attach(target.pid, share)
        since_whole[target] += 1
        at_step[step] = at_step.get(step, 0) + 1
        if not run.expect(target.alive, f"{target.name} died of kill {number} ({step})"):
            return
    for target in targets:
        _whole(run, hosts, target)
    for step, times in at_step.items():
        run.fact(f"killed_{step}", times)


def _whole(run: Run, hosts: _Hosts, target: Target) -> None:
    step, took_s = hosts.attach(target.pid, 0.0)
    run.expect(step == "over", f"{target.name}: a whole attach got to {step} in {took_s:.1f} s")
    run.fact("longest_whole_s", took_s)


def _own(run: Run) -> list[_Victim]:
    parked = run.target("parked", "short")
    static = run.target("shares", variant="static")
    program = run.builder.go_program("shares", "static", run.capability("go"))
    go = run.start([program], announces=True)
    return [
        _Victim(parked, lambda: check_parked(run, parked.finish())),
        _Victim(static, lambda: counted.check_shares_c(static.finish(counted.EXIT_CODE))),
        _Victim(
            go,
            lambda: counted.check_shares_go(go.finish(counted.EXIT_CODE)),
            own_threads=GO_THREADS,
            ignored=GO_IGNORED,
        ),
    ]


def _animals(run: Run) -> list[_Victim]:
    (run.folder / "keep").touch()
    victims = []
    for animal in (*COMPILED, *HOSTED):
        if animal.name in ("python", "java", "node"):
            target = run.start(build(run, animal), announces=True, cwd=run.folder)
            check = partial(check_end, run, animal, target)
            victims.append(
                _Victim(target, check, has_jit=animal.has_jit, own_threads=animal.own_threads)
            )
    return victims
