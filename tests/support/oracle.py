"""Stacks as others see them, at moments when they can be compared with ours.

A moment: the agent looks at a process for some rounds; then SIGSTOP stops it (inside the kernel:
what waits keeps its registers and its stack), and eu-stack or gdb walks its threads. Only threads
that slept all the time count: their context switches did not move, but for the one into the stop,
and they still stand at the same system call, sp and pc.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flametap.capture.live import Capture
from flametap.model import Clock
from flametap.wire.ring import Ring
from running import wait_until

Stack = tuple[int, ...]  # runtime addresses, leaf first; callers as call sites (address - 1)
ROUNDS = 3  # of the agent: at least one began and ended within
ROUNDS_S = 30.0  # compiling the unwind information of a large program takes seconds under load
STOPPED_S = 60.0
END_NS = 100_000  # of a moment: what holds then
EU_STACK_FRAME = re.compile(r"#\d+\s+0x([0-9a-f]+)( - 1)?")


def eu_stack(pid: int) -> dict[int, Stack]:
    """tid → what eu-stack sees.

    ``eu-stack -a`` shows return addresses and marks them with "- 1"; the leaf and what a signal
    interrupted have no mark (elfutils src/stack.c).
    """
    command = ["eu-stack", "-q", "-a", "-n", "0", "-p", str(pid)]
    # Names are bytes of the target.
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    stacks: dict[int, list[int]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("TID "):
            stack = stacks.setdefault(int(line[4:].rstrip(":")), [])
        elif frame := EU_STACK_FRAME.match(line):
            stack.append(int(frame[1], 16) - bool(frame[2]))
    return {tid: tuple(stack) for tid, stack in stacks.items()}


_GDB_SCRIPT = """
import gdb
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry off")
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, found, previous = gdb.newest_frame(), [], None
    while frame is not None:
        if frame.type() != gdb.INLINE_FRAME:
            # After a call the frame stands at the return address; after a signal it does not.
            called = previous is not None and previous != gdb.SIGTRAMP_FRAME
            found.append(hex(frame.pc() - called))
            previous = frame.type()
        frame = frame.older()
    print("STACK", thread.ptid[1], *found)
"""


def gdb(pid: int) -> dict[int, Stack]:
    """tid → what gdb sees."""
    setup = ["-ex", "set debuginfod enabled off", "-ex", "set auto-load no"]
    command = [
        "gdb",
        "-nx",
        "-batch",
        *setup,
        "-p",
        str(pid),
        "-ex",
        f"python exec({_GDB_SCRIPT!r})",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("STACK ")]
    return {int(tid): tuple(int(a, 16) for a in stack) for _, tid, *stack in lines}


@dataclass(frozen=True)
class Moment:
    """What others saw of the threads that slept, up to ``t_ns`` (CLOCK_MONOTONIC) and on."""

    t_ns: int
    stacks: dict[int, Stack]


def _rest(pid: int) -> dict[int, tuple[int, int, str]]:
    """tid → (voluntary, other context switches, line of /proc/PID/task/TID/syscall)."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status, line = (task / "status").read_text(), (task / "syscall").read_text()
        except OSError:  # it has just ended
            continue
        counts = dict(re.findall(r"^(\w*voluntary)_ctxt_switches:\s+(\d+)$", status, re.MULTILINE))
        found[int(task.name)] = int(counts["voluntary"]), int(counts["nonvoluntary"]), line
    return found


def _all_stopped(pid: int) -> bool:
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return set(states) <= {"T", "Z", "X"}


def _let_look(ring: Ring) -> None:
    rounds = ring.counters()["ticks"] + ROUNDS
    wait_until(lambda: ring.counters()["ticks"] >= rounds, "the agent to look", ROUNDS_S)


def take_moment(capture: Capture, look: Callable[[int], dict[int, Stack]] = eu_stack) -> Moment:
    """Let the agent look, stop the process, look at it, let it go on."""
    ring, pid = capture.session.ring, capture.pid
    assert ring is not None
    before = _rest(pid)
    _let_look(ring)
    t1_ns = time.monotonic_ns()
    _let_look(ring)  # a look stands for the time since the one before: t1 needs one behind it, too
    after = _rest(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _all_stopped(pid), "all threads to stop", STOPPED_S)
        stopped = _rest(pid)
        seen = look(pid)
    finally:
        os.kill(pid, signal.SIGCONT)
    resting = {
        tid
        for tid, (voluntary, others, line) in after.items()
        if before.get(tid) == after[tid]
        and stopped.get(tid) == (voluntary + 1, others, line)
        and line[:1].isdigit()
    }
    return Moment(t1_ns, {tid: stack for tid, stack in seen.items() if tid in resting})


