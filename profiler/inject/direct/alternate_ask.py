"""Have a thread of the target write down where its alternate signal stack is.

It is sent through the stub, as the first one was, makes one system call there and takes up its work
again by itself, also if the host dies meanwhile. The stub holds the state of one thread at a time:
nobody is sent there before the last one has left. A handler of the program may run before that, and
may take long: a thread answers when it has its own mask again, and with it such a signal behind it.
"""

from __future__ import annotations

import time

from ...linux.tasks import cpu_ns, read_call
from ..link.alternate import Alternate, Answer
from ..link.target_memory import TargetMemory
from .divert import Diverter, Result
from .slack import LEFT_CPU_NS

ANSWER_LIMIT_S = 0.005
ANSWER_INTERVAL_S = 0.00005


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
        diverter.set_answer(self._answer.addr)
        self._is_awaited = False
        self._note(diverter.tid)

    def ask(self, tid: int) -> Alternate | None:
        """Ask a thread that runs; it is stopped for some 0.1 ms.

        Returns:
            None if it could not be asked now, or has not answered in time.
        """
        if self._is_awaited and tid == self._tid:
            late = self._answer.read()
            if late is not None:
                self._is_awaited = False
                return late
        if not self.is_free():
            return None
        self._answer.clear()
        self._is_awaited = False
        if self._diverter.divert(tid) is not Result.DONE:
            return None
        self._note(tid)
        self._is_awaited = True
        for _ in range(round(ANSWER_LIMIT_S / ANSWER_INTERVAL_S)):
            found = self._answer.read()
            if found is not None:
                self._is_awaited = False
                return found
            time.sleep(ANSWER_INTERVAL_S)
        return None

    def is_free(self) -> bool:
        """Tell whether the last thread that was sent there has left the stub."""
        try:
            call = read_call(self._memory.pid, self._tid)
        except OSError:  # it has ended
            return True
        if self._is_awaited and self._answer.read() is None:
            return False
        if call is not None:
            return call.pc not in self._place
        return cpu_ns(self._memory.pid, self._tid) - self._released_ns >= LEFT_CPU_NS

    def end(self) -> None:
        """Trace no more."""
        self._diverter.end()

    def _note(self, tid: int) -> None:
        self._tid = tid
        self._released_ns = cpu_ns(self._memory.pid, tid)
