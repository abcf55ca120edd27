"""Attach to a process: checks, warnings, and an attach that signals do not interrupt."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import AttachFailedError, FlametapError, NoSamplesError, TargetDiedError
from ..inject import process
from ..inject.nursery import Nursery
from ..linux import out_of_memory, process_clock
from ..linux.child_processes import child_processes
from ..safety import preflight
from ..safety.finding import Severity
from .attach_options import AttachOptions
from .interpreter import interpreter_lines
from .progress import Progress
from .signals import Interrupted, Interrupts, not_suspended

if TYPE_CHECKING:
    from ..capture.live import Capture
    from .far import AnyCapture
    from .verify import Verification

WORK_NS = 100_000_000  # less is no work
# An attach cut short would leave code in the target that waits for us for ever.
ATTACHING_REPLY = (
    "waiting for the attach to end, to leave the process unchanged; the third signal ends at once\n"
)


@contextmanager
def prepared(
    pids: Sequence[int],
    how: AttachOptions,
    progress: Progress,
    *,
    shows_notes: bool = True,
    is_launched: bool = False,
    follows_workers: bool = False,
) -> Iterator[Capture]:
    """Check processes and yield a capture of them; detach and close it at the end of the block.

    Args:
        pids: the processes; of several, those that cannot be attached to are left out with a word.
        how: the options of the attach.
        progress: told of each step.
        shows_notes: whether anybody sees the notes on modules.
        is_launched: we have started the one: what it starts is recorded, too, until it ends.
        follows_workers: what the one has started is recorded, too, if that does most of the work.

    Raises:
        ProtocolError: the recording ended early; what was recorded before is saved.
        TargetDiedError: a fault killed the process while flametap was attached.
        FlametapError: the process cannot be attached to, or not without harm.
    """
    pid, *others = _checked(pids, how, progress)
    follows = is_launched if how.children is None else how.children
    if how.children is None and follows_workers and not others and _workers_do_most(pid):
        follows = True
        progress.say(
            "the processes that it has started are recorded, too (--no-children: it alone)"
        )
    nursery = Nursery() if follows or others else None
    # It imports its part while we import ours.
    injector = nursery.start(pid, how.inject) if nursery else process.start(pid, how.inject)
    _import_numpy()
    from ..capture.capture_options import CaptureOptions
    from ..capture.live import Capture

    options = CaptureOptions(
        rate_hz=how.rate_hz,
        budget_ppm=how.budget_ppm,
        inlines=how.inlines,
        symbol_dirs=how.symbol_dirs,
        debuginfod_urls=how.debuginfod_urls,
        enable_perf_map=how.enable_perf_map,
        names_remedies=shows_notes,
        inject=how.inject,
        force=how.force,
    )
    capture = Capture(pid, options, injector, nursery)
    if nursery is not None:
        capture.follow(others, children=follows, ends_with_first=is_launched)
    try:
        yield capture
    except (NoSamplesError, AttachFailedError) as error:
        _refuse_fault(capture, error.message)
        raise
    finally:
        progress.clear()
        capture.close()
        if nursery is not None:
            nursery.close()
    _refuse_fault(capture, "")
    if capture.error is not None:
        raise capture.error


def _checked(pids: Sequence[int], how: AttachOptions, progress: Progress) -> list[int]:
    """Return the processes that can be attached to; warn of the others.

    Raises:
        FlametapError: there is none.
    """
    found: list[int] = []
    refused: list[FlametapError] = []
    for pid in pids:
        try:
            ready = preflight.check(pid, force=how.force, way=how.inject)
        except FlametapError as error:
            refused.append(error)
            continue
        for warning in ready.warnings:
            progress.warn(warning)
        if not found:
            progress.step(f"attaching to {pid} ({ready.command})")
        found.append(pid)
    if not found:
        raise refused[0]
    for each in refused:
        progress.warn(f"{each.message}: not recorded")
    return found


def _workers_do_most(pid: int) -> bool:
    """Return whether the processes below one have used more CPU time than it has itself."""
    own_ns = process_clock.cpu_ns(pid) or 0
    return sum(cpu_ns for _, _, cpu_ns in child_processes(pid)) > max(own_ns, WORK_NS)


def _import_numpy() -> None:
    """Import numpy without OpenBLAS's threads: they take 50 ms, and we multiply no matrices."""
    name = "OPENBLAS_NUM_THREADS"
    if "numpy" in sys.modules or name in os.environ:
        return
    os.environ[name] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[name]


def _refuse_fault(capture: Capture, failure: str) -> None:
    """Raise TargetDiedError if a fault killed the target while flametap was attached.

    Args:
        capture: one that has ended, or whose attach has failed.
        failure: why nothing was saved; "" if something was.
    """
    status = capture.exit_status
    if status is None or not status.is_fault:
        return
    raise TargetDiedError(
        f"the target {status} while flametap was attached" + (f"; {failure}" if failure else ""),
        ("" if failure else "what was sampled is kept; ")
        + "if this does not happen without flametap, please report it",
    )


def start(
    capture: AnyCapture,
    interrupts: Interrupts,
    progress: Progress,
    verification: Verification | None = None,
    on_sampling: Callable[[], None] = lambda: None,
) -> None:
    """Attach and begin to sample. A signal meanwhile takes effect when that is done.

    Args:
        capture: made by ``prepared``.
        interrupts: checked before and after.
        progress: if it is quiet, a signal meanwhile gets no answer.
        verification: told when the attach begins and ends.
        on_sampling: see ``Capture.start``.

    Raises:
        Interrupted: a signal arrived; the caller closes the capture.
        FlametapError: the attach failed.
    """
    with interrupts.replying("" if progress.is_quiet else ATTACHING_REPLY):
        if not interrupts.stop:
            if verification is not None:
                verification.note_attaching()
            out_of_memory.die_first()  # a launched program has been started: it is not meant
            with not_suspended():
                capture.start(on_sampling)
            if verification is not None:
                verification.note_attached()
    if interrupts.stop:
        raise Interrupted


def print_findings(pid: int, progress: Progress) -> None:
    """Print every check with its outcome, and how an interpreter's functions are shown (``-v``)."""
    for finding in preflight.findings(pid):
        mark = "ok" if finding.severity is Severity.OK else finding.severity.value
        progress.say(f"check {finding.check}: {mark}: {finding.message}")
    for line in interpreter_lines(pid):
        progress.say(line)