@dataclass
class Comparison:
    """How many parked stacks agreed, and how the others differ."""

    compared: int = 0
    unseen: int = 0  # the agent had not looked in time
    lost: int = 0  # they have no frame, or one in memory that is no code: a walk gone astray
    distinct: set[Stack] = field(default_factory=set)
    differing: list[tuple[int, Stack, Stack]] = field(default_factory=list)  # tid, theirs, ours

    @property
    def share(self) -> float:
        """The part of the stacks that agree; 0 when there are none."""
        return 1 - len(self.differing) / self.compared if self.compared else 0.0


def compare(capture: Capture, moments: list[Moment], maps: str) -> Comparison:
    """What the capture holds of the moments, thread by thread; ``maps`` as read while it lived."""
    result = Comparison()
    code = [(start, end) for start, end, perms, _ in _mappings(maps) if "x" in perms]
    timelines = _timelines(capture)
    for moment in moments:
        for tid, theirs in moment.stacks.items():
            if tid not in timelines:  # Frida's or the agent's own
                continue
            ours = timelines[tid](moment.t_ns)
            if ours is None:
                result.unseen += 1
                continue
            is_code = all(any(start <= a < end for start, end in code) for a in theirs)
            if not theirs or not is_code:
                result.lost += 1
                continue
            result.compared += 1
            result.distinct.add(theirs)
            if ours != theirs:
                result.differing.append((tid, theirs, ours))
    return result


def _timelines(capture: Capture) -> dict[int, Callable[[int], Stack | None]]:
    """tid → the parked stack that held at a time; None if there was none."""
    profile = capture.profile
    trie, modules = profile.trie(), profile.modules
    known: dict[int, Stack] = {}

    def stack_of(node: int) -> Stack:
        if node not in known:
            addresses, at = [], node
            while at > 0:
                frame, _ = profile.locate(int(trie.address[at]))
                module = modules.get(frame.module_id)  # none outside files; Frida's agent has none
                addresses.append((module.load_bias if module else 0) + frame.addr)
                at = int(trie.parent[at])
            known[node] = tuple(addresses)
        return known[node]

    def of_thread(thread_id: int) -> Callable[[int], Stack | None]:
        def held(t_ns: int) -> Stack | None:
            one = frozenset({thread_id})
            leaves = profile.leaf_weights(Clock.WALL, one, t_ns - END_NS, t_ns)
            rows = {
                (node, sysno)
                for node, sysno, weight in zip(
                    leaves.node.tolist(), leaves.sysno.tolist(), leaves.weight.tolist(), strict=True
                )
                if weight
            }
            if len(rows) != 1:
                return None
            ((node, sysno),) = rows
            # Before the first look it has no stack.
            return stack_of(node) or None if sysno >= 0 else None

        return held

    return {t.tid: of_thread(t.thread_id) for t in profile.threads.values()}


def _mappings(maps: str) -> list[tuple[int, int, str, str]]:
    """Start, end, permissions and file name of each line of /proc/PID/maps."""
    found = []
    for line in maps.splitlines():
        span, perms, _, _, _, *name = line.split(maxsplit=5)
        start, _, end = span.partition("-")
        found.append((int(start, 16), int(end, 16), perms, "".join(name).rpartition("/")[2]))
    return found


def describe(pid: int, difference: tuple[int, Stack, Stack], maps: str) -> str:
    """A difference as text, from where the stacks part; ``maps`` as read while it lived."""
    tid, theirs, ours = difference
    same = next((i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), None)
    same = min(len(theirs), len(ours)) if same is None else same
    ranges = _mappings(maps)
    starts = [start for start, *_ in ranges]

    def named(stack: Stack) -> str:
        texts = []
        for address in stack[max(0, same - 1) :][:8]:
            at = bisect_right(starts, address) - 1
            inside = at >= 0 and address < ranges[at][1]
            texts.append(f"{address:#x} {ranges[at][3] or 'anonymous' if inside else '?'}")
        return ", ".join(texts) + f" ({len(stack)} frames)"

    return (
        f"process {pid} thread {tid} from frame {same}: theirs {named(theirs)}; ours {named(ours)}"
    )
