"""What an agent may have of its target's threads through the host, for the time of one attach."""

from __future__ import annotations

from collections.abc import Callable

from . import file_lender
from .admission import Admission
from .stack_probe import AlternateStacks
from .stopper import Stopper


class Grants:
    """See the module.

    Args:
        stopper: stops the target's threads for a moment.
        is_replaced: whether the target is another program by now, whose threads are not touched.

    Attributes:
        admission: lets our signal into them.
        alternate_stacks: finds their alternate stacks.
    """

    def __init__(self, stopper: Stopper, is_replaced: Callable[[], bool]) -> None:
        self._pid = stopper.pid
        self.admission = Admission(stopper, is_replaced)
        self.alternate_stacks = AlternateStacks(stopper, is_replaced)

    def begin(self, tid: int, fd: int) -> None:
        """Answer the agent from now on.

        Args:
            tid: our thread in the target.
            fd: the descriptor of our end of the sockets, in that thread's own table.
        """
        file_lender.start(self._pid, tid, fd, self)

    def end(self) -> None:
        """Grant nothing more, and put back what was changed."""
        self.alternate_stacks.end()
        self.admission.put_back()
