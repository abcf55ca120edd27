"""The no-harm receipt as tests use it: targets of ours that change nothing by themselves, so every
difference counts but those that the injection is known to leave
(``flametap.safety.snapshot_diff``).
"""

from __future__ import annotations

import re
import time

import kernel
from flametap.inject.frida.footprint import BOOTSTRAP_BYTES, LOADER_BYTES
from flametap.linux.tasks import is_of_kernel
from flametap.safety import snapshot_diff as harms
from flametap.safety.snapshot import Receipt, take
from flametap.safety.snapshot_diff import Blame

__all__ = ["Receipt", "harm", "harm_after_settling", "take", "take_at_rest"]


STARTED_S = 60.0
STARTING = tuple(f"{mask:016x}" for mask in harms.STARTING)
AT_REST_S = 2.0


def take_at_rest(pid: int) -> Receipt:
    """Take the receipt once each thread has begun to run: that takes long where the machine is
    busy, and looks like rest."""
    deadline = time.monotonic() + STARTED_S
    while time.monotonic() < deadline:
        try:
            # The kernel's own threads, as io_uring has them, always block all signals.
            tids = [tid for tid in kernel.task_ids(pid) if not is_of_kernel(pid, tid)]
            threads = [kernel.status(pid, tid) for tid in tids]
            # One that sleeps with such a mask has begun: node has one that blocks all signals.
            if all(
                each["SigBlk"] not in STARTING or each["State"].startswith("S") for each in threads
            ):
                break
        except OSError:  # one ended meanwhile
            continue
        time.sleep(0.02)
    return _take_when_two_agree(pid)


def _take_when_two_agree(pid: int) -> Receipt:
    """``take``, when two looks in a row agree: no thread is just being started, say. The last one
    after ``AT_REST_S``."""
    deadline = time.monotonic() + AT_REST_S
    before = take(pid)
    while True:
        time.sleep(0.02)
        after = take(pid)
        if after == before or time.monotonic() > deadline:
            return after
        before = after


def harm(
    before: Receipt,
    after: Receipt,
    *,
    attaches: int = 1,
    was_killed: bool = False,
    has_jit: bool = False,
    own_threads: str = "",
    own_changes: str = "",
) -> list[str]:
    """Names each difference that should not be there.

    Args:
        attaches: how often the target was attached to: each may leave one bootstrap mapping.
        was_killed: the profiler was killed: the stub in the vDSO may be left, which nobody runs, or
            the mapping of Frida's loader.
        has_jit: the target makes code itself: its anonymous code is not compared.
        own_threads: pattern for names of threads that the target starts and ends as it likes
            (jemalloc's, the JVM's collectors).
        own_changes: pattern for what the target changes all the time.
    """
    found = []
    for difference in harms.differences(before, after):
        is_own_thread = own_threads and re.fullmatch(
            rf"(new )?thread \d+ \(({own_threads})\)( is gone)?", difference.what
        )
        is_code = difference.what.endswith("executable memory without a file")
        was_starting = difference.blame is Blame.TARGET and any(
            f"SigBlk was {mask}" in difference.what for mask in STARTING
        )
        if was_killed and "[vdso]" in difference.what:
            continue
        if difference.blame is Blame.RESIDUE or is_own_thread or is_code or was_starting:
            continue
        if own_changes and re.search(own_changes, difference.what):
            continue
        found.append(difference.what)
    gained_bytes = sum(after.anonymous_code) - sum(before.anonymous_code)
    allowed_bytes = attaches * BOOTSTRAP_BYTES + was_killed * attaches * LOADER_BYTES
    if gained_bytes > allowed_bytes and not has_jit:
        found.append(f"{gained_bytes} bytes of anonymous code left behind by {attaches} attaches")
    return found


def harm_after_settling(
    pid: int,
    before: Receipt,
    *,
    timeout_s: float = 60.0,
    attaches: int = 1,
    was_killed: bool = False,
    has_jit: bool = False,
    own_threads: str = "",
    own_changes: str = "",
) -> list[str]:
    """Wait for the asynchronous part of the unload; return what is still wrong after
    ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = harm(
            before,
            take(pid),
            attaches=attaches,
            was_killed=was_killed,
            has_jit=has_jit,
            own_threads=own_threads,
            own_changes=own_changes,
        )
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
