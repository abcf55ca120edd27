"""How long we wait for an answer out of the target, and what of that time counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ...errors import AttachFailedError
from .attach import Attach

LOOK_INTERVAL_S = 0.1
# What counts of the time in which Frida's threads in the target run, or wait for a CPU: where a
# hundred others want one (load 100 on two CPUs), each step of an attach takes its turn behind them.
WORKING_SHARE = 0.2

_Result = TypeVar("_Result")


class NoAnswerError(AttachFailedError):
    """A call into the target did not come back in time."""


def bounded(
    attach: Attach,
    call: Callable[[], _Result],
    timeout_s: float,
    what: str,
    is_hopeless: Callable[[], bool] = lambda: False,
    is_at_work: Callable[[], bool] = lambda: False,
) -> _Result:
    """Run ``call`` on a thread of its own and give up waiting after ``timeout_s``.

    The caller stays interruptible by signals meanwhile, which it is not inside Frida's C code. The
    time is counted in looks, not taken from a clock: while the machine stood still, or we did
    (SIGSTOP), nobody could answer. Nor does it count while the target runs a function for Frida,
    and less while others than its own threads are at work in it.

    Args:
        attach: the one that ``call`` belongs to.
        call: what to run.
        timeout_s: how long it may take.
        what: a word for the error.
        is_hopeless: asked at every look; True ends the wait at once.
        is_at_work: asked at every look; True lets the time count for ``WORKING_SHARE`` of it.

    Raises:
        NoAnswerError: no answer in time.
        Exception: whatever ``call`` raised; the error of ours (``attach``) behind either.
    """
    attach.take_error()  # drop an older error
    outcome: list[_Result] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True, name="flametap-frida").start()
    waited_s = 0.0
    while not done.wait(LOOK_INTERVAL_S):
        if not attach.is_calling():
            waited_s += LOOK_INTERVAL_S * (WORKING_SHARE if is_at_work() else 1)
        if waited_s > timeout_s or is_hopeless():
            raise attach.take_error() or NoAnswerError(
                f"the target did not answer within {max(waited_s, 1):.0f} s ({what})",
                "look whether it is stopped or out of memory: flametap doctor PID",
            )
    if failure:
        raise attach.take_error() or failure[0]
    return outcome[0]
