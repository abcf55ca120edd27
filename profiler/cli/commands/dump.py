"""``flametap dump``: the stacks of all threads, once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...errors import NoSamplesError, UsageError
from ...linux import procfs
from ...model import Clock, Frame, Thread
from .. import start
from ..attach_options import AttachOptions
from ..dump_json import as_object
from ..dump_text import as_lines, as_python_lines, deadlock_lines, task_lines
from ..frame_options import FrameOptions, frame_options
from ..options import (
    pid_arguments,
    sampling_options_with,
    verbosity_options,
    via_option_of_printing,
)
from ..progress import Progress
from ..signals import EXIT_CODE, Interrupted, Interrupts
from ..streams import print_json, print_lines
from ..targets import find_target
from ..thread_stack import ThreadStack

if TYPE_CHECKING:
    from ...capture.live import Capture
    from ...capture.python_look import PythonLook
    from ...tree.frame_filter import FrameFilter

# Sampling lasts until every thread has a stack. A running thread takes a few periods on a busy
# machine, and a hundred where the program has handlers on alternate stacks (stack_headroom.c). The
# limits are for a thread that never gets a stack, as one that blocks the signal and never sleeps.
SHORTEST_S = 0.1
BLOCKED_S = 0.5
LONGEST_S = 3.0
# Without any stack: a full machine may let no thread have its turn for seconds.
EMPTY_S = 10.0
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
# Threads that wait for each other for so long are in a deadlock: one that was just given its lock
# may still wait for a CPU.
STUCK_NS = 50_000_000


@click.command(short_help="Print the stacks of all threads, once.")
@via_option_of_printing
@pid_arguments
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
@click.option(
    "-l",
    "--locals",
    "with_locals",
    is_flag=True,
    help="Show the arguments and local variables of Python functions.",
)
@click.option(
    "--all-tasks",
    is_flag=True,
    help="Show all asyncio tasks of an event loop; by default, its first 100.",
)
@frame_options(lines=False)
@sampling_options_with(RATE_HZ, BUDGET_PERCENT)
@verbosity_options
def dump(
    pid: str | None,
    pid_option: int | None,
    as_json: bool,
    with_locals: bool,
    all_tasks: bool,
    shown: FrameOptions,
    how: AttachOptions,
    quiet: bool,
) -> int:
    """Print every thread of a process: its name, the system call it waits in, and its stack,
    innermost function first. For a Python program, also the tasks of its asyncio event loops.
    """
    if with_locals and shown.language == "native":
        raise UsageError("--locals and --native-only contradict each other", "leave one out")
    progress = Progress(quiet=quiet)
    target = find_target(pid, pid_option, progress)
    with Interrupts() as interrupts:
        if how.verbose:
            start.print_findings(target, progress)
        try:
            with start.prepared([target], how, progress, shows_notes=False) as capture:
                tids = _tasks(target)
                start.start(capture, interrupts, progress)
                progress.step("taking the stacks")
                _sample(capture, tids, interrupts)
                look = _look(capture, with_locals=with_locals, with_threads=with_locals or as_json)
                capture.stop()
                if interrupts.stop:
                    raise Interrupted
                _name(capture, interrupts, progress)
                stacks = read_stacks(capture, shown.frames)
                if not any(stack.frames for stack in stacks):
                    raise NoSamplesError(
                        f"no stack of process {target} could be taken", "try again"
                    )
                stacks = with_look(stacks, look, with_locals=with_locals)
                for note in look.notes:
                    progress.warn(note)
                command = capture.status().command
                if as_json:
                    print_json(
                        as_object(target, command, stacks, look.versions, look.loops, look.notes)
                    )
                elif capture.profile.has_managed:
                    full = shown.full_filenames
                    lines = as_python_lines(target, command, stacks, full_filenames=full)
                    if shown.language != "native":
                        lines += task_lines(look.loops, every=all_tasks, full_filenames=full)
                    print_lines([*lines, *deadlock_lines(stacks)])
                else:
                    print_lines([*as_lines(target, command, stacks), *deadlock_lines(stacks)])
        except Interrupted:
            progress.say("interrupted")
            return EXIT_CODE
    return 0


def _look(capture: Capture, *, with_locals: bool, with_threads: bool) -> PythonLook:
    """Look at the Pythons of the process, right after its stacks were taken."""
    from ...capture.python_look import look_at_python

    return look_at_python(
        capture.pid,
        capture.interpreters(),
        with_locals=with_locals,
        with_threads=with_threads,
    )


def with_look(
    stacks: Sequence[ThreadStack], look: PythonLook, *, with_locals: bool
) -> list[ThreadStack]:
    """Return stacks with what was seen of their Python frames.

    Args:
        stacks: of all threads.
        look: at the Pythons of the process.
        with_locals: variables are wanted.
    """
    from ...capture.python_look import frames_seen

    found = []
    for stack in stacks:
        looks = look.threads.get(stack.tid, [])
        locks = {each.has_lock for each in looks}
        has_lock = True if True in locks else False if False in locks else None
        stack = replace(stack, has_lock=has_lock)
        if with_locals and looks and any(f.function.kind.value == "python" for f in stack.frames):
            seen = frames_seen(stack.frames, looks, is_complete=stack.is_complete)
            later = tuple(frame for each in looks for frame in each.frames)
            if seen or not any(frame.variables for frame in later):
                later = ()
            why = next((each.problem for each in looks if each.problem), "")
            stack = replace(
                stack, seen=seen, later=later, unread_because="" if seen or later else why
            )
        found.append(stack)
    return found


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
        is_over = elapsed_s >= LONGEST_S or (
            elapsed_s >= SHORTEST_S and not _is_any_unseen(capture, tids, elapsed_s)
        )
        if is_over and (elapsed_s >= EMPTY_S or _is_any_seen(capture)):
            return


def _is_any_seen(capture: Capture) -> bool:
    """Return True once a thread has a stack with a function in it."""
    from ...recording.profile.stacks import ROOT

    return any(leaf is not None and leaf[0] != ROOT for leaf in _newest_leaves(capture).values())


def _is_any_unseen(capture: Capture, tids: frozenset[int], elapsed_s: float) -> bool:
    """Return True while a thread has no stack and may still get one."""
    leaves = _newest_leaves(capture)
    threads = capture.profile.threads  # last, so that each thread with a leaf is among them
    settled = {thread.tid for thread in threads.values() if thread.exited}
    for thread_id, leaf in leaves.items():
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
    from ...linux.syscalls import syscall_name
    from ...locks.held_waits import HeldWaits
    from ...recording.profile.stacks import ROOT
    from ...tree.shown_frames import StackReader

    newest = _newest_leaves(capture)
    reader = StackReader(capture.profile, capture.names, shown)
    kernel = capture.names.kernel()
    stacks = []
    threads = capture.profile.threads
    cpu_ns = {info.thread_id: info.cpu_ns for info in capture.profile.thread_infos()}
    counters = capture.status().counters
    holders = HeldWaits(capture.profile.lock_intervals()).last()
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
        why = "" if frames else unseen_because(thread, cpu_ns.get(thread_id, 0), counters)
        holder_id, held_ns = holders.get(thread_id, (-1, 0))
        holder = threads.get(holder_id)
        stacks.append(
            ThreadStack(
                thread.tid,
                thread.name,
                waits_in,
                is_complete,
                frames,
                runs_in,
                why,
                thread.comm,
                waits_for=(holder.tid, holder.name) if holder else None,
                is_stuck=held_ns >= STUCK_NS,
            )
        )
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
    stack; to None if it has no stack. One without functions counts only if there is no other: a
    thread that is just being woken has none.
    """
    from ...recording.profile.stacks import ROOT, TABLE_FULL, UNATTRIBUTED

    timeline = capture.profile.timelines(Clock.WALL)
    newest: dict[int, tuple[int, int] | None] = {}
    for thread_id, thread in capture.profile.threads.items():
        if thread.exited:
            continue
        newest[thread_id] = None
        for leaves in timeline(thread_id):
            for node, sysno in zip(leaves.node.tolist(), leaves.sysno.tolist(), strict=True):
                is_empty = node == ROOT and newest[thread_id] is not None
                if node not in (UNATTRIBUTED, TABLE_FULL) and not is_empty:
                    newest[thread_id] = node, sysno
    return newest
