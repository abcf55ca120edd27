"""From a pid to a running capture: checks, warnings, and an attach that is never cut short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import AttachFailedError, NoSamplesError, TargetDiedError
from ..safety import preflight
from ..safety.finding import Severity
from .attach_options import How
from .interpreter import interpreter_line
from .progress import Progress
from .signals import Interrupted, Interrupts, not_suspended

if TYPE_CHECKING:
    from ..capture.live import Capture
    from .verify import Verification

# Half an attach would leave code in the target that waits for us for ever.
ATTACHING_REPLY = (
    "waiting for the attach to end, so that the process is left clean; a third one does not wait\n"
)


@contextmanager
def prepared(pid: int, how: How, progress: Progress) -> Iterator[Capture]:
    """Make a capture of a process that may be attached to; detach and close it at the end.

    Raises:
        TargetDiedError: the process died of a fault while it was attached to.
        FlametapError: the process cannot be attached to, or not without harm.
    """
    ready = preflight.check(pid, force=how.force)
    for warning in ready.warnings:
        progress.warn(warning)
    progress.step(f"attaching to {pid} ({ready.command})")
    # Here and not above: Frida alone takes 0.1 s to load.
    from ..capture.live import Capture, CaptureOptions

    options = CaptureOptions(
        rate_hz=how.rate_hz,
        budget_ppm=how.budget_ppm,
        inlines=how.inlines,
        symbol_dirs=how.symbol_dirs,
        debuginfod_urls=how.debuginfod_urls,
    )
    capture = Capture(pid, options)
    try:
        yield capture
    except (NoSamplesError, AttachFailedError) as error:
        _refuse_fault(capture, error.message)
        raise
    finally:
        progress.clear()
        capture.close()
    _refuse_fault(capture, "")


def _refuse_fault(capture: Capture, failure: str) -> None:
    """Raise TargetDiedError if the target died of a fault while attached to.

    Args:
        capture: it has ended, or its attach has failed.
        failure: why nothing was saved, "" if it was.
    """
    status = capture.exit_status
    if status is None or not status.is_fault:
        return
    raise TargetDiedError(
        f"the target {status} while flametap was attached" + (f"; {failure}" if failure else ""),
        ("" if failure else "what was sampled is kept; ")
        + "if it does not die so without flametap, please report this",
    )


def start(
    capture: Capture,
    interrupts: Interrupts,
    progress: Progress,
    verification: Verification | None = None,
) -> None:
    """Attach and begin to sample. A signal meanwhile has to wait until that is done.

    Args:
        capture: made by ``prepared``.
        interrupts: checked before and after.
        progress: where a signal meanwhile is answered.
        verification: looks at the process as soon as it is attached to.

    Raises:
        Interrupted: there was one; the caller closes the capture.
        FlametapError: the attach failed.
    """
    with interrupts.replying("" if progress.is_quiet else ATTACHING_REPLY):
        if not interrupts.stop:
            if verification is not None:
                verification.note_attaching()
            with not_suspended():
                capture.start()
            if verification is not None:
                verification.note_attached()
    if interrupts.stop:
        raise Interrupted


def tell_findings(pid: int, progress: Progress) -> None:
    """For ``-v``: every check and its outcome, and what is shown of an interpreter's functions."""
    for finding in preflight.findings(pid):
        mark = "ok" if finding.severity is Severity.OK else finding.severity.value
        progress.say(f"check {finding.check}: {mark}: {finding.message}")
    if line := interpreter_line(pid):
        progress.say(line)
