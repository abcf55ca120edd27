"""What an agent may have of its target's threads through the host, for the time of one attach."""

from __future__ import annotations

from collections.abc import Callable

from .admission import Admission
from .alternate import Alternate
from .stack_probe import AlternateStacks
from .stopper import Stopper


class Grants:
    """See the module.

    Args:
        stopper: stops the target's threads for a moment.
        ask: ``Injector.ask_alternate``.
        is_replaced: whether the target is another program by now, whose threads are not touched.

    Attributes:
        admission: lets our signal into them.
        alternate_stacks: finds their alternate stacks.
    """

    def __init__(
        self,
        stopper: Stopper,
        ask: Callable[[int, int], Alternate | None],
        is_replaced: Callable[[], bool],
    ) -> None:
        self.admission = Admission(stopper, is_replaced)
        self.alternate_stacks = AlternateStacks(
            stopper.pid, lambda tid: ask(tid, self.admission.let_in(tid)), is_replaced
        )

    def end(self) -> None:
        """Grant nothing more, and put back what was changed."""
        self.alternate_stacks.end()
        self.admission.put_back()
