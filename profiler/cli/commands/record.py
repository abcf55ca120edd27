"""``flametap record``: sample to files."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...device.connect import Where
from ...errors import FlametapError, NoSamplesError, TargetDiedError, UsageError
from ...model import Clock
from .. import device, far, start
from ..attach_options import AttachOptions
from ..containers import Containers, container_options
from ..device import device_options
from ..keeping import SaveRequests, is_kept, keeping
from ..option_values import by, parse_duration_s
from ..options import (
    children_option,
    duration_option,
    name_option,
    no_sources_option,
    output_options,
    pid_option,
    sampling_options,
    verbosity_options,
    verify_option,
    via_option,
)
from ..output_options import OutputOptions, shown_options
from ..outputs import DEFAULT_OUTPUT, Output, plan
from ..progress import Progress
from ..pushing import check_push, parsed, push_options, pushing
from ..recording import POLL_S, finish, watch
from ..signals import EXIT_CODE, Interrupted, Interrupts, leave
from ..targets import LIST_THEM, find_targets, is_name
from ..verify import verified

if TYPE_CHECKING:
    from ...capture.launch import Launched
    from ...capture.live import Capture
    from ..far import AnyCapture


PROGRAM = "flametap.program"  # key in the context's meta for the words after --


class WithProgram(click.Command):
    """A command that separates its own words from the program after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the program in the context and parse the rest."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[PROGRAM] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=WithProgram, short_help="Sample a process to files.")
@click.argument("words", nargs=-1, metavar="[PID... | NAME | -- CMD [ARGS]...]")
@pid_option
@name_option
@container_options
@duration_option("How long to record: seconds, or 500ms, 2m, 1h. Without it, until Ctrl-C.")
@output_options(
    "The file to write; may be given several times. - is stdout; in the name, %n is the program, "
    f"%p the process id, %t the time.  [default: {DEFAULT_OUTPUT}]",
    "Format of the file: flametap (the whole recording, for `flametap open`), html, svg,"
    " speedscope, firefox, pprof, sqlite, folded, chrome (a trace), cpuprofile (V8's), perf-script,"
    " jsonl or markdown (a summary). Without it, the file's name decides.",
)
@click.option(
    "-i",
    "--idle",
    is_flag=True,
    help="Include threads that wait; the same as --clock wall.",
)
@click.option(
    "--unit",
    type=click.Choice(["time", "samples"]),
    default="time",
    show_default=True,
    help="The number after each folded stack: its time in microseconds, or its samples.",
)
@shown_options(files=True)
@no_sources_option
@click.option(
    "--keep",
    "keep_s",
    metavar="TIME",
    callback=by(parse_duration_s),
    help="Keep only the last TIME (10m, 1h) of the recording, on disk, and write it at the end,"
    " when the process dies, and when `flametap save PID` or SIGUSR1 asks for it.",
)
@push_options
@children_option
@via_option
@device_options
@sampling_options
@verify_option
@verbosity_options
@click.pass_context
def record(
    ctx: click.Context,
    words: tuple[str, ...],
    pid_option: int | None,
    pattern: re.Pattern[str] | None,
    containers: Containers,
    where: Where,
    duration: float | None,
    outputs: tuple[str, ...],
    formats: tuple[str, ...],
    idle: bool,
    unit: str,
    shown: OutputOptions,
    with_sources: bool,
    keep_s: float | None,
    push: str | None,
    labels: tuple[str, ...],
    how: AttachOptions,
    quiet: bool,
) -> int:
    """Sample running processes, or start CMD and sample it from its first instruction.

    The recording ends after --duration, when the process exits, or with Ctrl-C; then it is saved.
    If CMD was started, the exit code is that of CMD.

    \b
        flametap record 1234 -d 10 -o out.folded -o out.speedscope.json
        flametap record -o out.folded -- ./server --port 80
        flametap record --name 'gunicorn: worker' -d 10
    """
    if idle and shown.clock is Clock.OFF_CPU:
        raise UsageError("-i and --clock off-cpu contradict each other", "leave one of them out")
    if shown.span_s is not None and unit == "samples":
        raise UsageError(
            "--range and --unit samples contradict each other",
            "the time of single samples is not kept; leave one of them out",
        )
    server = check_push(push, labels)
    planned = plan(outputs or (() if server else (DEFAULT_OUTPUT,)), formats)
    what = replace(
        shown,
        clock=Clock.WALL if idle else shown.clock,
        unit=unit,
        with_sources=with_sources,
        keep_s=keep_s,
        push=server,
        labels=parsed(labels),
    )
    if keep_s is not None and not any(map(is_kept, planned)):
        raise UsageError("--keep is for recordings, and no output is one", "-o NAME.flametap")
    progress = Progress(quiet=quiet)
    named, command = _split_words(words, ctx.meta.get(PROGRAM))
    how = containers.followed(how)
    if command and (named or pid_option is not None or pattern or containers):
        raise UsageError("both a process and a command are named", "name one of them")
    if where:
        device.refuse(where, command or how.via, pattern, containers)

        def on_device(_: Interrupts) -> contextlib.AbstractContextManager[AnyCapture]:
            return device.prepared(where, named, pid_option, how, progress)

        return _record_processes(on_device, None, duration, planned, what, how, progress)
    if how.via:
        if command:
            raise UsageError("with --via, a command cannot be started", "name a process there")

        def there(interrupts: Interrupts) -> contextlib.AbstractContextManager[AnyCapture]:
            return far.prepared(
                *(named, pid_option, pattern, how, progress),
                duration_s=duration,
                containers=containers,
                with_sources=with_sources,
                is_wanted=lambda: not interrupts.stop,
            )

        return _record_processes(there, None, duration, planned, what, how, progress)
    if command:
        return _record_command(command, duration, planned, what, how, progress)
    to_start_it = f"to start it: `flametap record -- {' '.join(named)}`; {LIST_THEM}"
    targets = find_targets(named, pid_option, pattern, progress, to_start_it, containers)

    def here(_: Interrupts) -> contextlib.AbstractContextManager[AnyCapture]:
        return _prepared(targets, planned, how, progress)

    return _record_processes(here, targets[0], duration, planned, what, how, progress)


