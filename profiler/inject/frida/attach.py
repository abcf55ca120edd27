"""One attach to one process: what is known of the target, traced and kept of it, from its begin to
its end. How it continues is in ``attach_state``.

It begins before Frida's first call and outlives Frida's session: Frida comes back to the target
after it has said good-bye, to unmap its loader. So an attach ends when another one begins in our
process, or with our process.

Frida calls from threads of its own. Its calls are carried out on the one thread that traces
(``fork_hold``). When our code raises, the call fails for Frida, and the thread of the target gets
its own state back and runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Callable

from ...linux.execs import Program
from . import ptrace_hook
from .attach_events import MustEnd
from .attach_state import Progress
from .fork_hold import ForkHold
from .loader import Loaders
from .ptrace_proxy import PtraceProxy


class Attach:
    """See the module.

    Args:
        pid: the process.

    Attributes:
        progress: the state that it is in.
        hold: keeps its forking threads where they do no harm.
        loaders: what it has run for Frida, and the memory of that.
        proxy: makes what Frida does by ptrace(2) harmless.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._program: Program | None = None
        self._errors: list[Exception] = []
        self.progress = Progress(pid)
        self.hold = ForkHold(self.progress)
        self.loaders = Loaders(pid, self.is_replaced)
        self.proxy = PtraceProxy(self.progress, self.hold, self.loaders)

    def begin(self) -> None:
        """Note which program the process runs, and take Frida's calls from now on.

        The attach before ends.
        """
        self._program = Program(self._pid)
        former = ptrace_hook.enter(self)
        if former is not None:
            former.end()

    def hurry(self) -> None:
        """Give back at once the thread that runs a function for Frida, and release what is kept."""
        self.progress.apply(MustEnd())
        self.hold.let_all_go()

    def end(self) -> None:
        """Take no more of Frida's calls, and let all threads of the target go on as they came.

        Returns at once; the thread that traces ends when that is done.
        """
        ptrace_hook.leave(self)
        self.progress.apply(MustEnd())
        self.hold.tracer.end(self._give_up)

    def _give_up(self) -> int:
        for tid in list(self.progress.state.threads):
            with contextlib.suppress(Exception):  # the others have to be released all the same
                self.proxy.abandon(tid)
        return self.hold.release_all()

    def is_replaced(self) -> bool:
        """Tell whether the process has ended or become another program since the begin."""
        return self._program is not None and self._program.is_replaced()

    def is_calling(self) -> bool:
        """True while some thread runs a function for Frida: to end now is to kill it."""
        return self.progress.state.is_calling()

    def take_error(self) -> Exception | None:
        """The first error of ours since this was last asked: Frida's own words say nothing."""
        errors = self._errors[:]
        self._errors.clear()
        return errors[0] if errors else None

    def ptrace(self, request: int, tid: int, where: int | None, data: int | None) -> int:
        """ptrace(2) as Frida calls it."""
        return self._run(tid, lambda: self.proxy.ptrace(request, tid, where, data))

    def waitpid(self, pid: int, status: int | None, options: int) -> int:
        """waitpid(2) as Frida calls it."""
        return self._run(pid, lambda: self.proxy.waitpid(pid, status, options))

    def _run(self, tid: int, call: Callable[[], int]) -> int:
        try:
            return self.hold.tracer.run(lambda: self._try(tid, call))
        except Exception as error:  # no thread to be had
            return self._fail(error)

    def _try(self, tid: int, call: Callable[[], int]) -> int:
        try:
            return call()
        except Exception as error:
            with contextlib.suppress(Exception):
                self.proxy.abandon(tid)
            return self._fail(error)

    def _fail(self, error: Exception) -> int:
        self._errors.append(error)
        ctypes.set_errno(errno.ESRCH)
        return -1
