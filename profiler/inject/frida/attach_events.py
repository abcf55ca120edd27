"""What happens in the course of an attach, and what is to be done then. See ``attach_state``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Request(Enum):
    """What Frida wants of a thread."""

    READ_REGISTERS = auto()
    WRITE_REGISTERS = auto()
    WORD = auto()  # to read or write one
    GO_ON = auto()
    DETACH = auto()
    WAIT = auto()  # waitpid(2), until it has stopped
    POLL = auto()  # the same with WNOHANG
    OTHER = auto()


class Stop(Enum):
    """What waitpid(2) tells of a thread."""

    STOPPED = auto()
    BY_PROCESS = auto()  # it runs a function, and its whole process has got SIGSTOP
    BY_OTHERS = auto()  # it runs a function, and somebody has sent a fault signal; we took that
    ENDED = auto()  # or there is no such thread


@dataclass(frozen=True)
class Asked:
    """Keep the main thread stopped when Frida detaches from it."""


@dataclass(frozen=True)
class Seized:
    """We have told a thread to stop, to hold it."""

    tid: int
    until_s: float
    is_brief: bool = False


@dataclass(frozen=True)
class HeldStands:
    """A held thread stands still, before a signal or 0."""

    tid: int
    number: int


@dataclass(frozen=True)
class HeldGoes:
    """A held thread continues, or has ended."""

    tid: int


@dataclass(frozen=True)
class LetGo:
    """All that is held of the process may go on."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""

    now_s: float
    dead: frozenset[int] = frozenset()  # held threads that have died


@dataclass(frozen=True)
class MustEnd:
    """No function may run any longer."""


@dataclass(frozen=True)
class Traced:
    """Frida begins to trace a thread."""

    tid: int
    is_seized: bool = True
    options: int = 0


@dataclass(frozen=True)
class Requested:
    """Frida wants something of a thread."""

    tid: int
    request: Request


@dataclass(frozen=True)
class Noted:
    """What a thread came with is noted."""

    tid: int


@dataclass(frozen=True)
class OwnRegisters:
    """The registers that Frida wants to set are those that the thread came with."""

    tid: int


@dataclass(frozen=True)
class CallRegisters:
    """The registers that Frida wants to set are those of a function to call."""

    tid: int
    function_addr: int  # runtime_addr
    may_call: bool = True


@dataclass(frozen=True)
class Restored:
    """Frida detaches from a thread, which has its own state back; ``number`` is a signal or 0."""

    tid: int
    number: int
    until_s: float  # when it is to go on if we hold it


@dataclass(frozen=True)
class Reported:
    """waitpid(2) has something to tell of a thread."""

    tid: int
    stop: Stop


@dataclass(frozen=True)
class NothingYet:
    """waitpid(2) has nothing to tell of a thread."""

    tid: int
    waited_s: float = 0.0  # since Frida began to wait
    locked_s: float = 0.0  # of these at last in a wait for a lock


@dataclass(frozen=True)
class PutBack:
    """A thread that stood still, with a signal or 0, has all that it came with."""

    tid: int
    number: int
    until_s: float  # when it is to go on if Frida does not come to it


@dataclass(frozen=True)
class Failed:
    """A call of Frida's for a thread has raised an error of ours."""

    tid: int


@dataclass(frozen=True)
class NotPutBack:
    """A thread did not stand still in time to get back what it came with."""

    tid: int


@dataclass(frozen=True)
class Released:
    """We have detached from a thread that Frida still believes to be traced."""

    tid: int


@dataclass(frozen=True)
class Ended:
    """Frida traces a thread no longer: released, at its end, or out of reach."""

    tid: int


HeldEvent = Asked | Seized | HeldStands | HeldGoes | LetGo | Tick
ThreadEvent = (
    Noted
    | OwnRegisters
    | CallRegisters
    | Restored
    | Reported
    | NothingYet
    | PutBack
    | Failed
    | NotPutBack
    | Released
)
Event = HeldEvent | ThreadEvent | MustEnd | Traced | Requested | Ended


class Do(Enum):
    """What is to be done with the thread of an event."""

    # About what Frida wants, see ``Request``.
    PASS = "make the system call that Frida wants"
    REFUSE = "have Frida's call fail"
    SUCCEED = "have Frida's call succeed, and do nothing"
    NOTE = "note what it comes with, unless that is done; say ``Noted``"
    COMPARE = "look at the registers; say ``OwnRegisters`` or ``CallRegisters``"
    BEGIN_CALL = "note which threads there are before the call"
    END_CALL = "give it its own registers, and wait for what the call has started"
    RESTORE = "give back what Frida does not; say ``Restored``"
    RELEASE = "release it, if it is held"
    # About waitpid(2).
    WAIT = "wait without a limit"
    POLL = "look again and again; say ``Reported`` or ``NothingYet``"
    GO_ON = "let it continue"
    GO_ON_WITH_SIGNAL = "let it continue with the signal that it has stopped with"
    ANSWER = "tell Frida what waitpid(2) has told"
    LOOK_AGAIN = "look again in a moment"
    GIVE_UP = "tell Frida that there is nothing to tell"
    # About what goes wrong.
    RELEASE_OTHERS = "let the other held threads of its process go"
    GIVE_BACK = "stop it, and give it what it came with; say ``PutBack`` or ``Ended``"


@dataclass(frozen=True)
class BringOut:
    """Bring a thread that has just stopped out of fork and malloc."""

    options: int  # PTRACE_O_


@dataclass(frozen=True)
class NoteLoader:
    """Note which threads a function that has returned has started."""

    function_addr: int  # runtime_addr


@dataclass(frozen=True)
class PutBackWithin:
    """Wait for the thread to stop, and give it what it came with; say PutBack or NotPutBack."""

    limit_s: float


@dataclass(frozen=True)
class Release:
    """Let a held thread go on; say ``HeldGoes``."""

    tid: int


Action = Do | BringOut | NoteLoader | PutBackWithin | Release
