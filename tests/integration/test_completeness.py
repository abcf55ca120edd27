"""Real programs under their load: stacks that reach their root, by CPU time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flametap.capture.live import Capture
from flametap.model import Verdict
from recording import ENOUGH_CPU_S, TAIL_NS, doubts, record
from workloads import LOADED

pytestmark = pytest.mark.needs("attach")

BAR = 0.995
# Encoders' assembly without call frame information; the verdict names the library.
BARS = {"ffmpeg": 0.90}
# Those that test_real_targets.py does not look at; all: FLAMETAP_TEST_SECONDS=5.
SHORT = ("postgres", "openssl ecdsap256", "ffmpeg", "sqlite3", "caddy")
TELLING = ("postgres", "caddy")
NAMES = LOADED if float(os.environ.get("FLAMETAP_TEST_SECONDS", "0")) >= 5 else SHORT


def _cpu_ns(capture: Capture) -> tuple[int, int, int]:
    """All CPU time, that without a stack, and that of stacks that reach their root."""
    weights = capture.status().verdict_cpu_ns
    complete = (each for each in Verdict if each.is_complete)
    reached = sum(weights.get(verdict.name, 0) for verdict in complete)
    return sum(weights.values()), weights.get(Verdict.NO_STACK.name, 0), reached


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.needs(*LOADED[name].needs)]
            + [pytest.mark.nightly] * (name not in TELLING),
        )
        for name in NAMES
    ],
)
def test_stacks_reach_their_roots(name: str, tmp_path: Path, seconds: float) -> None:
    bar = BARS.get(name, BAR)
    with LOADED[name].start(tmp_path) as pid:
        capture = record(pid, seconds, cpu_s=ENOUGH_CPU_S)
        total, unseen, reached = _cpu_ns(capture)
        # A stack in memory that was mapped a moment ago is cut until the maps are read again: once
        # or twice in the life of a program, but a twentieth of a second.
        if reached < bar * (total - unseen):
            capture = record(pid, seconds, cpu_s=ENOUGH_CPU_S)
            total, unseen, reached = _cpu_ns(capture)
    print(f"{name}: {total / 1e9:.2f} s of CPU time, {reached / total:.2%} reach their root")
    assert reached > 0
    assert reached / (total - unseen) >= bar, doubts(capture)
    named = sum(w for module, w in capture.status().verdict_modules.items() if module)
    assert (reached + named) / (total - unseen) >= BAR, doubts(capture)
    threads = len(capture.profile.thread_infos())
    # Until the tables are made no stack can be taken: seconds on a busy machine.
    early_ns = capture.status().counters["cfi_compile_ns"]
    assert unseen <= (1 - BAR) * total + TAIL_NS * threads + early_ns, doubts(capture)
