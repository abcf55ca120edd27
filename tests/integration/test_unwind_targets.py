"""Programs built in ways that make unwinding hard: every stack is complete, or says exactly why
not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cli
from flametap.capture.live import Capture
from flametap.model import Clock, Verdict
from nightly import nightly
from recording import ENOUGH_CPU_S, doubts, record, share_of, stacks
from running import Start
from stacks import read_folded

pytestmark = pytest.mark.needs("attach", "gcc")

BAR = 0.99
CHAIN = ("main", "outer", "on_item", "inner")


def heaviest_stack(capture: Capture, clock: Clock = Clock.CPU) -> tuple[str, ...]:
    seen = stacks(capture, clock)
    return max(seen.weights, key=lambda stack: seen.weights[stack])


def has_chain(stack: tuple[str, ...], *inner: str) -> bool:
    """Whether the chain is in the stack, in this order, and nothing was cut off."""
    names = iter(stack)
    return all(name in names for name in (*CHAIN, *inner)) and "[truncated]" not in stack


@pytest.mark.parametrize(
    "variant",
    ["no-eh-frame-hdr", "debug-frame-gz", *nightly("", "debug-frame", "debug-frame-only")],
)
def test_unwind_information_is_found_wherever_it_is(
    start: Start, variant: str, seconds: float
) -> None:
    """Without .eh_frame_hdr, and where only debug information tells of frames."""
    target = start("frames", "busy", variant=variant)
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.COMPLETE) >= BAR, doubts(capture)
    assert has_chain(heaviest_stack(capture), "compute"), stacks(capture).heaviest()


def test_a_program_without_any(start: Start, seconds: float) -> None:
    """Its code says what it does before it returns."""
    target = start("frames", "busy", variant="no-frames-at-all")
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.COMPLETE) >= BAR, doubts(capture)
    assert has_chain(heaviest_stack(capture), "compute"), stacks(capture).heaviest()


def test_a_caller_that_is_only_likely_is_marked(start: Start, tmp_path: Path) -> None:
    """Code made at run time, without frames, called through a pointer."""
    target, out = start("emulated"), tmp_path / "out.folded"
    done = cli.run("record", "-p", target.pid, "-d", 0.5, "-r", 1000, "--budget", 0, "-o", out)
    (report,) = target.finish()
    done.assert_saved()
    assert int(report.removeprefix("runs ")) > 0
    folded = read_folded(out)
    marked = folded.where(lambda stack: stack[-4:] == ("main", "emulate", "[guessed]", "[jit]"))
    assert marked.total >= 0.95 * folded.total, (
        folded.heaviest()
    )  # it looks whether it shall stop, too
    said = re.search(r"([0-9.]+)% with a caller that is only likely", done.stderr)
    assert said, done.stderr
    assert float(said[1]) >= 95


def test_code_that_its_compiler_has_registered_is_unwound_by_its_object_file(
    start: Start, tmp_path: Path
) -> None:
    target = start("emulated", "registered", variant="exported")
    out = tmp_path / "out.folded"
    done = cli.run("record", "-p", target.pid, "-d", 1, "-r", 1000, "--budget", 0, "-o", out)
    target.finish()
    done.assert_saved()
    folded = read_folded(out)
    exact = folded.where(lambda stack: stack[-3:] == ("main", "emulate", "[jit]"))
    # Its list is found some milliseconds after the first stacks.
    assert exact.total >= 0.9 * folded.total, folded.heaviest()


def test_a_parked_thread_without_eh_frame(start: Start) -> None:
    target = start("frames", "parked", variant="debug-frame")
    capture = record(target.pid, 0.5, samples=1)
    target.finish()
    assert has_chain(heaviest_stack(capture, Clock.WALL), "descend"), stacks(capture, Clock.WALL)


def test_recursion_deeper_than_the_limit_says_so(start: Start, seconds: float) -> None:
    target = start("deep", "100000")
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.TRUNCATED_DEPTH) >= BAR, doubts(capture)
    assert capture.status().verdict_modules == {}, "too deep is no module's fault"
    stack = heaviest_stack(capture)
    assert stack[0] == "[truncated]"
    assert stack[-1] == "bottom"


def test_deep_recursion_asleep(start: Start) -> None:
    target = start("frames", "deep-parked")
    capture = record(target.pid, 0.5, samples=1)
    target.finish()
    stack = heaviest_stack(capture, Clock.WALL)
    assert stack[0] == "[truncated]"
    assert stack.count("descend") > 2000, stack[-5:]


def test_handler_on_an_alternate_stack(start: Start, seconds: float) -> None:
    """Through the signal's frame, back into the stack that it interrupted."""
    target = start("frames", "handler")
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.COMPLETE) >= BAR, doubts(capture)
    seen = stacks(capture)
    through_handler = [s for s in seen.weights if has_chain(s, "raise", "on_signal", "compute")]
    weight = sum(seen.weights[stack] for stack in through_handler)
    assert weight >= 0.2 * seen.total, seen.heaviest()


def test_handler_asleep_on_an_alternate_stack(start: Start) -> None:
    target = start("frames", "handler-parked")
    capture = record(target.pid, 0.5, samples=1)
    target.finish()
    stack = heaviest_stack(capture, Clock.WALL)
    assert has_chain(stack, "raise", "on_signal", "descend"), stack


@pytest.mark.parametrize("kind", ["ucontext", "switch"])
def test_coroutines(start: Start, kind: str, seconds: float) -> None:
    """Stacks that come and go, of the C library's making and of nobody's."""
    target = start("coroutines", kind, "65536")
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    assert target.finish() == ["coroutines ran wrong 0"]
    # By chance such a thread is taken for one without room on its stack, and gets no signal then.
    cpu_ns = capture.status().verdict_cpu_ns
    with_stack_ns = sum(cpu_ns.values()) - cpu_ns.get("NO_STACK", 0)
    assert cpu_ns["COMPLETE"] >= BAR * with_stack_ns, doubts(capture)
    root = "__start_context" if kind == "ucontext" else "coroutine_main"
    assert any(stack[0] == root and "descend" in stack for stack in stacks(capture).weights)
