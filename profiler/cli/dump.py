"""``flametap dump``: the stacks of all threads, once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flametap.cli import attach
from flametap.cli.options import pick_pid, pid_arguments, sampling_options, talk_options
from flametap.cli.progress import Progress
from flametap.cli.signals import EXIT_CODE, Interrupted, Interrupts
from flametap.cli.streams import print_data
from flametap.errors import NoSamplesError
from flametap.model import Clock, Frame, FrameKind

if TYPE_CHECKING:
    from flametap.capture import Capture

# Sampling goes on until every thread has a stack. A thread that runs needs to be caught running,
# which takes a few periods on a busy machine; one that never answers must not keep us.
SHORTEST_S = 0.1
LONGEST_S = 1.5
POLL_S = 0.02
NAMING_S = 60.0


@dataclass(frozen=True)
class ThreadStack:
    """What one thread was doing when it was last looked at."""

    tid: int
    name: str
    waits_in: str  # the system call it waits in, "" if it waits in none
    is_complete: bool  # the root was reached
    frames: list[Frame]  # leaf first; empty if the thread was never seen
    runs_in: str = ""  # the system call it runs in, "kernel" if it is not known which


@click.command(short_help="Print the stacks of all threads, once.")
@pid_arguments
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@sampling_options
@talk_options
def dump(
    pid: int | None,
    pid_option: int | None,
    as_json: bool,
    how: attach.How,
    quiet: bool,
) -> int:
    """Print what every thread of a process is doing: its stack, innermost function first, its name,
    and the system call it waits in.
    """
    target = pick_pid(pid, pid_option)
    progress = Progress(quiet=quiet)
    with Interrupts() as interrupts:
        if how.verbose:
            attach.tell_findings(target, progress)
        try:
            with attach.prepared(target, how, progress) as capture:
                attach.start(capture, interrupts, progress)
                progress.step("taking the stacks")
                _sample(capture, interrupts)
                capture.stop()
                if interrupts.stop:
                    raise Interrupted
                _name(capture, interrupts, progress)
                stacks = read_stacks(capture)
                if not any(stack.frames for stack in stacks):
                    raise NoSamplesError(
                        f"no stack of process {target} could be taken", "try again"
                    )
                text = as_json_text if as_json else as_plain_text
                print_data(text(target, capture.status().command, stacks))
        except Interrupted:
            progress.say("interrupted")
            return EXIT_CODE
    return 0


def _sample(capture: Capture, interrupts: Interrupts) -> None:
    begin_s = time.monotonic()
    while not interrupts.stop and not capture.wait(POLL_S):
        elapsed_s = time.monotonic() - begin_s
        if elapsed_s >= LONGEST_S:
            return
        newest = _newest_leaves(capture)
        if elapsed_s >= SHORTEST_S and newest and None not in newest.values():
            return


def _name(capture: Capture, interrupts: Interrupts, progress: Progress) -> None:
    deadline_s = time.monotonic() + NAMING_S
    while not capture.finish_symbols(POLL_S):
        progress.step("naming functions (Ctrl-C prints without)")
        if interrupts.stop or time.monotonic() > deadline_s:
            progress.warn("some names are still missing")
            return


def read_stacks(capture: Capture) -> list[ThreadStack]:
    """The newest stack of every thread that has not exited, the process's main thread first."""
    from flametap.stacks import ROOT, TRUNCATED
    from flametap.syscalls import syscall_name

    trie = capture.profile.trie()
    kernel = capture.table.kernel()
    stacks = []
    threads = capture.profile.threads
    for thread_id, leaf in _newest_leaves(capture).items():
        thread = threads[thread_id]
        frames: list[Frame] = []
        is_complete, sysno, runs_in = False, -1, ""
        if leaf is not None:
            node, sysno = leaf
            call = kernel.get(int(trie.address[node]))
            if sysno < 0 and call is not None:
                runs_in = syscall_name(call)
            while node > TRUNCATED:
                address = int(trie.address[node])
                frames.extend(reversed(capture.table.frames(address)))
                node = int(trie.parent[node])
                if node > TRUNCATED:
                    frames.extend(reversed(capture.table.lost(int(trie.address[node]), address)))
            is_complete = node == ROOT
        waits_in = syscall_name(sysno) if sysno >= 0 else ""
        stacks.append(ThreadStack(thread.tid, thread.name, waits_in, is_complete, frames, runs_in))
    return sorted(stacks, key=lambda stack: (stack.tid != capture.pid, stack.tid))


def _newest_leaves(capture: Capture) -> dict[int, tuple[int, int] | None]:
    """Thread that has not exited → node and system call (-1 for none) of its newest stack."""
    from flametap.stacks import UNATTRIBUTED

    timeline = capture.profile.timelines(Clock.WALL)
    newest: dict[int, tuple[int, int] | None] = {}
    for thread_id, thread in capture.profile.threads.items():
        if thread.exited:
            continue
        newest[thread_id] = None
        for leaves in timeline(thread_id):
            for node, sysno in zip(leaves.node.tolist(), leaves.sysno.tolist(), strict=True):
                if node != UNATTRIBUTED:
                    newest[thread_id] = node, sysno
    return newest


def as_plain_text(pid: int, command: str, stacks: list[ThreadStack]) -> str:
    """For people."""
    lines = [f"process {pid}: {command}"]
    for stack in stacks:
        does = f"waits in {stack.waits_in}" if stack.waits_in else "runs"
        if stack.runs_in:
            does = f"runs in {stack.runs_in}"
        if not stack.frames:
            does = "was not seen"
        lines += ["", f'thread {stack.tid} "{stack.name}" {does}']
        for frame in stack.frames:
            lines.append("    " + _frame_text(frame))
        if stack.frames and not stack.is_complete:
            lines.append("    … the rest could not be unwound")
    return "\n".join(lines)


def _frame_text(frame: Frame) -> str:
    function = frame.function
    place = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    module = f" ({function.module})" if function.module else ""
    if function.kind is FrameKind.UNKNOWN:
        module = ""  # the name says it already
    marked = function.kind in (FrameKind.INLINED, FrameKind.TAIL_CALL)
    mark = f" [{function.kind.value}]" if marked else ""
    return f"{function.name}{module}{place}{mark}"


def as_json_text(pid: int, command: str, stacks: list[ThreadStack]) -> str:
    """For programs: pid, command, threads; of each its frames, leaf first.

    ``waits_in`` is null for a thread that runs, ``runs_in`` unless it runs in the kernel; a frame
    is ``{name, module, file, line, function_file, kind}`` with line 0 and files "" if not known.
    A line may be in another file than its function: code taken in by #include.
    """
    threads: list[dict[str, Any]] = [
        {
            "tid": stack.tid,
            "name": stack.name,
            "waits_in": stack.waits_in or None,
            "runs_in": stack.runs_in or None,
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
    return json.dumps({"pid": pid, "command": command, "threads": threads}, indent=1)
