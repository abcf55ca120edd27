"""What a check before an attach looks at, and what it finds: the types of ``checks`` and
``preflight``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..errors import FlametapError
from ..linux import procfs
from ..linux.maps import Mapping
from ..linux.procfs import ProcessStatus
from . import freeze_estimate


class Severity(str, Enum):
    """What a finding means for the attach."""

    OK = "ok"
    WARNING = "warning"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str  # a few words: what was looked at
    severity: Severity
    message: str
    hint: str = ""
    error: FlametapError | None = None  # what ``check`` raises for a refusal
    can_be_forced: bool = False


@dataclass
class Target:
    """The process under examination; everything is read once."""

    pid: int
    proc: str = procfs.PROC
    status: ProcessStatus = field(init=False)
    command: str = field(init=False)

    def __post_init__(self) -> None:
        self.status = procfs.read_status(self.pid, self.proc)
        self.command = procfs.read_command(self.pid, self.proc)

    @property
    def subject(self) -> str:
        """How messages call the process."""
        return f"process {self.pid} ({self.status.name})"

    def mappings(self) -> list[Mapping]:
        """The named mappings; read at most once."""
        if self._mappings is None:
            self._mappings = procfs.read_mappings(self.pid, self.proc)
        return self._mappings

    def freeze_estimate_s(self) -> float:
        """How long the attach will stop the main thread."""
        return freeze_estimate.estimate_s(self.pid, self.mappings(), self.proc)

    _mappings: list[Mapping] | None = field(default=None, init=False, repr=False)