@contextlib.contextmanager
def _saving(
    capture: AnyCapture, outputs: list[Output], what: OutputOptions, progress: Progress
) -> Iterator[Callable[[], None]]:
    """Yield what saves a part of the recording when that is asked for."""
    if what.keep_s is None:
        yield lambda: None
        return
    with SaveRequests(capture, outputs, progress) as requests:
        yield requests.look


def _split_words(
    words: tuple[str, ...], program: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the processes that the words name ("1234", "nginx"; () for none) and the command to
    start (() for none). Both are returned if the user gave both.

    Args:
        words: before ``--``: a process, or a command with a path or arguments.
        program: the words after ``--``; None without it.

    Raises:
        UsageError: a word belongs to neither.
    """
    if program is not None and len(words) <= 1:
        return words, program
    if program is not None:
        raise UsageError(f"'{words[1]}' stands before --", "put the command's words after it")
    if not words:
        return (), ()
    first, *rest = words
    if all(map(str.isdigit, words)) or (not rest and is_name(first)):
        return words, ()
    if first.isdigit():
        other = next(word for word in rest if not word.isdigit())
        raise UsageError(f"'{other}' follows process {first}", "name processes, or a command")
    return (), words


def _record_processes(
    prepared: Callable[[Interrupts], contextlib.AbstractContextManager[AnyCapture]],
    pid: int | None,
    duration_s: float | None,
    outputs: list[Output],
    what: OutputOptions,
    how: AttachOptions,
    progress: Progress,
) -> int:
    """Record what is prepared; ``pid`` is of a process of this machine, None if it is elsewhere."""
    with Interrupts() as interrupts:
        if how.verbose and pid is not None:
            start.print_findings(pid, progress)
        try:
            with (
                verified(pid or 0, progress, how) as verification,
                prepared(interrupts) as capture,
                keeping(capture, outputs, with_sources=what.with_sources, keep_s=what.keep_s),
                pushing(capture, what, progress),
                _saving(capture, outputs, what, progress) as look,
            ):
                start.start(capture, interrupts, progress, verification)
                watch(capture, interrupts, progress, duration_s, outputs, look)
                return finish(capture, outputs, what, interrupts, progress, verbose=how.verbose)
        except Interrupted:
            progress.say("interrupted before anything was recorded")
            return EXIT_CODE


def _prepared(
    pids: Sequence[int],
    outputs: list[Output],
    how: AttachOptions,
    progress: Progress,
    *,
    is_launched: bool = False,
) -> contextlib.AbstractContextManager[Capture]:
    shows_notes = how.verbose or any(
        output.format == "html" or is_kept(output) for output in outputs
    )
    return start.prepared(pids, how, progress, shows_notes=shows_notes, is_launched=is_launched)


def _record_command(
    command: tuple[str, ...],
    duration_s: float | None,
    outputs: list[Output],
    what: OutputOptions,
    how: AttachOptions,
    progress: Progress,
) -> int:
    from ...capture.launch import launch

    failure: FlametapError | None = None
    with Interrupts() as interrupts, contextlib.ExitStack() as until_released:
        # If the recording goes to stdout, the output of CMD goes to stderr.
        is_taken = any(output.path == "-" for output in outputs)
        stdout = sys.stderr.fileno() if is_taken else None
        launched = launch(command, stdout=stdout, ignored=interrupts.ignored)
        until_released.callback(launched.terminate)
        interrupts.last_resort = functools.partial(_leave_with, launched)
        try:
            with (
                verified(launched.pid, progress, how) as verification,
                _prepared([launched.pid], outputs, how, progress, is_launched=True) as capture,
                keeping(capture, outputs, with_sources=what.with_sources, keep_s=what.keep_s),
                pushing(capture, what, progress),
                _saving(capture, outputs, what, progress) as look,
            ):
                start.start(capture, interrupts, progress, verification, launched.release)
                until_released.pop_all()
                watch(capture, interrupts, progress, duration_s, outputs, look)
                try:
                    finish(capture, outputs, what, interrupts, progress, verbose=how.verbose)
                except FlametapError as error:
                    failure = error  # the program keeps running
        except TargetDiedError as error:
            failure = failure or error  # CMD's exit code reports it
        except Interrupted:
            progress.say("interrupted before anything was recorded")
            return EXIT_CODE
        exit_code = _wait_for_exit(launched, interrupts, progress)
    if isinstance(failure, NoSamplesError):
        progress.warn(f"nothing was saved: {failure.message}")
        return exit_code or failure.exit_code
    if failure is not None and not isinstance(failure, TargetDiedError):
        raise failure
    return exit_code


def _leave_with(launched: Launched) -> None:
    launched.kill()
    leave()


def _wait_for_exit(launched: Launched, interrupts: Interrupts, progress: Progress) -> int:
    """Wait for the program to end and return its exit code.

    Signals to this process are passed on to the program, including the one that ended the
    recording. Ctrl-C in a terminal reaches the program directly; the third one kills it.
    """
    interrupts.last_resort = launched.kill
    exit_codes: list[int] = []
    waiter = threading.Thread(target=lambda: exit_codes.append(launched.wait()), daemon=True)
    waiter.start()
    passed_on = 0
    while waiter.is_alive():
        if interrupts.count > passed_on:
            passed_on = interrupts.count
            if interrupts.last is not signal.SIGINT:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(launched.pid, interrupts.last)
        waiter.join(POLL_S)
        progress.step(f"waiting for process {launched.pid} to end")
    progress.clear()
    return exit_codes[0] if exit_codes else EXIT_CODE
