"""Shared by ``record`` and ``live``: watch a capture, name functions, save files, summarise."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..capture.cost import Certificate
from ..capture.figures import counted
from ..errors import NoSamplesError, OutputError
from ..model import Clock, ManagedVerdict, Status, ThreadInfo, Verdict
from .frame_options import ALL_FRAMES, FrameOptions
from .heaviest import heaviest_lines, nameless_lines
from .keeping import finish_kept, is_kept
from .outputs import STDOUT, Output
from .progress import Progress, duration, loss_lines, recording_line
from .python_lines import collector_lines, gil_lines
from .signals import EXIT_CODE, Interrupts, not_suspended
from .targets import shorten

if TYPE_CHECKING:
    from ..analysis.annotation import SymbolReport
    from ..analysis.selection import Selection
    from ..capture.live import Capture
    from ..export.request import ExportRequest

POLL_S = 0.1
TITLE_CHARACTERS = 80  # of the command
LINE_INTERVAL_S = 0.25  # people read no faster
# Of one core: below it, the figures of the CPU clock rest on a handful of samples.
IDLE_SHARE = 0.01
SHARE_SHOWN = 0.0005  # less would be printed as 0.0%
NO_PYTHON = (
    "no functions of Python, Java, JavaScript or Ruby were recorded: all stacks are one frame"
)
NO_FILE = "code outside of any file (JIT)"
# Why a stack is not complete, in the words of the summary.
CUT_BY = {
    Verdict.SCANNED: "with a caller that is only likely ([guessed])",
    Verdict.TRUNCATED_DEPTH: "deeper than the limit",
    Verdict.NO_UNWIND_INFO: "code without unwind information",
    Verdict.BAD_MEMORY: "stack memory that could not be unwound",
    Verdict.UNSUPPORTED_RULE: "an unsupported unwind rule",
    Verdict.NO_STACK: "without a stack",
}
# Why Python functions are missing in a stack, or above the wrong native function.
PYTHON_CUT_BY = {
    ManagedVerdict.TORN: "read while they changed",
    ManagedVerdict.MISPLACED: "perhaps below the wrong native functions",
    ManagedVerdict.DEPTH: "deeper than the limit",
}


@dataclass(frozen=True)
class OutputOptions:
    """Which part of the recording goes into the files."""

    clock: Clock = Clock.CPU
    by_thread: bool = False  # a root frame for each thread
    unit: str = "time"  # or "samples"
    tids: tuple[int, ...] = ()
    thread_name: re.Pattern[str] | None = None
    shown: FrameOptions = ALL_FRAMES
    span_s: tuple[float, float | None] | None = None  # only from, to (None: the end); None for all
    has_page: bool = False  # the page shows every clock, so there is no --clock to choose one

    @property
    def waiting_is_shown_by(self) -> str:
        """The clock that shows what a sleeping process waits for; "" if it is chosen already."""
        if self.has_page:
            return "the wall clock of the page"
        return "--clock wall" if self.clock is Clock.CPU else ""

    def thread_ids(self, capture: Capture) -> frozenset[int] | None:
        """Return the ids of the selected threads; None for all."""
        if not self.tids and self.thread_name is None:
            return None
        return frozenset(
            thread.thread_id
            for thread in capture.threads()
            if thread.tid in self.tids
            or (self.thread_name is not None and self.thread_name.search(thread.name))
        )

    def selection(self, capture: Capture) -> Selection:
        """Return the same for what counts weights."""
        from ..analysis.selection import Selection, Span

        span = None
        if self.span_s is not None:
            start_s, end_s = self.span_s
            span = Span(round(start_s * 1e9), None if end_s is None else round(end_s * 1e9))
        return Selection(self.clock, self.thread_ids(capture), self.shown.frames, span)


def watch(
    capture: Capture,
    interrupts: Interrupts,
    progress: Progress,
    limit_s: float | None,
    outputs: Sequence[Output] = (),
) -> None:
    """Show progress until the first signal, the end of the target, or ``limit_s`` seconds.

    Meanwhile import what writes ``outputs``.
    """
    begin_s = time.monotonic()
    threading.Thread(target=_load, args=(outputs,), daemon=True).start()
    next_line_s = begin_s
    while not interrupts.stop:
        now_s = time.monotonic()
        if limit_s is not None and now_s - begin_s >= limit_s:
            return
        if now_s >= next_line_s and progress.wants_step:
            next_line_s = now_s + LINE_INTERVAL_S
            threads = sum(not thread.exited for thread in capture.threads())
            progress.step(recording_line(capture.status(), threads, now_s - begin_s, limit_s))
        left_s = POLL_S if limit_s is None else min(POLL_S, limit_s - (now_s - begin_s))
        if capture.wait(max(left_s, 0.0)):
            return


def finish(
    capture: Capture,
    outputs: Sequence[Output],
    what: OutputOptions,
    interrupts: Interrupts,
    progress: Progress,
    *,
    verbose: bool = False,
) -> int:
    """Detach, name the functions, write the files, and print the summary.

    A signal while functions are named saves at once, with the names found so far.

    Returns:
        The exit code: 0, or 130 if a signal cut the naming short.

    Raises:
        NoSamplesError: there is nothing to write.
        OutputError: a file cannot be written.
    """
    asked = min(interrupts.count, 1)  # 1 if a signal ended the recording
    progress.step(f"detaching from {capture.pid}")
    with not_suspended():
        capture.stop()
    ended = capture.status().reason
    if not interrupts.stop and ended and ended != "stopped":
        progress.say(f"{ended}; the recording ends with it")
    was_cut = bool(outputs) and _name(capture, interrupts, asked, progress)
    status = capture.status()
    for note in status.notes:
        progress.warn(note)
    lines = summary(status, capture.profile.total_ns(Clock.CPU), capture.threads(), what)
    lines += gil_lines(capture)
    certificate = Certificate.of(status)
    if any(not is_kept(each) for each in outputs):
        _refuse_empty(capture, what)
        if what.shown.language == "python" and not status.languages:
            progress.warn(NO_PYTHON)
    problems: list[OutputError] = []
    writers: list[Callable[[], None]] = [partial(finish_kept, capture, progress)]
    for each in outputs:
        if not is_kept(each):
            notes = [*lines, *status.notes]
            writers.append(partial(_write, capture, each, what, notes, status, progress))
    for write in writers:
        try:
            write()
        except OutputError as error:
            problems.append(error)  # the others are written all the same
    if problems:
        raise problems[0]
    for line in (*lines, *certificate.lines()):
        progress.say(line)
    if outputs and not what.has_page and not progress.is_quiet:
        tree = capture.tree(what.selection(capture))
        for line in (
            *collector_lines(tree, what.clock),
            *heaviest_lines(tree, what.clock),
            *nameless_lines(tree, capture.pid),
        ):
            progress.say(line)
    if verbose:
        report = capture.symbols(what.selection(capture))
        for line in symbol_lines(report, what.clock):
            progress.say(line)
    return EXIT_CODE if was_cut else 0


def write_outputs(
    opened: Capture, outputs: Sequence[Output], what: OutputOptions, progress: Progress
) -> None:
    """Write files of a recording that has ended.

    Raises:
        NoSamplesError: there is nothing to write.
        OutputError: a file cannot be written.
    """
    _refuse_empty(opened, what)
    status = opened.status()
    for note in status.notes:
        progress.warn(note)
    lines = summary(status, opened.profile.total_ns(Clock.CPU), opened.threads(), what)
    for output in outputs:
        _write(opened, output, what, [*lines, *status.notes], status, progress)


def _load(outputs: Sequence[Output]) -> None:
    from ..export import load

    with contextlib.suppress(ImportError):  # told when it is written
        for output in outputs:
            if not is_kept(output):
                load(output.format)


def _name(capture: Capture, interrupts: Interrupts, asked: int, progress: Progress) -> bool:
    """Wait for all names. Return True if more signals than ``asked`` ended the wait."""
    while not capture.finish_symbols(POLL_S):
        if interrupts.count > asked:
            progress.warn("saving without the names that are still missing")
            return True
        pending = capture.status().symbols_pending
        left = f"{pending:,} addresses" if pending else "call graphs and notes"
        progress.step(f"naming functions, {left} left (Ctrl-C saves without them)")
    return False


def _title(capture: Capture) -> str:
    """Name a recording; a class path alone may be 12 kB."""
    return f"{shorten(capture.command, TITLE_CHARACTERS)} ({capture.pid})"


def page_exports(capture: Capture) -> Callable[[Selection], ExportRequest]:
    """Return what makes requests for exports of the parts of a recording that a page shows."""
    from ..export.request import ExportRequest

    def request_of(selection: Selection) -> ExportRequest:
        status, threads = capture.status(), capture.threads()
        what = OutputOptions(clock=selection.clock, has_page=True)
        lines = summary(status, capture.profile.total_ns(Clock.CPU), threads, what)
        return ExportRequest(
            capture.profile,
            capture.table,
            selection,
            title=_title(capture),
            notes=[*lines, *status.notes],
            cost=Certificate.of(status).as_json(),
            status=status,
            views=capture,
        )

    return request_of


def _refuse_empty(capture: Capture, what: OutputOptions) -> None:
    thread_ids = what.thread_ids(capture)
    profile, only_gil = capture.profile, what.shown.only_gil
    between_ns = what.selection(capture).between(profile.start_ns, profile.now_ns)
    if profile.leaf_weights(what.clock, thread_ids, *between_ns, holding=only_gil).total > 0:
        return
    if what.span_s and profile.leaf_weights(what.clock, thread_ids, holding=only_gil).total > 0:
        raise NoSamplesError(
            f"the recording of {profile.duration_ns / 1e9:.1f} s has no {what.clock.value} time in "
            "that --range",
            "give it in seconds since the start of the recording, or leave it out",
        )
    if only_gil and profile.leaf_weights(what.clock, thread_ids).total > 0:
        if not profile.has_lock:
            what_is = f"no thread of process {capture.pid} held a GIL while it was recorded"
            raise NoSamplesError(what_is, "leave out --gil")
        raise NoSamplesError(
            f"no thread held the GIL in the {what.clock.value} time that was recorded",
            "leave out --gil, or record for longer: -d 10",
        )
    if thread_ids is not None and not thread_ids:
        names = ", ".join(sorted({thread.name for thread in capture.threads()})[:8])
        raise NoSamplesError(
            "no thread matches --tid or --thread", f"the threads are called {names}"
        )
    if what.clock is Clock.CPU and capture.profile.total_ns(Clock.WALL) > 0:
        raise NoSamplesError(
            f"process {capture.pid} used no CPU time while it was recorded",
            f"{what.waiting_is_shown_by} shows where its threads wait",
        )
    raise NoSamplesError(
        f"nothing of process {capture.pid} was recorded", "record for longer: -d 10"
    )


def _write(
    capture: Capture,
    output: Output,
    what: OutputOptions,
    notes: Sequence[str],
    status: Status,
    progress: Progress,
) -> None:
    from ..export import write_file
    from ..export.request import ExportRequest

    request = ExportRequest(
        capture.profile,
        capture.table,
        what.selection(capture),
        by_thread=what.by_thread,
        unit=what.unit,
        by_line=what.shown.by_line,
        full_filenames=what.shown.full_filenames,
        title=_title(capture),
        notes=notes,
        cost=Certificate.of(status).as_json(),
        status=status,
        views=capture,
    )

    def write(path: str) -> None:
        progress.step(f"writing {path}")
        write_file(path, output.format, request)

    path = output.path_for(capture.pid, time.time())
    try:
        write(path)
    except OutputError as error:
        if output.path == STDOUT:
            raise
        # In a shared folder, another user may have taken the name since it was checked.
        other = f"{path}.{os.urandom(4).hex()}"
        try:
            write(other)
        except OutputError:
            raise error from None
        raise OutputError(error.message, f"the recording is in {other}") from error
    if output.path != STDOUT:
        progress.say(f"wrote {path} ({output.format}, {what.clock.value} time)")


def summary(
    status: Status, cpu_ns: int, threads: Sequence[ThreadInfo], what: OutputOptions
) -> list[str]:
    """Format the summary: what was recorded, how many stacks are complete, what was lost.

    Args:
        status: at the end of the recording.
        cpu_ns: CPU time of all threads.
        threads: all that were seen.
        what: the part that the user asked for.

    Returns:
        Lines without a full stop.
    """
    # CPU shares rest on the samples of running threads only.
    ran = min(status.counters.get("signals_handled", 0), status.samples)
    lines = [
        f"recorded {duration(status.recorded_ns / 1e9)} of {counted(len(threads), 'thread')}: "
        f"{duration(cpu_ns / 1e9)} of CPU time in {counted(ran, 'sample')}"
    ]
    if looks := status.samples - ran:
        lines[0] += f", and {counted(looks, 'look')} at sleeping threads"
    if cpu_ns < IDLE_SHARE * status.recorded_ns:
        where = what.waiting_is_shown_by
        lines.append("it slept nearly all the time" + (f": {where} shows where" if where else ""))
        return lines + loss_lines(status)
    total_ns = sum(status.verdict_cpu_ns.values())
    cut = {
        verdict: status.verdict_cpu_ns.get(verdict.name, 0) / total_ns
        for verdict in Verdict
        if total_ns and not verdict.is_complete
    }
    if sum(cut.values()) >= SHARE_SHOWN:
        whole = 1 - sum(cut.values())
        reasons = [
            f"{share:.1%} {CUT_BY[verdict]}"
            for verdict, share in cut.items()
            if share >= SHARE_SHOWN
        ]
        lines.append(f"{whole:.1%} of it in complete stacks; the rest: {', '.join(reasons)}")
    lines += _python_lines(status)
    blocking = [thread.name for thread in threads if thread.signals_blocked]
    if blocking and cut.get(Verdict.NO_STACK, 0) >= SHARE_SHOWN:
        names = ", ".join(sorted(set(blocking))[:5])
        lines.append(
            f"{counted(len(blocking), 'thread')} blocked our signal and could be sampled only "
            f"while waiting: {names}"
        )
    if status.verdict_modules:
        modules = [module or NO_FILE for module in status.verdict_modules][:5]
        lines.append(f"stacks were cut in: {', '.join(modules)}")
    return lines + loss_lines(status)


def _python_lines(status: Status) -> list[str]:
    """Say how much time of interpreted programs lacks functions; nothing if it is little."""
    total_ns = sum(status.managed_verdict_cpu_ns.values())
    cut = {
        why: status.managed_verdict_cpu_ns.get(verdict.name, 0) / max(total_ns, 1)
        for verdict, why in PYTHON_CUT_BY.items()
    }
    if sum(cut.values()) < SHARE_SHOWN:
        return []
    reasons = [f"{share:.1%} {why}" for why, share in cut.items() if share >= SHARE_SHOWN]
    language = " and ".join(status.languages) or "interpreted"
    return [
        f"{1 - sum(cut.values()):.1%} of the {language} time has all its {language} functions; "
        f"the rest: {', '.join(reasons)}"
    ]


def symbol_lines(report: SymbolReport, clock: Clock) -> list[str]:
    """Format, for each module, the source of its names and the share of the time that has them."""
    lines = []
    for each in report.modules:
        share, line = each.share, f"symbols of {each.source.module}: {each.source.source}"
        if share.self_ns:
            line += f", {share.self_ns / report.total_ns:.1%} of the {clock.value} time"
            line += f", {share.named_ns / share.self_ns:.1%} of that with function names"
            line += f", {share.lined_ns / share.self_ns:.1%} with lines"
        lines.append(f"{line} ({each.source.note})" if each.source.note else line)
    return lines
