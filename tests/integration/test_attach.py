"""What can go wrong between us, Frida and the target while an attach is under way, each brought
about on purpose: the target goes on as if nothing had been."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import frida
import pytest

import receipt
from flametap.errors import FlametapError
from flametap.inject.frida import (
    attach_state,
    fork_stack,
    loader,
    plt_hook,
    ptrace_hook,
    ptrace_proxy,
    stall_watch,
)
from flametap.inject.frida import injector as injector_module
from flametap.inject.frida.attach import Attach
from flametap.inject.frida.injector import FridaInjector
from flametap.inject.frida.loader import Loaders
from flametap.inject.frida.ptrace_proxy import PtraceProxy
from flametap.inject.link.session import Session
from flametap.linux import procfs
from flametap.linux.ptrace import PTRACE_CONT
from nightly import nightly
from recording import record
from running import Start, Target

pytestmark = [pytest.mark.needs("attach", "gcc"), pytest.mark.usefixtures("attaches_from_here")]

# Longer than the 5 s after which Frida gives a call up.
SLOW_S = 5.5
ATTACHES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))
# What a target says in the end whose calls have all returned as they should.
RETURNED = r"\w+ returns=\d\d+ eintr=0|corrupt 0"


def under_way() -> Attach:
    """The attach that Frida's calls belong to."""
    attach = ptrace_hook.under_way()
    assert isinstance(attach, Attach)
    return attach


def is_calling(tid: int) -> bool:
    """True while a thread runs a function for Frida."""
    return under_way().progress.state.is_calling(tid)


def assert_unharmed(
    target: Target, before: receipt.Receipt, *, attaches: int = 1, was_killed: bool = False
) -> None:
    """Looks at the target from outside, then has it report."""
    found = receipt.harm_after_settling(
        target.pid, before, timeout_s=60, attaches=attaches, was_killed=was_killed
    )
    assert found == []
    for line in target.finish():
        assert re.fullmatch(RETURNED, line), line


@pytest.mark.nightly  # it waits for Frida to give up
@pytest.mark.parametrize("command", ["vectors", "parked short"])
def test_call_that_takes_longer_than_frida_waits(
    start: Start, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    target = start(*command.split())
    before = receipt.take(target.pid)
    slow = [True]
    waitpid = ptrace_proxy._waitpid

    def answer_late(pid: int, status: int, options: int) -> int:
        if slow[0] and is_calling(pid):
            slow[0] = False
            time.sleep(SLOW_S)
        return int(waitpid(pid, status, options))

    monkeypatch.setattr(ptrace_proxy, "_waitpid", answer_late)
    record(target.pid, 0.2)
    assert not slow[0]
    assert_unharmed(target, before)


@pytest.mark.nightly  # it waits for Frida to give up
@pytest.mark.parametrize("command", ["vectors", "parked short"])
def test_call_that_never_returns_is_taken_back(
    start: Start, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    target = start(*command.split())
    before = receipt.take(target.pid)
    monkeypatch.setattr(attach_state, "CALL_LIMIT_S", -1.0)
    waitpid = ptrace_proxy._waitpid
    looks: list[int] = []

    def hide_once(pid: int, status: int, options: int) -> int:
        looks.append(pid)
        return 0 if len(looks) % 2 else int(waitpid(pid, status, options))

    monkeypatch.setattr(ptrace_proxy, "_waitpid", hide_once)
    session = Session(target.pid, FridaInjector(target.pid))
    with pytest.raises(FlametapError):
        session.attach(100)
    session.close()
    monkeypatch.undo()
    assert looks
    record(target.pid, 0.2)  # and it can be attached to as ever
    # What the call had mapped stays: nobody knows where.
    assert_unharmed(target, before, attaches=2, was_killed=True)


@pytest.mark.parametrize("nth", [2, *nightly(1, 3)])
def test_stop_that_comes_while_a_function_runs_leaves_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    monkeypatch.setattr(injector_module, "ATTACH_TIMEOUT_S", 2.0)
    ptrace = ptrace_proxy._ptrace
    calls: list[int] = []

    def stop_before(request: int, tid: int, where: int | None, data: int | None) -> int:
        if request == PTRACE_CONT and tid == target.pid and is_calling(tid):
            calls.append(tid)
            if len(calls) == nth:
                os.kill(tid, signal.SIGSTOP)
        return int(ptrace(request, tid, where, data))

    monkeypatch.setattr(ptrace_proxy, "_ptrace", stop_before)
    session = Session(target.pid, FridaInjector(target.pid))
    with pytest.raises(FlametapError) as failure:
        session.attach(100)
    session.close()
    os.kill(target.pid, signal.SIGCONT)
    assert len(calls) >= nth
    assert "\n" not in str(failure.value)
    # The loader's memory may stay: README.
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60, was_killed=True) == []
    target.finish()  # epoll_wait has seen an EINTR of the stop's


@pytest.fixture
def own_libc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Targets have another C library than we, as in a container: Frida takes its first steps in
    code of theirs, which it overwrites for that long."""
    libc = next(m.path for m in procfs.read_mappings(os.getpid()) if fork_stack.LIBC.match(m.name))
    shutil.copy(libc, tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


def code_of(pid: int) -> dict[tuple[int, int], bytes]:
    """runtime_addr of start and end → what is there, for all code that a process has from files."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return {
            (mapping.start, mapping.end): os.pread(memory.fileno(), mapping.size, mapping.start)
            for mapping in procfs.read_mappings(pid)
            if "x" in mapping.permissions and mapping.path.startswith("/")
        }


