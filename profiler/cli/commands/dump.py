"""``flametap dump``: the stacks of all threads, once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from ...analysis.labels import label
from ...errors import NoSamplesError
from ...linux import procfs
from ...model import Clock, Frame, FrameKind, Thread
from .. import start
from ..attach_options import AttachOptions
from ..frame_options import FrameOptions, frame_options
from ..options import pid_arguments, sampling_options_with, verbosity_options
from ..progress import Progress
from ..signals import EXIT_CODE, Interrupted, Interrupts
from ..streams import print_json, print_lines
from ..targets import find_target

if TYPE_CHECKING:
    from ...analysis.frame_filter import FrameFilter
    from ...capture.live import Capture

# Sampling lasts until every thread has a stack. A running thread takes a few periods on a busy
# machine, and a hundred where the program has handlers on alternate stacks (stack_headroom.c). The
# limits are for a thread that never gets a stack, as one that blocks the signal and never sleeps.
SHORTEST_S = 0.1
BLOCKED_S = 0.5
LONGEST_S = 3.0
# A dump is short: it samples faster than a recording. It has no budget, which would lower the rate
# of a process with many threads before its busy threads were sampled.
RATE_HZ, BUDGET_PERCENT = "250", "0"
POLL_S = 0.02
# Counter of signals that were not sent or not handled → why a thread has no stack.
UNSEEN_BECAUSE = (
    ("handler_replaced", "the program has set its own handler for the sampling signal"),
    ("stray_stack", "it runs on a stack of its own making, which may have no room for a signal"),
    ("small_stack", "its stack may have no room for a signal"),
    ("signals_failed", "the kernel could not queue all signals (ulimit -i)"),
)
NAMING_S = 60.0


@dataclass(frozen=True)
class ThreadStack:
    """The newest stack of one thread."""

    tid: int
    name: str
    waits_in: str  # the system call it waits in; "" for none
    is_complete: bool  # unwound to the root
    frames: list[Frame]  # leaf first; empty if the thread was never sampled
    runs_in: str = ""  # the system call it runs in; "kernel" if the call is unknown; "" for none
    unseen_because: str = ""  # why it has no frames; "" if it has


@click.command(short_help="Print the stacks of all threads, once.")
@pid_arguments
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
@frame_options(lines=False)
@sampling_options_with(RATE_HZ, BUDGET_PERCENT)
@verbosity_options
def dump(
    pid: str | None,
    pid_option: int | None,
    as_json: bool,
    shown: FrameOptions,
    how: AttachOptions,
    quiet: bool,
) -> int:
    """Print every thread of a process: its name, the system call it waits in, and its stack,
    innermost function first.
    """
    progress = Progress(quiet=quiet)
    target = find_target(pid, pid_option, progress)
    with Interrupts() as interrupts:
        if how.verbose:
            start.print_findings(target, progress)
        try:
            with start.prepared(target, how, progress) as capture:
                tids = _tasks(target)
                start.start(capture, interrupts, progress)
                progress.step("taking the stacks")
                _sample(capture, tids, interrupts)
                capture.stop()
                if interrupts.stop:
                    raise Interrupted
                _name(capture, interrupts, progress)
                stacks = read_stacks(capture, shown.frames)
                if not any(stack.frames for stack in stacks):
                    raise NoSamplesError(
                        f"no stack of process {target} could be taken", "try again"
                    )
                command = capture.status().command
                if as_json:
                    print_json(as_object(target, command, stacks))
                elif capture.profile.has_managed:
                    full = shown.full_filenames
                    print_lines(as_python_lines(target, command, stacks, full_filenames=full))
                else:
                    print_lines(as_lines(target, command, stacks))
        except Interrupted:
            progress.say("interrupted")
            return EXIT_CODE
    return 0


def _tasks(pid: int) -> frozenset[int]:
    """Return the ids of the threads that the process has now."""
    with contextlib.suppress(*procfs.GONE):
        return frozenset(procfs.list_tasks(pid))
    return frozenset()


def _sample(capture: Capture, tids: frozenset[int], interrupts: Interrupts) -> None:
    """Sample until each thread in ``tids``, those from before the attach, has a stack."""
    begin_s = time.monotonic()
    while not interrupts.stop and not capture.wait(POLL_S):
        elapsed_s = time.monotonic() - begin_s
        if elapsed_s >= LONGEST_S:
            return
        if elapsed_s >= SHORTEST_S and not _is_any_unseen(capture, tids, elapsed_s):
            return


def _is_any_unseen(capture: Capture, tids: frozenset[int], elapsed_s: float) -> bool:
    """Return True while a thread has no stack and may still get one."""
    threads = capture.profile.threads
    settled = {thread.tid for thread in threads.values() if thread.exited}
    for thread_id, leaf in _newest_leaves(capture).items():
        thread = threads[thread_id]
        if leaf is not None or (thread.signals_blocked and elapsed_s >= BLOCKED_S):
            settled.add(thread.tid)
        elif thread.tid:
            return True
    # The agent reports a thread with its first data, so some may be unknown yet.
    missing = tids - settled
    return bool(missing) and bool(missing & _tasks(capture.pid))


def _name(capture: Capture, interrupts: Interrupts, progress: Progress) -> None:
    deadline_s = time.monotonic() + NAMING_S
    while not capture.finish_symbols(POLL_S):
        progress.step("naming functions (Ctrl-C prints without them)")
        if interrupts.stop or time.monotonic() > deadline_s:
            progress.warn("some names are still missing")
            return


def read_stacks(capture: Capture, shown: FrameFilter) -> list[ThreadStack]:
    """Return the newest stack of every thread that has not exited, the main thread first.

    Args:
        capture: what was sampled.
        shown: which frames to return.
    """
    from ...analysis.shown_frames import StackReader
    from ...linux.syscalls import syscall_name
    from ...profile.stacks import ROOT

    newest = _newest_leaves(capture)
    reader = StackReader(capture.profile, capture.table, shown)
    kernel = capture.table.kernel()
    stacks = []
    threads = capture.profile.threads
    cpu_ns = {info.thread_id: info.cpu_ns for info in capture.threads()}
    counters = capture.status().counters
    for thread_id, leaf in newest.items():
        thread = threads[thread_id]
        frames: list[Frame] = []
        is_complete, sysno, runs_in = False, -1, ""
        if leaf is not None:
            node, sysno = leaf
            call = kernel.get(reader.address(node))
            if sysno < 0 and call is not None:
                runs_in = syscall_name(call)
            frames = reader.frames(node)[::-1]
            is_complete = reader.root(node) == ROOT
        waits_in = syscall_name(sysno) if sysno >= 0 else ""
        stack = ThreadStack(thread.tid, thread.name, waits_in, is_complete, frames, runs_in)
        if not frames:
            why = unseen_because(thread, cpu_ns.get(thread_id, 0), counters)
            stack = replace(stack, unseen_because=why)
        stacks.append(stack)
    return sorted(stacks, key=lambda stack: (stack.tid != capture.pid, stack.tid))


def unseen_because(thread: Thread, cpu_ns: int, counters: Mapping[str, int]) -> str:
    """Return why a thread has no stack, as far as it is known.

    Args:
        thread: one without a stack.
        cpu_ns: CPU time that it used while it was sampled.
        counters: of the whole process (abi.h, enum counter).
    """
    if thread.signals_blocked:
        return "it blocks the sampling signal, and never slept"
    if not cpu_ns:
        return "it used no CPU meanwhile"
    for counter, why in UNSEEN_BECAUSE:
        if counters.get(counter, 0):
            return why
    return "it did not run long enough at a time; try again"


def _newest_leaves(capture: Capture) -> dict[int, tuple[int, int] | None]:
    """Map each thread that has not exited to node and system call (-1 for none) of its newest
    stack; to None if it has no stack.
    """
    from ...profile.stacks import TABLE_FULL, UNATTRIBUTED

    timeline = capture.profile.timelines(Clock.WALL)
    newest: dict[int, tuple[int, int] | None] = {}
    for thread_id, thread in capture.profile.threads.items():
        if thread.exited:
            continue
        newest[thread_id] = None
        for leaves in timeline(thread_id):
            for node, sysno in zip(leaves.node.tolist(), leaves.sysno.tolist(), strict=True):
                if node not in (UNATTRIBUTED, TABLE_FULL):
                    newest[thread_id] = node, sysno
    return newest


def as_lines(pid: int, command: str, stacks: list[ThreadStack]) -> list[str]:
    """Format the stacks as lines for people."""
    waits = _waits_in_no_call()
    lines = [f"process {pid}: {command}"]
    for stack in stacks:
        does = f"waits in {stack.waits_in}" if stack.waits_in else "runs"
        if stack.waits_in in waits:
            does = f"is {waits[stack.waits_in]}"
        if stack.runs_in:
            does = f"runs in {stack.runs_in}"
        if not stack.frames:
            does = f"was not seen: {stack.unseen_because}"
        lines += ["", f'thread {stack.tid} "{stack.name}" {does}']
        for frame in stack.frames:
            lines.append("    " + _frame_text(frame))
        if stack.frames and not stack.is_complete:
            lines.append("    … the rest could not be unwound")
    return lines


def as_python_lines(
    pid: int, command: str, stacks: list[ThreadStack], *, full_filenames: bool = False
) -> list[str]:
    """Format the stacks of a Python process as lines for people, as py-spy does."""
    waits = _waits_in_no_call()
    lines = [f"process {pid}: {command}"]
    for stack in stacks:
        does = "active" + (f" in {stack.runs_in}" if stack.runs_in else "")
        if stack.waits_in:
            does = waits.get(stack.waits_in, f"idle in {stack.waits_in}")
        if not stack.frames:
            does = f"not seen: {stack.unseen_because}"
        lines += ["", f'Thread {stack.tid} ({does}): "{stack.name}"']
        lines += ["    " + _frame_text(each, full_filenames) for each in stack.frames]
        if stack.frames and not stack.is_complete:
            lines.append("    … the rest could not be unwound")
    return lines


def _waits_in_no_call() -> dict[str, str]:
    """Map each ``waits_in`` that is no system call to what such a thread does."""
    from ...linux.syscalls import LOCK, QUEUED, syscall_name

    queued, lock = syscall_name(QUEUED), syscall_name(LOCK)
    return {queued: f"active, {queued}", lock: lock}


def _frame_text(frame: Frame, full_filenames: bool = False) -> str:
    function = frame.function
    if function.kind is FrameKind.PYTHON:
        return label(function, frame.line, full_filenames=full_filenames)
    place = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    module = f" ({function.module})" if function.module else ""
    if function.kind is FrameKind.UNKNOWN:
        module = ""  # the name contains it already
    marked = function.kind in (FrameKind.INLINED, FrameKind.TAIL_CALL)
    mark = f" [{function.kind.value}]" if marked else ""
    return f"{function.name}{module}{place}{mark}"


def as_object(pid: int, command: str, stacks: list[ThreadStack]) -> dict[str, Any]:
    """Return the JSON object of the stacks: pid, command, threads; each thread with its frames,
    leaf first.

    ``waits_in`` is null for a thread that runs, ``runs_in`` unless it runs in the kernel,
    ``unseen_because`` unless it has no frames. A frame is ``{name, module, file, line,
    function_file, kind}``; line is 0 and the files are "" if not known. ``file`` differs from
    ``function_file`` for code that a function includes with #include.
    """
    threads: list[dict[str, Any]] = [
        {
            "tid": stack.tid,
            "name": stack.name,
            "waits_in": stack.waits_in or None,
            "runs_in": stack.runs_in or None,
            "unseen_because": stack.unseen_because or None,
            "complete": stack.is_complete,
            "frames_leaf_first": [
                {
                    "name": frame.function.name,
                    "module": frame.function.module,
                    "file": frame.file,
                    "line": frame.line,
                    "function_file": frame.function.file,
                    "kind": frame.function.kind.value,
                }
                for frame in stack.frames
            ],
        }
        for stack in stacks
    ]
    return {"pid": pid, "command": command, "threads": threads}
