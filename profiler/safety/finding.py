"""Define the input and the result of a check before an attach, for ``checks`` and ``preflight``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..errors import CannotAttachError, FlametapError
from ..linux import procfs
from ..linux.maps import Mapping
from ..linux.procfs import ProcessStatus


class Severity(str, Enum):
    """The consequence of a finding for the attach."""

    OK = "ok"
    WARNING = "warning"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str  # the name of the check, a few words
    severity: Severity
    message: str
    hint: str = ""
    error: FlametapError | None = None  # of a refusal: the error that ``preflight.check`` raises
    can_be_forced: bool = False

    @classmethod
    def unless_forced(cls, check: str, message: str, hint: str) -> Finding:
        """Return a refusal that ``--force`` overrules; the hint says so."""
        error = CannotAttachError(message, hint)
        return cls(check, Severity.REFUSAL, message, hint, error, can_be_forced=True)


@dataclass
class Target:
    """The process that is checked. Each of its properties is read at most once."""

    pid: int
    proc: str = procfs.PROC
    is_direct: bool = True  # the way in; else Frida's …
    fallback_reason: str = ""  # … and why, if nobody asked for it
    status: ProcessStatus = field(init=False)
    command: str = field(init=False)

    def __post_init__(self) -> None:
        self.status = procfs.read_status(self.pid, self.proc)
        self.command = procfs.read_command(self.pid, self.proc)

    @property
    def subject(self) -> str:
        """The name of the process in messages: ``process 12 (nginx)``."""
        return f"process {self.pid} ({self.status.name})"

    def mappings(self) -> list[Mapping]:
        """Return the named mappings; reads them at the first call."""
        if self._mappings is None:
            self._mappings = procfs.read_mappings(self.pid, self.proc)
        return self._mappings

    _mappings: list[Mapping] | None = field(default=None, init=False, repr=False)
