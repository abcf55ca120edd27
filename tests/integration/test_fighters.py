"""Programs that do what a profiler least expects, while it attaches, samples and detaches: it ends
with an exit code that the README tells, says one line of error at most, and the program has its
result and its exit code."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import cli
import counted
import receipt
from nightly import nightly
from running import Start, Target

pytestmark = pytest.mark.needs("attach", "gcc")

# Saved; gone; no right; refused; nothing was sampled. 7, a fault while attached, is none of them.
ALLOWED = (0, 3, 4, 5, 6)
REFUSED = 5
DURATION_S = 0.5
# An action cannot be read and set at once (sigaction(2)): one that the program sets in between is
# lost, at the beginning and the end of two attaches, for two signals.
MOST_LOST = 8
SETTLED_S = 30.0
# What a program changes all the time, as the receipt tells it.
OWN_CHANGES = {
    "actions": r"SIGURG|SIGWINCH|Sig(Cgt|Ign|Blk|Pnd)|ShdPnd",
    "strangers": r"Sig(Cgt|Blk|Pnd)|ShdPnd|/proc/\d+/task",
    "count": r"/proc/\d+/task",
    "tracing": r"Sig(Blk|Pnd)|ShdPnd",
    "storm": r"thread \d+ \(fighters\)|Sig(Blk|Pnd)",
    "unmap-vdso": r"vdso",
    "vdso-later": r"vdso",
    "filter-allow": r"[Ss]eccomp|NoNewPrivs",
    "filter-kill": r"[Ss]eccomp|NoNewPrivs",
    "filter-kill-all": r"[Ss]eccomp|NoNewPrivs",
}
STANDING = (
    *("unmap-vdso", "close-vdso", "vdso-later", "actions", "undumpable", "tracing", "strangers"),
    *("count", "limit-as", "limit-data", "limit-nofile", "limit-nproc", "limit-stack"),
    *("filter-allow", "filter-kill", "storm", "write-ring"),
)


def begin(start: Start, mode: str, seed: int = 1) -> Target:
    target = start("fighters", mode, str(seed))
    if target.facts.get("refused"):
        pytest.skip(f"the kernel does not let a program do that: {mode}")
    return target


def assert_documented(result: cli.Result) -> None:
    """Check the exit code, and that there is one line of error if that is none of success."""
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code in ALLOWED, f"exit {result.exit_code}: {result.stderr}"
    errors = [line for line in result.stderr.splitlines() if line.startswith("flametap: ")]
    assert len(errors) == (result.exit_code != 0), f"exit {result.exit_code}: {result.stderr}"


def record(target: Target, folder: Path) -> cli.Result:
    """Record for a moment, and check how that ended."""
    out = folder / "out.folded"
    result = cli.run("record", "-p", target.pid, "-d", DURATION_S, "-r", 1000, "-o", out)
    assert_documented(result)
    return result


def assert_books(mode: str, told: dict[str, int]) -> None:
    """Check what the program counted: that nobody else was in what is its own."""
    assert told.get("wrong", 0) == 0, told
    if mode == "strangers":
        # Its handler never ran in a thread of the profiler's.
        assert told["own"] > 0, told
        assert told["foreign"] == 0, told
    if mode == "actions":
        # Of two equal signals that wait for a thread the kernel keeps the first: of somebody else.
        assert 0 <= told["lost"] <= told["foreign"] + MOST_LOST, told


@pytest.mark.parametrize("mode", [*STANDING, *nightly("filter-kill-all", "write-control")])
def test_target_that_fights_is_unharmed(start: Start, tmp_path: Path, mode: str) -> None:
    target = begin(start, mode)
    before = receipt.take_at_rest(target.pid)
    record(target, tmp_path)
    assert_documented(cli.run("dump", target.pid))
    found = receipt.harm_after_settling(
        target.pid,
        before,
        attaches=2,
        timeout_s=SETTLED_S,
        own_threads="fighters" if mode == "storm" else "",
        own_changes=OWN_CHANGES.get(mode, ""),
    )
    assert found == []
    assert_books(mode, counted.finish(target))


def test_one_that_is_traced_by_its_child_is_refused(start: Start, tmp_path: Path) -> None:
    target = begin(start, "traced")
    before = receipt.take_at_rest(target.pid)
    assert record(target, tmp_path).exit_code == REFUSED
    assert_documented(cli.run("dump", target.pid))
    found = receipt.harm(before, receipt.take(target.pid), attaches=0)
    assert [line for line in found if not line.startswith("traced by")] == []
    counted.finish(target)


@pytest.mark.parametrize("seed", [1, 2, *nightly(*range(3, 23))])
def test_exec_at_any_moment(start: Start, tmp_path: Path, seed: int) -> None:
    target = begin(start, "exec", seed)
    record(target, tmp_path)
    told = counted.finish(target)
    assert told["execs"] > 0, told


@pytest.mark.parametrize("seed", [2, 3, *nightly(*range(4, 44))])
def test_end_at_any_moment(start: Start, tmp_path: Path, seed: int) -> None:
    target = begin(start, "exit", seed)
    result = record(target, tmp_path)
    if result.exit_code == 0 and "exited with code" in result.stderr:
        assert f"exited with code {counted.EXIT_CODE}" in result.stderr, result.stderr
    counted.finish(target)


@pytest.mark.nightly  # most of these moments are none of an attach
@pytest.mark.parametrize("mode", ["actions", "filter-kill", "vdso-later", "storm", "write-ring"])
def test_at_many_moments(start: Start, tmp_path: Path, mode: str) -> None:
    for seed in range(2, 12):
        target = begin(start, mode, seed)
        time.sleep(seed / 20)
        record(target, tmp_path)
        assert_books(mode, counted.finish(target))
