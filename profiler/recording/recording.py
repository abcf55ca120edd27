"""What was recorded: the one noun between all that writes and all that reads.

A recorder, or the reader of a file, makes a ``Recording`` and adds to it. Trees, the timeline,
formats, the page and the command line read it, and never know which of the two it was.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from ..model import Function, Status
from .code_source import CodeSource, NoCode
from .names.table import SymbolTable
from .profile.store import Profile
from .revision import Revision


class Recording:
    """A recording, which may still grow. Any thread may read it.

    Args:
        profile: threads, modules, stacks and intervals.
        names: the functions of the stacks.
        status: returns its state; without it, that of one that has ended, as far as it is known.
        changes: counts them; without it, there are none.
        meta: where and by what it was made; without it, here.
        code: source texts and instructions.

    Attributes:
        profile: see above.
        names: see above.
        changes: see above.
        meta: see above.
        code: see above.
        views: what readers keep of it (``analysis.views.views_of``).
        copy_to: writes all of it as a file of its own; None if it is kept in no file.
    """

    def __init__(
        self,
        profile: Profile,
        names: SymbolTable,
        status: Callable[[], Status] | None = None,
        changes: Revision | None = None,
        meta: Mapping[str, Any] | None = None,
        code: CodeSource | None = None,
    ) -> None:
        self.profile = profile
        self.names = names
        self.code = code or NoCode()
        self._status = status or (lambda: ended(profile))
        self.changes = changes or Revision(lambda: profile.revision)
        self.meta = machine() if meta is None else dict(meta)
        self.views: Any = None
        self.copy_to: Callable[[BinaryIO], None] | None = None

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols. Cheap enough for several calls a second."""
        return self._status()

    @property
    def functions(self) -> Sequence[Function]:
        """The functions of all stacks. The index of a function is its id and never changes: the
        sequence only grows at its end.
        """
        return self.names.functions

    def function_id(self, function: Function) -> int:
        """Return the id of a function; a new one is added at the end."""
        return self.names.function_id(function)

    @property
    def revision(self) -> int:
        """A number that grows with each change."""
        return self.changes.current()

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """Wait for another revision than the given one, at most ``timeout_s``; return it."""
        return self.changes.wait_newer(revision, timeout_s)


def ended(profile: Profile) -> Status:
    """Return the state of a recording of which nothing is known but what was sampled."""
    return with_sums(Status(0, "", "ended", revision=profile.revision, is_final=True), profile)


def with_sums(status: Status, profile: Profile) -> Status:
    """Return a state with the sums of what was sampled."""
    verdicts = profile.verdicts()
    return replace(
        status,
        duration_ns=profile.duration_ns,
        samples=profile.samples,
        verdict_cpu_ns=verdicts.native,
        managed_verdict_cpu_ns=verdicts.managed,
        verdict_modules=verdicts.modules,
        has_gil=profile.has_lock,
    )


def machine() -> dict[str, Any]:
    """Return where and by what a recording is made."""
    from ..version import version

    system = platform.uname()
    return {
        "flametap": version(),
        "host": system.node,
        "system": f"{system.system} {system.release}",
        "machine": system.machine,
        "made_s": time.time(),
    }
