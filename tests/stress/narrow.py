"""Scenarios on stacks with little room: alternate ones, coroutines', threads' own."""

from __future__ import annotations

import re

from harness import Run, scenario

# The target handles signals of its own all the time: masks and pending signals say nothing.
OWN_SIGNALS = re.compile(r"Sig(Pnd|Blk)|ShdPnd")


def _busy_with_signals(line: str) -> bool:
    return OWN_SIGNALS.search(line) is not None


def _alternate(run: Run, stack_bytes: int | str, work: str) -> int:
    """Record handlers on alternate stacks of a size; return how many signals found no room."""
    target = run.target("altstack", str(stack_bytes), work)
    outcome = run.record(target.pid, ignore=_busy_with_signals)
    for line in target.finish():
        found = re.fullmatch(r"sent (\d+) handled (\d+) eintr 0 spoilt 0", line)
        run.expect(found and found[1] == found[2] != "0", f"{stack_bytes} {work}: {line}")
    return outcome.counters["small_stack"]


@scenario("gcc")
def handlers_on_4k_stacks(run: Run) -> None:
    """Own handlers, busy and asleep, on alternate stacks that hold one signal frame but not two."""
    run.expect(_alternate(run, 4096, "busy") > 0, "4 KiB were taken for enough")
    _alternate(run, 4096, "sleep")


@scenario("gcc")
def handlers_on_8k_stacks(run: Run) -> None:
    """The usual SIGSTKSZ: two frames of a machine with AVX-512 fit, and nothing else; without it, a
    handler, too."""
    _alternate(run, 8192, "busy")
    _alternate(run, 8192, "sleep")


@scenario("gcc")
def handlers_on_tight_stacks(run: Run) -> None:
    """What our handler finds left of the stack decides whether it takes a sample."""
    _alternate(run, "tight", "busy")
    _alternate(run, "tight", "sleep")


@scenario("gcc")
def handlers_on_32k_stacks(run: Run) -> None:
    """Alternate stacks with room enough: their threads are sampled like any other."""
    target = run.target("altstack", "32768", "busy")
    outcome = run.record(target.pid, ignore=_busy_with_signals)
    run.expect(outcome.counters["signals_handled"] > 0, f"not sampled: {outcome.counters}")
    for line in target.finish():
        found = re.fullmatch(r"sent (\d+) handled (\d+) eintr 0 spoilt 0", line)
        run.expect(found and found[1] == found[2], line)


def _coroutines(run: Run, *arguments: str) -> None:
    target = run.target("coroutines", *arguments)
    outcome = run.record(target.pid)
    is_sampled = outcome.counters["signals_handled"] > 0
    run.expect(is_sampled or "bare" in arguments, f"not sampled: {outcome.counters}")
    run.expect(target.finish() == ["coroutines ran wrong 0"], "a coroutine's result is wrong")


@scenario("gcc")
def coroutines_by_hand(run: Run) -> None:
    """Stacks of 16 KiB, mapped, switched to by hand and unmapped all the time."""
    _coroutines(run, "switch", "16384")


@scenario("gcc")
def coroutines_of_libc(run: Run) -> None:
    """The same with makecontext and swapcontext, whose first frame has no caller."""
    _coroutines(run, "ucontext", "16384")


@scenario("gcc")
def coroutines_without_guard_pages(run: Run) -> None:
    """Every second stack right above other memory: nobody knows where it ends."""
    _coroutines(run, "switch", "16384", "bare")


@scenario("gcc")
def thread_on_the_smallest_stack(run: Run) -> None:
    """A thread with PTHREAD_STACK_MIN that uses all but 2 KiB: a signal would kill it."""
    target = run.target("tight", "16384", "2048")
    outcome = run.record(target.pid)
    run.expect(outcome.counters["small_stack"] > 0, "16 KiB were taken for enough")
    run.expect(target.finish() == ["worked 1 deep 1"], "the thread went wrong")


@scenario("gcc")
def thread_on_a_full_stack(run: Run) -> None:
    """A stack of 64 KiB with 9 KiB left: the first signal fits, and shows that it is the last."""
    target = run.target("tight", "65536", "9000")
    outcome = run.record(target.pid)
    run.expect(outcome.counters["small_stack"] > 0, "9 KiB were taken for enough")
    run.expect(target.finish() == ["worked 1 deep 1"], "the thread went wrong")


@scenario("gcc")
def recursion_100_000_deep(run: Run) -> None:
    """100 000 frames: cut at 2 048, and said so."""
    target = run.target("deep", "100000")
    outcome = run.record(target.pid)
    cut = outcome.verdict_cpu_s.get("TRUNCATED_DEPTH", 0.0)
    run.expect(cut > 0.9 * outcome.cpu_s, f"verdicts {outcome.verdict_cpu_s}")
    target.finish()
