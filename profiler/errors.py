"""Define every error that a user can see, with its exit code and its remedy.

    FlametapError                 exit 1   internal or I/O
    ├── OutputError               exit 1   an output file cannot be written, or a port not bound
    ├── InputError                exit 1   an input file cannot be read
    ├── UsageError                exit 2   the command line does not make sense
    ├── NoSuchProcessError        exit 3   the pid does not exist (any more)
    ├── PermissionRefusedError    exit 4   we lack the right to attach
    ├── CannotAttachError         exit 5   this target cannot be attached to without harm
    │   └── AttachFailedError     exit 5   the attach was tried and failed
    ├── NoSamplesError            exit 6   nothing was recorded
    ├── LeftBehindError           exit 7   --verify-detach found changes by flametap in the process
    ├── TargetDiedError           exit 7   the target died of a fault while we were attached
    └── ChangedError              exit 8   --fail-above: a function has grown by more than that

An error has a message of one line (what happened, and why) and a hint (what to do next). The
command line prints ``flametap: MESSAGE`` and ``hint: HINT`` to stderr and exits with
``exit_code``. No other code exits the process.
"""

from __future__ import annotations


class FlametapError(Exception):
    """Base of all errors shown to users.

    Args:
        message: one line, without a full stop: what happened and why.
        hint: one line: what to do next; "" if nothing can be done.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OutputError(FlametapError):
    """An output path cannot be written, or a port cannot be bound."""


class InputError(FlametapError):
    """A file cannot be read, or is not of the expected kind."""


class UsageError(FlametapError):
    """Options contradict each other, or a value is out of range."""

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
    """The attach was tried and failed; the target keeps running."""


class NoSamplesError(FlametapError):
    """The recording is empty."""

    exit_code = 6


class LeftBehindError(FlametapError):
    """Something of flametap remained in the process after the detach; the recording is saved."""

    exit_code = 7


class TargetDiedError(FlametapError):
    """The target died of a fault (SIGSEGV, SIGABRT …) while we were attached.

    The cause may be flametap or the target itself.
    """

    exit_code = 7


class ChangedError(FlametapError):
    """A function's share has grown by more than the user allows (``diff --fail-above``)."""

    exit_code = 8
