"""The direct way in: one thread of the target is stopped once, for some 60 us.

1. One thread is stopped at a moment when that ends no wait of its own (``candidates``).
2. A piece of code, filled in with the thread's registers, is written where nothing is (``slack``),
   and the thread is sent there (``divert``). From then on it needs nobody: it makes our thread and
   takes up its work again by itself.
3. Our thread maps memory and waits until the agent is written there, or ends.
4. At the end it unmaps everything and ends; nobody is stopped for that.

The host may die between any two steps: then the piece stays, in a page that is the process's own
copy, and the next attach uses its place. No function of the target is called, and none changed.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import time

from flametap.agent import machine_code
from flametap.agent.machine_code import MachineCode

from ...errors import AttachFailedError, CannotAttachError, NoSuchProcessError
from ...linux import scheduling
from ...linux.brief_stop import BriefStop
from ...linux.maps import read_maps
from ...linux.syscalls import syscall_number
from ...linux.tasks import read_call, tasks
from ...wire import control_abi as abi
from ..link.alternate import REFUSED, Alternate
from ..link.injector import Entry
from ..link.stopper import Stopper
from ..link.target_memory import TargetMemory
from . import slack
from .alternate_ask import AlternateAsk
from .candidates import Candidates
from .divert import Diverter, Result
from .stub import STACK_BYTES, Stub

TRIES_LIMIT_S = 5.0
TRIES_INTERVAL_S = 0.001
# It ends 3 s after its host, later where it gets no CPU.
OTHERS_LIMIT_S = 8.0
OTHERS_INTERVAL_S = 0.05
# Our thread is there at once; on a machine with a hundred times the work it waits for its turn.
BORN_LIMIT_S = 5.0
BORN_INTERVAL_S = 0.0001
LEFT_LIMIT_S = 5.0
LEFT_INTERVAL_S = 0.0002
# A thread in the stub leaves it after microseconds of CPU time; a stopped one stays.
FREE_LIMIT_S = 1.0
LEAVING_LOOKS = 300  # where no thread gets a CPU, 1.5 s, twice
SYS_NANOSLEEP = syscall_number("nanosleep")
# Files whose code makes the system calls of programs that use them.
LIBC_NAMES = ("libc.so", "libc-2.", "ld-musl", "libc.musl")


class DirectInjector:
    """See the module, and ``link.injector.Injector``.

    Args:
        pid: the process.

    Attributes:
        stopped_s: how long the one thread was stopped.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory: TargetMemory | None = None
        self._brief_stop = BriefStop(pid)
        self.stopper: Stopper = self._brief_stop
        self.stopped_s = 0.0
        self._tid = 0
        self._stub_addr = 0
        self._stub_bytes = 0
        self._alternate_ask: AlternateAsk | None = None
        self._is_given_up = threading.Event()

    def enter(self, filtered: int) -> Entry:
        """See ``Injector``.

        Raises:
            CannotAttachError: there is no place for the stub, or no thread that could be stopped.
            AttachFailedError: our thread did not come to be.
        """
        made = machine_code.read()
        memory = self.memory = TargetMemory(self.pid)
        stub = Stub.of(made)
        place = self._place(memory, stub)
        before = tasks(self.pid)
        diverter = Diverter(memory.fd, stub, place)
        self._divert(diverter)
        thread_pointer = diverter.thread_pointer
        self._stub_addr, self._stub_bytes = place, len(stub.code)
        region = self._wait_until_born(before, place + stub.nap_offset, stub.all_bytes)
        boot = region + stub.code_bytes
        try:
            self._give_code(memory, made, region, boot)
        except OSError as error:  # this process was stopped for longer than our thread waits
            raise AttachFailedError(
                f"our thread in process {self.pid} ended before it had its code: {error}",
                "the target continues; try again",
            ) from error
        where = range(place, place + len(stub.code))
        self._alternate_ask = AlternateAsk(memory, diverter, where, boot)
        return Entry(self._tid, boot, thread_pointer)

    def _place(self, memory: TargetMemory, stub: Stub) -> int:
        """Find the stub's place; wait for the thread of a host that was killed to end there."""
        end_s = time.monotonic() + OTHERS_LIMIT_S
        while True:
            try:
                return slack.find(memory, stub.code, stub.nap_offset)
            except slack.InUseError:
                if time.monotonic() > end_s or self._is_given_up.is_set():
                    raise
            time.sleep(OTHERS_INTERVAL_S)

    def _divert(self, diverter: Diverter) -> None:
        """Send a thread to the stub."""
        candidates = Candidates(self.pid)
        result = Result.NOT_NOW
        end_s = time.monotonic() + TRIES_LIMIT_S
        try:
            while time.monotonic() < end_s and not self._is_given_up.is_set():
                if not tasks(self.pid):
                    raise NoSuchProcessError(f"process {self.pid} has exited")
                for found in candidates.choose():
                    result = diverter.divert(found.tid, found.left_ms, must_stop=found.must_stop)
                    if result is Result.DONE:
                        self.stopped_s = diverter.stopped_s
                        return
                    if result is Result.NO_WRITE:
                        raise CannotAttachError(
                            f"the kernel lets nobody write to the memory of process {self.pid}",
                            "a security module may forbid it: see dmesg",
                        )
                time.sleep(TRIES_INTERVAL_S)
        finally:
            diverter.end()
        raise CannotAttachError(
            f"no thread of process {self.pid} could be stopped without harm within "
            f"{TRIES_LIMIT_S:g} s ({result.name.lower().replace('_', ' ')})",
            "is each of them stopped, frozen or in uninterruptible sleep? try again",
        )

    def _wait_until_born(self, before: frozenset[int], nap_addr: int, all_bytes: int) -> int:
        """Return where our thread's memory is, runtime_addr: it says so in an argument of its nap,
        which the call does not have.
        """
        waited_s = 0.0
        while waited_s < BORN_LIMIT_S:
            now = tasks(self.pid)
            for tid in now - before:
                try:
                    call = read_call(self.pid, tid)
                except OSError:
                    continue
                if call and call.number == SYS_NANOSLEEP and call.arguments[0] == nap_addr:
                    self._tid = tid
                    scheduling.set_short_turns(tid)  # on a busy machine each step takes its turn
                    return call.arguments[2]
            if not now:
                raise NoSuchProcessError(f"process {self.pid} has exited")
            time.sleep(BORN_INTERVAL_S)
            waited_s += BORN_INTERVAL_S
        raise AttachFailedError(
            f"process {self.pid} could not make a thread and {all_bytes >> 10} KB of memory "
            "for the agent",
            "the target continues; see its limits: /proc/PID/limits, pids.max, vm.max_map_count",
        )

    def _give_code(self, memory: TargetMemory, made: MachineCode, region: int, boot: int) -> None:
        """Write the agent's code to our thread's memory, and let it go."""
        code = bytearray(made.code)
        at = made.symbols["import_boot"]
        code[at : at + 8] = boot.to_bytes(8, "little")
        memory.write(region, bytes(code))
        stack = boot + mmap.PAGESIZE
        memory.write(
            boot,
            abi.BOOT.pack(
                *(0, 0, 0, -1, 0, 1, 0, 0, 0, 0, stack, STACK_BYTES, self._libc_code()), *(0, 0, 0)
            ),
        )
        memory.write(boot, b"\1\0\0\0")  # go

    def _libc_code(self) -> int:
        """Return an address in libc's code; 0 where the program has none of its own in a file."""
        for each in read_maps(f"/proc/{self.pid}"):
            if each.is_executable and each.name.startswith(LIBC_NAMES):
                return each.start
        return 0

    def ask_alternate(self, tid: int, let_in: int = 0) -> Alternate | None:
        """See ``Injector``."""
        return REFUSED if self._alternate_ask is None else self._alternate_ask.ask(tid, let_in)

    def give_up(self) -> None:
        """See ``Injector``."""
        self._is_given_up.set()

    def ask_no_more(self) -> None:
        """See ``Injector``."""
        if self._alternate_ask is not None:
            self._alternate_ask.give_up()

    def leave(self) -> None:
        """See ``Injector``. What the stub was is zeros again, once our thread has gone."""
        for _ in range(round(LEFT_LIMIT_S / LEFT_INTERVAL_S)):
            if not self._tid or self._tid not in tasks(self.pid):
                break
            time.sleep(LEFT_INTERVAL_S)
        else:
            return  # it ends by itself; the next attach uses the place again
        if not self._stub_addr or self.memory is None:
            return
        where = range(self._stub_addr, self._stub_addr + self._stub_bytes)
        ask = self._alternate_ask
        if not (self._is_free(ask) if ask else not slack.is_in_use(self.pid, where, LEAVING_LOOKS)):
            return  # as above
        with contextlib.suppress(OSError):  # the process has ended
            self.memory.write(self._stub_addr, bytes(self._stub_bytes))
        self._stub_addr = 0

    def _is_free(self, ask: AlternateAsk) -> bool:
        for _ in range(round(FREE_LIMIT_S / LEFT_INTERVAL_S)):
            if ask.is_free():
                return True
            time.sleep(LEFT_INTERVAL_S)
        return False

    def close(self) -> None:
        """See ``Injector``."""
        self._brief_stop.end()
        if self._alternate_ask is not None:
            self._alternate_ask.end()
            self._alternate_ask = None
        if self.memory is not None:
            self.memory.close()
            self.memory = None
