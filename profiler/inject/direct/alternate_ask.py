"""Have a thread of the target write down where its alternate signal stack is.

It is sent through the stub, as the first one was, makes one system call there and takes up its work
again by itself, also if the host dies meanwhile. The stub holds the state of one thread at a time:
nobody is sent there before the last one has left. A handler of the program may run before that, and
may take long: a thread that is in one blocks at least one signal more than when it was sent.
"""

from __future__ import annotations

import contextlib
import time

from ...linux.tasks import cpu_ns, is_of_kernel, status_fields, tasks
from ..link.alternate import REFUSED, Alternate, Answer
from ..link.target_memory import TargetMemory
from .divert import Diverter, Result
from .slack import has_left

ANSWER_LIMIT_S = 0.005
ANSWER_INTERVAL_S = 0.00005
FREE_LOOKS = 40
LAST_LIMIT_S = 1.0


class AlternateAsk:
    """See the module. One caller at a time.

    Args:
        memory: of the target.
        diverter: has sent there the thread that made ours.
        place: of the stub, runtime_addr from begin to end.
        boot_addr: runtime_addr of ``struct boot``, where the answers are written.
    """

    def __init__(
        self, memory: TargetMemory, diverter: Diverter, place: range, boot_addr: int
    ) -> None:
        self._memory = memory
        self._diverter = diverter
        self._place = place
        self._answer = Answer(memory, boot_addr)
        self._answer_place = place.start + diverter.answer_offset
        diverter.set_answer(self._answer.addr)
        self._is_awaited = False
        # CPU time of the last thread when it was first seen outside of handlers: it blocked no more
        # signals than before.
        self._outside_ns: int | None = None
        self._note(diverter.tid)

    def ask(self, tid: int, let_in: int) -> Alternate | None:
        """Ask a thread that runs; it is stopped for some 0.1 ms.

        Args:
            tid: the thread.
            let_in: see ``Injector``; it will block these again, and that is no handler.

        Returns:
            None if it could not be asked now, or has not answered in time.
        """
        if is_of_kernel(self._memory.pid, tid):
            return REFUSED  # it can be traced, but runs no code of the program
        if self._is_awaited and tid == self._tid:
            late = self._answer.read()
            if late is not None:
                self._is_awaited = False
                return late
        if not self._becomes_free():
            return None
        self._answer.clear()
        self._is_awaited = False
        if self._diverter.divert(tid) is not Result.DONE:
            return None
        self._note(tid, let_in)
        self._is_awaited = True
        for _ in range(round(ANSWER_LIMIT_S / ANSWER_INTERVAL_S)):
            found = self._answer.read()
            if found is not None:
                self._is_awaited = False
                return found
            time.sleep(ANSWER_INTERVAL_S)
        return None

    def is_free(self) -> bool:
        """Tell whether the last thread that was sent there has left the stub. To be asked again
        and again: one that runs must be seen to use CPU time outside of it, and of handlers.
        """
        pid, tid = self._memory.pid, self._tid
        if self._has_ended():
            return True
        if self._is_awaited and self._answer.read() is None:
            return False
        if int(status_fields(pid, tid).get(b"SigBlk", b"0"), 16) & ~self._mask:
            self._outside_ns = None  # a handler may lead back there
            return False
        if self._outside_ns is None:
            self._outside_ns = cpu_ns(pid, tid)
        return has_left(pid, tid, self._place, self._outside_ns)

    def _becomes_free(self) -> bool:
        for _ in range(FREE_LOOKS):
            if self.is_free():
                return True
            time.sleep(ANSWER_INTERVAL_S)
        return False

    def give_up(self) -> None:
        """Wait for an answer that is due, a second at most, or see to it that none comes: the
        memory for it goes. Nobody is asked afterwards.
        """
        end_s = time.monotonic() + LAST_LIMIT_S
        while self._is_awaited and time.monotonic() < end_s:
            self._is_awaited = self._answer.read() is None and not self._has_ended()
            time.sleep(ANSWER_INTERVAL_S)
        if self._is_awaited:
            with contextlib.suppress(OSError):  # the process has ended
                self._memory.write(self._answer_place, bytes(8))

    def _has_ended(self) -> bool:
        return self._tid not in tasks(self._memory.pid)

    def end(self) -> None:
        """Trace no more."""
        self._diverter.end()

    def _note(self, tid: int, let_in: int = 0) -> None:
        self._tid = tid
        self._mask = self._diverter.mask | let_in
        self._outside_ns = None
