"""Every error a user can see, with the exit code and the remedy that go with it.

    FlametapError                 exit 1   internal or I/O
    ├── OutputError               exit 1   a file or port we were told to use cannot be used
    ├── InputError                exit 1   a file we were told to read cannot be read
    ├── UsageError                exit 2   the command line does not make sense
    ├── NoSuchProcessError        exit 3   the pid does not exist (any more)
    ├── PermissionRefusedError    exit 4   we lack the right to attach
    ├── CannotAttachError         exit 5   this target cannot be attached to without harm
    │   └── AttachFailedError     exit 5   the attach was tried and did not work
    ├── NoSamplesError            exit 6   nothing was recorded
    ├── LeftBehindError           exit 7   --verify-detach found something of ours in the process
    └── TargetDiedError           exit 7   the target died of a fault while we were attached

An error is one line that says what happened and why, and a hint that says what to do next. The
command line prints ``flametap: MESSAGE`` and ``hint: HINT`` to stderr and exits with
``exit_code``; nothing else exits.
"""

from __future__ import annotations


class FlametapError(Exception):
    """Base of all errors shown to users.

    Args:
        message: one line, without a full stop: what happened and why.
        hint: one line: what to do next; empty when nothing can be done.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OutputError(FlametapError):
    """An output path cannot be written, or a port cannot be bound."""


class InputError(FlametapError):
    """A file cannot be read, or is not of the kind that it has to be."""


class UsageError(FlametapError):
    """Options that do not make sense together, or a value out of range."""

    exit_code = 2


class NoSuchProcessError(FlametapError):
    """The pid names no process."""

    exit_code = 3


class PermissionRefusedError(FlametapError):
    """The kernel would refuse the attach: uid, yama, capability or container."""

    exit_code = 4


class CannotAttachError(FlametapError):
    """Attaching would fail, or would harm the target."""

    exit_code = 5


class AttachFailedError(CannotAttachError):
    """The attach was tried and did not work; the target goes on."""


class NoSamplesError(FlametapError):
    """The recording is empty."""

    exit_code = 6


class LeftBehindError(FlametapError):
    """After the detach something of ours is left in the process; the recording is saved."""

    exit_code = 7


class TargetDiedError(FlametapError):
    """The target died of a fault (SIGSEGV, SIGABRT …) while we were attached: ours or its own."""

    exit_code = 7
