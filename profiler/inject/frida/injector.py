"""The one place that works with Frida: have it load the agent, and unload it.

One entry begins with ``enter`` and ends with ``leave``; each leaves a small mapping behind in the
target. Calls into the target are bounded in time: a target that was stopped or froze makes them
fail, and never hang.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import frida

from flametap import agent
from flametap.agent import machine_code

from ...errors import AttachFailedError, CannotAttachError
from ...linux import unix_sockets
from ...linux.tasks import own_tids
from ..link.alternate import REFUSED, Alternate
from ..link.injector import Entry
from ..link.standstill import Standstill
from ..link.stopper import Stopper
from ..link.target_memory import TargetMemory
from . import connection_keeper, fork_hold, ptrace_hook, quirks, stepped_ask
from .agent_answers import Entered
from .attach import Attach
from .errors import explain, repeats
from .footprint import Presence, is_traced
from .stall_watch import Handshake
from .timed_call import LOOK_INTERVAL_S, bounded

# Off, or Frida patches abort, signal, sigaction, exit and _exit in the target's libc.
ATTACH_OPTIONS = {
    "exceptor": "off",
    "unwind_broker": False,
    "exit_monitor": False,
    "thread_suspend_monitor": False,
}
# The slowest target seen took 6 s (java 17, busy machine); Frida gives up by itself after 10 s.
ATTACH_TIMEOUT_S = 12.0
CALL_TIMEOUT_S = 10.0  # it takes 20-50 ms to read the maps: the rest is for a starved machine
UNLOAD_TIMEOUT_S = 5.0
# How long Frida's threads may take to leave the target (1 s when the machine is idle).
LEAVE_TIMEOUT_S = 5.0
# What they get when even then some have not, and all connections are closed.
STUBBORN_TIMEOUT_S = 20.0
# When Frida has not had its loader unmapped by then it will not: mostly it does within 0.1 s.
LOADER_LEFT_S = 1.0
# How long the end of another session may still have the target traced.
UNTRACED_TIMEOUT_S = 5.0
POLL_S = 0.02
# The same where the target's main thread stands still meanwhile.
HELD_POLL_S = 0.002
# So many looks, ten a second, find nobody at work: the agent waits for a lock that the main thread
# holds. Fewer do so by chance on a busy machine, and children made then may hang.
HELD_IDLE_LOOKS = 5

_Claim = Callable[[], bool]


@atexit.register
def _shut_down() -> None:
    """End Frida while Python still runs: its threads call ``ptrace_hook``, and crash without it.

    A target that is stopped (SIGSTOP) keeps Frida from ending; then we go without it.
    """
    attach = ptrace_hook.under_way()
    if attach is not None:
        attach.hurry()
    closing = threading.Thread(target=frida.shutdown, daemon=True)
    with contextlib.suppress(RuntimeError):
        closing.start()
        closing.join(UNLOAD_TIMEOUT_S)
    ptrace_hook.release()


class FridaInjector:
    """See the module, and ``link.injector.Injector``.

    Args:
        pid: the process; preflight has approved of it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory: TargetMemory | None = None
        self.attached = Attach(pid)
        self._hold = self.attached.hold
        self.stopper: Stopper = self._hold
        self._has_ended = threading.Event()  # Frida's session
        self._is_given_up = threading.Event()
        self._session: Any = None
        self._handshake: Handshake | None = None
        self._script: Any = None
        self._presence = Presence(pid)
        self._own_sockets_before: frozenset[int] = frozenset()
        self._boot_addr = 0

    def enter(self, filtered: int) -> Entry:
        """See ``Injector``. The target's main thread stands still meanwhile, for
        ``fork_hold.LIMIT_S`` at most.

        Raises:
            NoSuchProcessError, PermissionRefusedError, CannotAttachError, AttachFailedError
        """
        try:
            made = machine_code.read()
        except machine_code.UnusableError as error:
            raise CannotAttachError(str(error), machine_code.REMEDY) from None
        self.memory = TargetMemory(self.pid)
        self._own_sockets_before = unix_sockets.sockets(os.getpid())
        self._presence = Presence(self.pid)
        ptrace_hook.install(frida._frida.__file__)
        quirks.restrain(frida._frida.__file__)
        self._wait_until_untraced()
        self.attached.begin()
        for attempt in itertools.count():
            self._handshake = Handshake(self.pid)
            self._hold.ask()
            try:
                self._session = self._inject()
                self._session.on("detached", self._on_detached)
                load = functools.partial(self._load, filtered, made)
                entered: Entered = self._bounded(load, CALL_TIMEOUT_S, "load", self._is_hopeless)
                self._hold.let_go()
                tid = own_tids(self.pid).get(entered.tid, 0)
                if not tid:
                    raise AttachFailedError("the agent's thread has ended", "try again")
                self._boot_addr = entered.boot_addr
                return Entry(tid, entered.boot_addr)
            except BaseException as error:
                self._hold.let_go()
                self.leave()
                if not isinstance(error, Exception):
                    raise
                may_repeat = attempt < repeats(error, self.pid) and self._presence.has_left()
                is_over = self._is_given_up.is_set()
                if is_over or not may_repeat or self.attached.is_replaced():
                    raise explain(error, self.pid) from error
            self._has_ended.clear()
        raise AssertionError("unreachable")

    def ask_no_more(self) -> None:
        """See ``Injector``. A thread that is asked is held until it has answered."""

    def ask_alternate(self, tid: int, let_in: int = 0) -> Alternate | None:
        """See ``Injector``."""
        del let_in  # it is held until it has answered
        if self.memory is None or not self._boot_addr:
            return REFUSED
        return stepped_ask.ask(self.stopper, self.memory, self._boot_addr, tid)

    def give_up(self) -> None:
        """End an attach that is under way; afterwards nothing happens."""
        self._is_given_up.set()

    def _is_hopeless(self) -> bool:
        return self._is_stuck() or self._is_given_up.is_set()

    def _is_stuck(self) -> bool:
        """Also lets the main thread go when nobody is at work, and so somebody may wait for it."""
        if self._handshake is None:
            return False
        is_stuck = self._handshake.is_stuck()
        if self._handshake.idle_looks >= HELD_IDLE_LOOKS:
            self._hold.let_go()
        return is_stuck

    def _is_at_work(self) -> bool:
        return self._handshake is not None and self._handshake.is_at_work()

    def _bounded(self, call: Callable[[], Any], limit_s: float, what: str, is_over: _Claim) -> Any:
        return bounded(self.attached, call, limit_s, what, is_over, self._is_at_work)

    def _inject(self) -> Any:
        """Make Frida inject its agent; returns Frida's session."""
        cancellable = frida.Cancellable()  # type: ignore[no-untyped-call]

        def attach() -> Any:
            with cancellable:
                return frida.get_local_device().attach(self.pid, **ATTACH_OPTIONS)

        try:
            return self._bounded(attach, ATTACH_TIMEOUT_S, "attach", self._is_hopeless)
        except BaseException:
            self._hold.let_go()
            try:
                self._leave_standing()
            finally:
                cancellable.cancel()
            raise

    def leave(self) -> None:
        """See ``Injector``. Unloads the agent, lets the target go, and waits until Frida's threads
        have left it.

        Our agent is unloaded by request, Frida's by hanging up on it. Asked to unload, Frida's
        would hang up by itself; and when the news of that comes after its main loop has ended (1 of
        1 000), the news keeps the connection, and the agent waits for it for ever. When its threads
        do not leave, the connection to its loader is closed, too: a target that stands still lets
        them go as soon as it continues.
        """
        script, session = self._script, self._session
        if script is None:
            self._leave_standing()
        self._script = self._session = None
        was_ended = self._has_ended.is_set()  # our own unload sets it, too ("destroyed")
        standstill = Standstill(self.pid)

        def is_hopeless() -> bool:
            return self._is_stuck() or (not self._hold.is_held() and standstill.lasts())

        if script is not None and not was_ended:
            if not Standstill(self.pid, patience=1).lasts():
                self._hold.stop()
            with contextlib.suppress(Exception):
                self._bounded(script.unload, UNLOAD_TIMEOUT_S, "unload", is_hopeless)
        if session is not None:
            with contextlib.suppress(Exception):
                session.off("detached", self._on_detached)
            if self._handshake is not None:
                self._handshake.hang_up_on_agent()
            with contextlib.suppress(Exception):
                self._bounded(session.detach, UNLOAD_TIMEOUT_S, "detach", is_hopeless)
        self._wait_until_unloaded(is_hopeless)
        if self._handshake is not None:
            if session is not None:
                self._wait_until_left(is_hopeless)
            if not self._presence.has_left():
                self._handshake.hang_up()
                self._wait_until_left(standstill.lasts, STUBBORN_TIMEOUT_S)
            self._handshake = None
            self.attached.loaders.reset_turns()

    def _leave_standing(self) -> None:
        """Where the target stands still in the middle of an attach, nothing that Frida says from
        now on may reach it.
        """
        if self._handshake is not None and Standstill(self.pid, patience=1).lasts():
            connection_keeper.keep(self.pid, self._handshake.take_over())

    def close(self) -> None:
        """See ``Injector``."""
        self.leave()
        if self.memory is not None:
            self.memory.close()
            self.memory = None

    def _load(self, filtered: int, made: machine_code.MachineCode) -> Entered:
        script = self._session.create_script(agent.script(), name="flametap", runtime="qjs")
        script.on("destroyed", self._has_ended.set)
        script.load()
        self._script = script
        answer = script.exports_sync.enter(
            dict(made.symbols),
            unix_sockets.leading_here(self.pid, self._own_sockets_before),
            filtered,
            made.code,
        )
        return Entered.of(answer)

    def _on_detached(self, reason: str, crash: object) -> None:
        self._has_ended.set()

    def _wait_until_untraced(self) -> None:
        """Wait for the tracer of a session that is just ending.

        Where the target has a tracer, Frida takes another way in: it rewrites the code of malloc
        and waits until the target calls it. That is neither harmless nor bounded.

        Raises:
            CannotAttachError: the tracer stays.
        """
        deadline = time.monotonic() + UNTRACED_TIMEOUT_S
        while is_traced(self.pid):
            if time.monotonic() > deadline:
                raise CannotAttachError(
                    f"process {self.pid} is traced by another debugger or profiler",
                    "end that one first: grep TracerPid /proc/PID/status names it",
                )
            time.sleep(POLL_S)

    def _wait_until_unloaded(self, is_hopeless: Callable[[], bool]) -> None:
        """Keep the main thread until the agent is gone, and release it. One that was frozen before
        it had stopped is released when it continues: the kernel does that when we have ended.
        """
        for look in range(round(2 * fork_hold.LIMIT_S / HELD_POLL_S)):
            is_time_to_ask = look % round(LOOK_INTERVAL_S / HELD_POLL_S) == 0
            if not self._hold.is_held() or not self._presence.has_agent():
                break
            if is_time_to_ask and is_hopeless():
                break
            time.sleep(HELD_POLL_S)
        if self._hold.is_held() and not self._presence.has_agent():
            # dlclose(3) unmaps it amid its work: the dynamic loader's locks are still taken then.
            self.attached.loaders.wait_until_left(self.pid)
        self._hold.let_go()

    def _wait_until_left(
        self, is_hopeless: Callable[[], bool], timeout_s: float = LEAVE_TIMEOUT_S
    ) -> None:
        """Wait until nothing of Frida moves in the target any more.

        Its agent unloads itself after the detach. Then its helper traces the main thread once more,
        to have it unmap the loader: a target that exits in that moment, or a helper that does
        because we exit, is a target that crashes (tried: half of them).
        """
        loader_looks = 0
        for look in range(round(timeout_s / POLL_S)):
            is_time_to_ask = look % round(LOOK_INTERVAL_S / POLL_S) == 0
            if self._presence.has_left() or (is_time_to_ask and is_hopeless()):
                return
            loader_looks = loader_looks + 1 if self._presence.is_loader_left() else 0
            if loader_looks >= LOADER_LEFT_S / POLL_S:
                self.attached.loaders.unmap()
                loader_looks = 0
            time.sleep(POLL_S)
