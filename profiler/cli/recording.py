"""Shared by ``record`` and ``live``: watch a capture, name functions, save files, summarise."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..errors import NoSamplesError, OutputError, UsageError
from ..model import Clock, Status
from ..recording.cost import Certificate
from ..recording.figures import weight_name
from .heaviest import heaviest_lines, nameless_lines
from .keeping import finish_kept, is_kept
from .output_options import OutputOptions
from .outputs import STDOUT, Output
from .progress import Progress, recording_line
from .python_lines import collector_lines, gil_lines
from .signals import EXIT_CODE, Interrupts, not_suspended

if TYPE_CHECKING:
    from ..code.annotation import SymbolReport
    from ..export.request import Shaping
    from ..recording.recording import Recording
    from .far import AnyCapture

POLL_S = 0.1
LINE_INTERVAL_S = 0.25  # people read no faster
NO_PYTHON = (
    "no functions of Python, Java, JavaScript or Ruby were recorded: all stacks are one frame"
)


def watch(
    capture: AnyCapture,
    interrupts: Interrupts,
    progress: Progress,
    limit_s: float | None,
    outputs: Sequence[Output] = (),
    look: Callable[[], None] = lambda: None,
) -> None:
    """Show progress until the first signal, the end of the target, or ``limit_s`` seconds.

    Meanwhile import what writes ``outputs``, and call ``look`` ten times a second.
    """
    begin_s = time.monotonic()
    threading.Thread(target=_load, args=(outputs,), daemon=True).start()
    next_line_s = begin_s
    keeper, was_warned = capture.keeper, False
    while not interrupts.stop:
        now_s = time.monotonic()
        if limit_s is not None and now_s - begin_s >= limit_s:
            return
        if now_s >= next_line_s and progress.wants_step:
            next_line_s = now_s + LINE_INTERVAL_S
            threads = sum(not thread.exited for thread in capture.profile.thread_infos())
            progress.step(recording_line(capture.status(), threads, now_s - begin_s, limit_s))
        look()
        if keeper is not None and keeper.error is not None and not was_warned:
            was_warned = True
            progress.warn(f"{keeper.error.message}; {keeper.error.hint}")
        left_s = POLL_S if limit_s is None else min(POLL_S, limit_s - (now_s - begin_s))
        if capture.wait(max(left_s, 0.0)):
            return


def finish(
    capture: AnyCapture,
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
    is_left_behind = what.has_page and not progress.is_quiet  # ``keeping_for_page``
    is_kept_at_all = bool(outputs) or is_left_behind or what.push is not None
    was_cut = is_kept_at_all and _name(capture, interrupts, asked, progress)
    status = capture.status()
    for note in status.notes:
        progress.warn(note)
    from ..recording.summary import summary

    recording = capture.recording
    lines = [*summary(recording, what.waiting_is_shown_by), *gil_lines(recording)]
    certificate = Certificate.of(status)
    is_empty = not recording.profile.total_ns(Clock.WALL)
    if any(is_empty or not is_kept(each) for each in outputs):
        refuse_empty(recording, what)
        if what.shown.language == "python" and not status.languages:
            progress.warn(NO_PYTHON)
    problems: list[OutputError] = []
    writers: list[Callable[[], None]] = [
        partial(finish_kept, capture, each, progress)
        if is_kept(each)
        else partial(_write, recording, each, what, progress)
        for each in sorted(outputs, key=is_kept, reverse=True)
    ]
    for write in writers:
        try:
            write()
        except OutputError as error:
            problems.append(error)  # the others are written all the same
    if problems:
        raise problems[0]
    for line in (*lines, *certificate.lines()):
        progress.say(line)
    from ..analysis.views import views_of

    if outputs and not what.has_page and not progress.is_quiet:
        tree = views_of(recording).tree(what.selection(recording))
        for line in (
            *collector_lines(tree, what.clock),
            *heaviest_lines(tree, what.clock),
            *nameless_lines(tree, capture.pid),
        ):
            progress.say(line)
    if verbose:
        report = views_of(recording).symbols(what.selection(recording))
        for line in symbol_lines(report, what.clock):
            progress.say(line)
    return EXIT_CODE if was_cut else 0


def write_outputs(
    recording: Recording, outputs: Sequence[Output], what: OutputOptions, progress: Progress
) -> None:
    """Write files of a recording that has ended.

    Raises:
        NoSamplesError: there is nothing to write.
        UsageError: the shape means nothing.
        OutputError: a file cannot be written.
    """
    refuse_empty(recording, what)
    shaping = None
    if what.shape:
        from ..analysis.views import views_of
        from ..export.shaping import shaping_of

        tree = views_of(recording).tree(what.selection(recording))
        shaping = shaping_of(recording, what.shape, tree)
    for note in recording.status().notes:
        progress.warn(note)
    for output in outputs:
        _write(recording, output, what, progress, shaping)


def _load(outputs: Sequence[Output]) -> None:
    from ..export import load

    with contextlib.suppress(ImportError):  # told when it is written
        for output in outputs:
            if not is_kept(output):
                load(output.format)


def _name(capture: AnyCapture, interrupts: Interrupts, asked: int, progress: Progress) -> bool:
    """Wait for all names. Return True if more signals than ``asked`` ended the wait."""
    while not capture.finish_symbols(POLL_S):
        if interrupts.count > asked:
            progress.warn("saving without the names that are still missing")
            return True
        progress.step(f"{capture.what_is_left()} (Ctrl-C saves without them)")
    return False


def refuse_empty(recording: Recording, what: OutputOptions) -> None:
    """Check that a recording has something of what the user asked for.

    Raises:
        NoSamplesError: it has nothing.
    """
    thread_ids = what.thread_ids(recording)
    profile, only_gil = recording.profile, what.shown.only_gil
    status = recording.status()
    pid = status.pid
    _refuse_unknown(status, what)
    between_ns = what.selection(recording).between(profile.start_ns, profile.now_ns)
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
            what_is = f"no thread of process {pid} held a GIL while it was recorded"
            raise NoSamplesError(what_is, "leave out --gil")
        raise NoSamplesError(
            f"no thread held the GIL in the {what.clock.value} time that was recorded",
            "leave out --gil, or record for longer: -d 10",
        )
    if thread_ids is not None and not thread_ids:
        names = ", ".join(sorted({thread.name for thread in profile.thread_infos()})[:8])
        raise NoSamplesError(
            "no thread matches --tid or --thread", f"the threads are called {names}"
        )
    if what.clock is Clock.CPU and profile.total_ns(Clock.WALL) > 0:
        raise NoSamplesError(
            f"process {pid} used no CPU time while it was recorded",
            f"{what.waiting_is_shown_by} shows where its threads wait",
        )
    what_is = f"nothing of process {pid} was recorded"
    if status.reason and status.reason != "stopped":
        raise NoSamplesError(
            f"{what_is}: {status.reason}", "what runs for less than some milliseconds is not seen"
        )
    raise NoSamplesError(what_is, "record for longer: -d 10")


def _refuse_unknown(status: Status, what: OutputOptions) -> None:
    """Check that a file of another profiler knows what the user asks for.

    Raises:
        NoSamplesError: it does not have the clock.
        UsageError: it does not know when its stacks were seen.
    """
    if what.span_s and not status.has_moments:
        raise UsageError("the file does not say when its stacks were seen", "leave out --range")
    # All clocks of a file that has one are the same; the CPU clock is what nobody has chosen.
    clock = status.shown_clock(what.clock) if what.clock is Clock.CPU else what.clock
    if not status.has_clock(clock):
        hint = f"choose a clock that it has: --clock {status.clocks[0]}"
        raise NoSamplesError(f"the file has no {what.clock.value} time", hint)


def _write(
    recording: Recording,
    output: Output,
    what: OutputOptions,
    progress: Progress,
    shaping: Shaping | None = None,
) -> None:
    from ..export import write_file
    from ..export.request import ExportRequest

    request = ExportRequest(
        recording,
        what.selection(recording),
        unit=what.unit,
        by_line=what.shown.by_line,
        full_filenames=what.shown.full_filenames,
        shaping=shaping,
    )

    def write(path: str) -> None:
        progress.step(f"writing {path}")
        write_file(path, output.format, request)

    status = recording.status()
    path = output.path_for(status.program, status.pid, time.time())
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
        progress.say(f"wrote {path} ({output.format}, {weight_name(status, what.clock)})")


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
