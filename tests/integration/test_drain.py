"""A thread that loses its CPU inside our handler for seconds finds its code when it goes on."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cli
import kernel
import receipt
from nightly import nightly
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# <sys/ptrace.h>, <sys/user.h>, <sys/wait.h>
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_CONT, PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_DETACH = 7, 9, 12, 17
RIP_WORD, REGS_WORDS = 16, 27
WALL = 0x40000000
ATTACHED_S = 120.0
STOPS_MAX = 2000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long] * 4


def _ptrace(request: int, tid: int, where: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, tid, where, data) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _next_stop(tid: int) -> tuple[int, bool]:
    """(signal, True if the signal is about to be delivered)"""
    _, status = os.waitpid(tid, WALL)
    assert os.WIFSTOPPED(status), status
    return os.WSTOPSIG(status), status >> 16 == 0


@contextmanager
def _frozen_in_handler(tid: int, steps: int) -> Iterator[int]:
    """The thread stands still, ``steps`` instructions after the entry of its SIGURG handler; gives
    its pc."""
    _ptrace(PTRACE_SEIZE, tid)
    try:
        _ptrace(PTRACE_INTERRUPT, tid)
        _next_stop(tid)
        _ptrace(PTRACE_CONT, tid)
        for _ in range(STOPS_MAX):
            number, is_delivery = _next_stop(tid)
            if number == signal.SIGURG and is_delivery:
                break
            _ptrace(PTRACE_CONT, tid, 0, number if is_delivery else 0)
        else:
            raise AssertionError("the thread never got our signal")
        for step in range(steps + 1):
            _ptrace(PTRACE_SINGLESTEP, tid, 0, 0 if step else signal.SIGURG)
            _next_stop(tid)
        registers = (ctypes.c_uint64 * REGS_WORDS)()
        _ptrace(PTRACE_GETREGS, tid, 0, ctypes.addressof(registers))
        yield int(registers[RIP_WORD])
    finally:
        _ptrace(PTRACE_DETACH, tid)


def _busiest(pid: int) -> int:
    """The thread that computes: the one of the two that has used more."""
    named = [t for t in kernel.task_ids(pid) if kernel.status(pid, t)["Name"] == "replace"]
    return max(named, key=lambda tid: kernel.cpu_ns(pid, tid))


# At the gate; past it, on the way in; well inside.
@pytest.mark.parametrize("steps", [60, *nightly(0, 6)])
def test_code_stays_while_a_thread_may_be_in_it(start: Start, tmp_path: Path, steps: int) -> None:
    target = start("replace")
    before = receipt.take_at_rest(target.pid)
    arguments = ("record", "-p", target.pid, "-r", 1000, "--budget", 0)
    with cli.Running(str(tmp_path), *arguments, "-o", tmp_path / "out.folded") as run:
        wait_until(
            lambda: kernel.catches(target.pid, signal.SIGURG),
            "sampling to begin",
            ATTACHED_S,
        )
        with _frozen_in_handler(_busiest(target.pid), steps) as pc:
            run.interrupt()
            wait_until(
                lambda: not kernel.catches(target.pid, signal.SIGURG),
                "the handler to be taken back",
                ATTACHED_S,
            )
            # Longer than any wait for a last sample; what is there then waits for the thread.
            with pytest.raises(AssertionError, match="in vain"):
                wait_until(lambda: not _is_mapped(target.pid, pc), "the code to go", 1.0)
        # 130: it was asked to end while it was still waiting for the answer to its start.
        assert run.result().exit_code in (0, 6, 130), run.output
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    target.say("raise")
    target.finish()


def _is_mapped(pid: int, runtime_addr: int) -> bool:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split(maxsplit=1)[0].split("-"))
        if start <= runtime_addr < end:
            return True
    return False