def has_code(pid: int, code: dict[tuple[int, int], bytes]) -> bool:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return all(
            os.pread(memory.fileno(), end - start, start) == was
            for (start, end), was in code.items()
        )


@pytest.mark.parametrize("command", ["parked short", *nightly("vectors")])
def test_target_with_another_c_library(own_libc: None, start: Start, command: str) -> None:
    target = start(*command.split())
    before, code = receipt.take(target.pid), code_of(target.pid)
    for _ in range(3):
        record(target.pid, 0.2)
    assert has_code(target.pid, code)
    assert_unharmed(target, before, attaches=3)


def test_handler_for_traps_stays_in_a_target_with_another_c_library(
    own_libc: None, start: Start
) -> None:
    target = start("frames", "busy")
    before = receipt.take(target.pid)
    assert before.signals[target.pid]["SigCgt"] & 1 << signal.SIGTRAP - 1
    record(target.pid, 0.2)
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []


@pytest.mark.parametrize("nth", [2, *nightly(1, 3, 4)])
def test_error_of_ours_is_told_and_the_target_goes_on(
    own_libc: None, start: Start, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    target = start("parked", "short")
    code = code_of(target.pid)
    monkeypatch.setattr(injector_module, "STUBBORN_TIMEOUT_S", 1.0)
    wait = PtraceProxy._wait_for_stop
    waits: list[int] = []

    def fail(self: PtraceProxy, tid: int, status: ctypes.c_int, options: int) -> int:
        waits.append(tid)
        if tid == target.pid and waits.count(tid) == nth:
            raise OSError(errno.EMFILE, "no descriptor left")
        return wait(self, tid, status, options)

    monkeypatch.setattr(PtraceProxy, "_wait_for_stop", fail)
    session = Session(target.pid, FridaInjector(target.pid))
    with pytest.raises(FlametapError, match="no descriptor left"):
        session.attach(100)
    session.close()
    monkeypatch.undo()
    assert has_code(target.pid, code)
    record(target.pid, 0.2)
    # What the call had opened until then stays.
    for line in target.finish():
        assert re.fullmatch(RETURNED, line), line


@pytest.mark.nightly  # it waits for Frida to give up
def test_stack_is_not_written_to_once_the_main_thread_is_let_go(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = start("deeper")
    monkeypatch.setattr(injector_module, "STUBBORN_TIMEOUT_S", 1.0)
    injector = FridaInjector(target.pid)
    session = Session(target.pid, injector)
    attempts: list[int] = []

    def let_go_and_fail(
        self: loader.Loader, let_go: Callable[[], None], must_end: Callable[[], bool]
    ) -> None:
        let_go()
        target.say("go deeper")
        assert injector._handshake is not None
        injector._handshake.hang_up()
        attempts.append(target.pid)

    monkeypatch.setattr(loader.Loader, "wait_until_loaded", let_go_and_fail)
    with pytest.raises(FlametapError):
        session.attach(100)
    session.close()
    assert attempts
    assert target.finish()[1:] == ["corrupt 0"]


# --- the loader: its wait for a lock, its memory


def test_main_thread_that_holds_a_lock_is_let_go(start: Start) -> None:
    target = start("locked")
    before = receipt.take(target.pid)
    record(target.pid, 0.2)
    # One attach: a second one would have left a second mapping.
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    assert target.finish() == []


def test_main_thread_amid_malloc_is_brought_out_of_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = start("arena")
    given_back: list[int] = []
    monkeypatch.setattr(PtraceProxy, "_give_back", lambda self, tid: given_back.append(tid))
    for _ in range(ATTACHES):
        record(target.pid, 0.1)
    assert given_back == []
    assert target.finish()[0].startswith("rounds ")


def test_memory_that_frida_has_given_up_is_unmapped(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)

    refused: list[tuple[int, int]] = []

    def refuse(self: Loaders, tid: int, start: int, size_bytes: int) -> bool:
        loader = self._known.get((tid, start))
        is_loaders = loader is not None and bool(loader.born)
        refused.extend([(tid, start)] * is_loaders)
        return not is_loaders

    monkeypatch.setattr(Loaders, "may_call", refuse)
    record(target.pid, 0.2)
    assert len(set(refused)) == 1
    assert under_way().loaders._unmapped == set(refused)
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line


# --- what the agent prints

# The agent comes up, finds that nobody is at the other end of its connection, and leaves.
LONELY = """
import ctypes, os, socket, sys
agent = ctypes.CDLL(f"/proc/self/fd/{sys.argv[1]}")
here, there = socket.socketpair()
there.close()
policy = ctypes.byref(ctypes.c_int())
agent.frida_agent_main(b"socket:%d|exceptor:off" % here.detach(), policy, None)
os._exit(7)
"""


def test_agent_that_is_left_alone_prints_nothing(start: Start) -> None:
    record(start("ratio").pid, 0.1)
    held = Path("/proc/self/fd").iterdir()
    agents = [each.name for each in held if "frida-agent" in os.path.realpath(each)]
    command = [sys.executable, "-c", LONELY, agents[0]]
    done = subprocess.run(
        command, capture_output=True, timeout=120, pass_fds=[int(agents[0])], check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 7)


# --- a message lost between Frida's two halves

_libc = ctypes.CDLL(None, use_errno=True)
_RECEIVE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, use_errno=True
)


@pytest.fixture
def lose() -> Iterator[Callable[[int], None]]:
    """``lose(n)``: the nth message that Frida receives from then on never arrives."""
    countdown = [0]

    def receive(fd: int, message: int, flags: int) -> int:
        _libc.recvmsg.restype = ctypes.c_ssize_t
        ctypes.set_errno(0)
        received = int(_libc.recvmsg(fd, ctypes.c_void_p(message), flags))
        if received > 0 and countdown[0]:
            countdown[0] -= 1
            if countdown[0] == 0:
                ctypes.set_errno(11)  # EAGAIN
                return -1
        return received

    function = _RECEIVE(receive)
    assert ptrace_hook.install(frida._frida.__file__)
    assert plt_hook.redirect(frida._frida.__file__, b"recvmsg", function)

    def arm(nth: int) -> None:
        countdown[0] = nth

    yield arm
    plt_hook.restore(frida._frida.__file__, b"recvmsg")


@pytest.mark.parametrize("nth", [8, *nightly(4, 10)])
def test_lost_message_is_noticed_and_the_attach_repeated(
    start: Start, lose: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    monkeypatch.setattr(stall_watch, "IDLE_LOOKS", 10)
    target = start("parked", "short")
    before = receipt.take(target.pid)
    lose(nth)
    record(target.pid, 0.2)
    assert_unharmed(target, before, attaches=2)
