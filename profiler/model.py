"""Pure types that every stage shares: clocks, states, verdicts, modules, threads, frames.

Imports nothing of ours and does no I/O. Times are nanoseconds of the target's CLOCK_MONOTONIC
unless the name says otherwise. Three words for addresses, used in Python, C and JSON alike:

``runtime_addr``  an address in the running target
``file_addr``     the address as linked (ELF ``p_vaddr`` space): ``runtime_addr - load_bias``
``file_offset``   a position in the file on disk
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Clock(str, Enum):
    """The clock of a weight. Every recording has all three."""

    CPU = "cpu"
    WALL = "wall"
    OFF_CPU = "off-cpu"


class ThreadState(IntEnum):
    """The state of a thread during an interval (``agent/abi.h``: ``enum thread_state``)."""

    RUNNING = 1  # on a CPU
    PARKED = 2  # asleep in a system call; its number is known
    BLOCKED = 3  # asleep outside a system call (a page fault, for example)
    QUEUED = 4  # runnable, and waiting for a CPU


class Activity(IntEnum):
    """What a thread does in a part of an interval: it runs, or waits, by cause."""

    CPU = 0  # on a CPU
    QUEUED = 1  # runnable, and waiting for a CPU
    LOCK = 2  # asleep until another thread wakes it, by all that is known for a lock
    POLL = 3  # asleep until there is something to do
    IO = 4  # reads or writes
    SLEEP = 5  # until a time
    OTHER = 6  # all other causes
    WORK = 7  # asleep until another thread brings something: work, a result, its end


class Verdict(IntEnum):
    """The reliability of a stack (``agent/abi.h``: ``enum verdict``)."""

    COMPLETE = 0  # the root was reached, with call frame information for every step
    GUESSED = 1  # the root was reached, with at least one step by frame pointer
    SCANNED = 2  # the root was reached, but a caller may be another one: ``GUESSED_CALLER``
    TRUNCATED_DEPTH = 3  # deeper than the limit
    NO_UNWIND_INFO = 4  # stopped in code without usable unwind information
    BAD_MEMORY = 5  # stopped at an address outside of the stack
    UNSUPPORTED_RULE = 6  # stopped at a CFI rule that we do not interpret
    NO_STACK = 7  # CPU time without a stack

    @property
    def root_reached(self) -> bool:
        """True if the stack leads down to its root."""
        return self <= Verdict.SCANNED

    @property
    def is_complete(self) -> bool:
        """True if it does, and no caller is only the first that was possible."""
        return self <= Verdict.GUESSED


class ManagedVerdict(IntEnum):
    """The reliability of a stack's interpreted frames (``agent/abi.h``: ``managed_verdict``)."""

    NONE = 0  # no interpreter runs in this thread
    EXACT = 1  # every interpreted frame is above the native frame that runs it
    ENTERING = 2  # the same; the innermost call is just being entered or left
    REPAIRED = 3  # the interpreter was changing its chain of frames; it was put together again
    TORN = 4  # the chain could not be read to its end
    MISPLACED = 5  # some frames belong to no native frame, and are placed by their order
    DEPTH = 6  # deeper than the limit
    NEAREST = 7  # what was inlined into the innermost frame is that of the next known place


class LockState(IntEnum):
    """What a thread does with the interpreter's lock, the GIL (``agent/abi.h``: ``enum mark``)."""

    NONE = 0  # it runs no Python, or its interpreter has no lock
    HELD = 1
    AWAITED = 2  # asleep until it gets the lock
    RELEASED = 3  # in C code or a system call that needs no lock


@dataclass(frozen=True)
class Module:
    """A file (or the vDSO) mapped executable into the target.

    ``module_id`` is never used again within a session, so a frame stays valid after ``dlclose``.
    """

    module_id: int
    path: str  # as the target sees it; "[vdso]" for the vDSO
    load_bias: int  # runtime_addr - file_addr
    start: int  # lowest executable runtime_addr
    end: int  # one past the highest executable runtime_addr
    build_id: str  # lower-case hex, "" if the file has none

    @property
    def name(self) -> str:
        """The file name without its folder."""
        return self.path.rsplit("/", 1)[-1]


class Split(str, Enum):
    """What a view shows apart: stacks begin with a frame for each, and each has a lane."""

    NONE = ""
    PROGRAM = "program"
    PROCESS = "process"
    THREAD = "thread"


@dataclass(frozen=True)
class Process:
    """A process of a recording. A program that another one replaces (exec) is one of its own.

    ``number`` is ours and never reused; ``pid`` is the kernel's, which may reuse it.
    """

    number: int  # from 0 on
    pid: int
    program: str  # what its command runs: its program, or the script of an interpreter
    command: str
    parent: int = -1  # number of the process that started it, or was replaced by it; -1: another
    host: str = ""  # the machine, in a recording of several machines
    first_seen_ns: int = 0
    ended_ns: int = 0  # when its recording ended; 0 while it goes on
    reason: str = ""  # why it ended

    @property
    def title(self) -> str:
        """What tells it from others: program and pid."""
        return f"{self.program.rpartition('/')[2] or 'process'} {self.pid}"


@dataclass(frozen=True)
class Thread:
    """A thread of a target.

    ``thread_id`` is our number and never reused; ``tid`` is the kernel's, which may reuse it.
    """

    thread_id: int
    tid: int
    name: str
    first_seen_ns: int = 0
    exited: bool = False
    signals_blocked: bool = False  # its mask blocks our signal: sampled only while asleep
    comm: str = ""  # the kernel's name of it, where ``name`` is the program's own
    process: int = 0  # ``Process.number``


@dataclass(frozen=True)
class RawFrame:
    """One frame of a trace before symbolization.

    ``module_id`` 0 means code outside any file, such as JIT code; ``addr`` is then a runtime_addr,
    otherwise a file_addr. In a caller's frame, ``addr`` is the return address - 1.

    ``module_id`` ``MANAGED`` means a function of an interpreted program: ``code_id`` and
    ``position`` say which, and where in it.
    """

    module_id: int
    addr: int

    @property
    def code_id(self) -> int:
        """The number of an interpreted function."""
        return self.addr & 0xFFFFFFFF

    @property
    def position(self) -> int:
        """The position in an interpreted function's code, in units of its runtime.

        ``wire.abi.NO_POSITION`` if it is unknown.
        """
        return self.addr >> 32


NO_MODULE = 0
"""``RawFrame.module_id`` of addresses outside of all files: code made at run time, mostly."""

KERNEL_FRAME = RawFrame(NO_MODULE, 0xFFFF_FFFF_FFFF)
"""What a thread of the kernel runs (agent/abi.h: KERNEL_CODE)."""

GUESSED_CALLER = RawFrame(NO_MODULE, 0xFFFF_FFFF_FFFE)
"""Stands between a function and a caller that may be another one (agent/abi.h)."""

MARKS = (KERNEL_FRAME, GUESSED_CALLER)
"""Frames that are no code."""

MANAGED = -1
"""``RawFrame.module_id`` of the functions of interpreted programs."""


class FrameKind(str, Enum):
    """The kind of a resolved frame."""

    NATIVE = "native"  # a function with a symbol
    INLINED = "inlined"  # inlined into the frame that calls it
    TAIL_CALL = "tail call"  # ended in a jump to the next function: restored from call sites
    UNKNOWN = "unknown"  # module+offset only
    PYTHON = "python"  # a Python function
    JAVA = "java"  # a method of Java or another language of its virtual machine
    JAVASCRIPT = "javascript"  # a JavaScript function
    RUBY = "ruby"  # a method, block or script of Ruby
    SYSCALL = "syscall"  # the system call in which a thread waits or runs
    SYNTHETIC = "synthetic"  # added by flametap: [unattributed], [truncated] …
    FOLDED = "folded"  # stands for functions that a view shows as one: those of a module, say


MANAGED_KINDS = (FrameKind.PYTHON, FrameKind.JAVA, FrameKind.JAVASCRIPT, FrameKind.RUBY)
"""Functions of interpreted programs."""


@dataclass(frozen=True)
class Function:
    """The key by which frames are merged into boxes: all but the line and the line's file."""

    name: str  # short, demangled: no parameters, no return type
    module: str  # file name of the module, "[jit]" for code outside any, "" for synthetic frames
    file: str = ""  # source file, "" if not known
    kind: FrameKind = FrameKind.NATIVE
    full_name: str = ""  # demangled with parameters; "" when the same as ``name``


@dataclass(frozen=True)
class Frame:
    """A resolved frame: a function and the line in it (0 if unknown)."""

    function: Function
    line: int = 0
    # The line's file if it is not the function's file (code from #include or #line), else "".
    other_file: str = ""
    # How an interpreted program's function runs here: "compiled by C2"; "" if not known.
    tier: str = ""

    @property
    def file(self) -> str:
        """The source file of the line, "" if unknown."""
        return self.other_file or self.function.file


@dataclass(frozen=True)
class SymbolSource:
    """The source of one module's names, for the status panel and ``-v``."""

    module_id: int
    module: str
    # "symcache", "symtab", "gopclntab", "dynsym", "perf map", "jitdump", "none", "pending"
    source: str
    note: str = ""  # what is missing and how to get it
    has_lines: bool = False


@dataclass(frozen=True)
class ThreadInfo:
    """One row of the thread selector. Weights are nanoseconds."""

    thread_id: int
    tid: int
    name: str
    cpu_ns: int
    wall_ns: int
    off_cpu_ns: int
    exited: bool
    waits_in: str  # name of the system call in which it waits now, "" if it runs
    signals_blocked: bool = False  # see ``Thread``
    gil_held_ns: int = 0  # elapsed time in which it held the GIL …
    gil_awaited_ns: int = 0  # … and was asleep until it got it
    comm: str = ""  # see ``Thread``
    process: int = 0


@dataclass(frozen=True)
class ChildProcess:
    """A process that the target has started, or that such a process has."""

    pid: int
    command: str  # its name, as the kernel has it: up to 15 bytes
    cpu_ns: int  # of all its threads


LOOKS = "looks"
"""``Status.engine`` where all threads are looked at at a fixed rate: on a device."""


@dataclass
class Status:
    """The state of a recording, for the page and the progress line."""

    pid: int
    command: str
    state: str  # "attaching", "recording", "paused", "ended"
    program: str = ""  # what the command runs: its program, or the script of an interpreter
    started_s: float = 0.0  # the time of day: seconds since 1970; 0 if not known
    reason: str = ""  # why it ended
    engine: str = ""  # "cpu-timers", "rounds" or LOOKS: what decides when threads are sampled
    rate_hz: float = 0.0  # samples asked for in a second of each thread's CPU time
    look_rate_hz: float = 0.0  # looks a second at each sleeping thread
    effective_rate_hz: float = 0.0  # samples taken in a second of CPU time
    asked_rate_hz: float = 0.0  # the rate that the user asks for; the budget may lower it
    budget_ppm: int = 0  # what sampling may cost, in millionths of a core; 0 for no limit
    duration_ns: int = 0  # from its start to now; ranges of time lie in it
    paused_ns: int = 0  # how much of that sampling was paused
    revision: int = 0
    samples: int = 0  # stacks taken: by signal and by procfs
    counters: dict[str, int] = field(default_factory=dict)  # abi.h enum counter, by name
    handler_p50_ns: int = 0  # how long a signal handler ran: median …
    handler_p99_ns: int = 0  # … and 99th percentile
    verdict_cpu_ns: dict[str, int] = field(default_factory=dict)  # Verdict name → CPU weight
    # ManagedVerdict name → CPU weight; stacks without interpreted frames are not included.
    managed_verdict_cpu_ns: dict[str, int] = field(default_factory=dict)
    languages: list[str] = field(
        default_factory=list
    )  # of interpreted functions: "Python", "Java" …
    has_gil: bool = False  # … by threads that hold a GIL, or wait for it
    verdict_modules: dict[str, int] = field(
        default_factory=dict
    )  # module at fault → CPU weight cut there
    symbols: list[SymbolSource] = field(default_factory=list)
    symbols_pending: int = 0  # addresses that do not have their final names yet
    is_final: bool = False  # the recording has ended, and all names are final
    processes: int = 1  # how many were recorded
    host: str = ""  # the machines where they run, if it is not the one that keeps the recording
    notes: list[str] = field(default_factory=list)  # things the user should know, one line each
    # Of a file of another profiler, which may know less than we do:
    source: str = ""  # its format; "" for a recording of our own
    clocks: list[str] = field(default_factory=list)  # those that it has; empty for all
    weights: str = ""  # what is counted if it is no clock: "time", "samples", "bytes"
    has_moments: bool = True  # it says when each stack was seen

    @property
    def counted(self) -> str:
        """What is counted where weights are no time: "samples", "bytes"; "" for nanoseconds."""
        return "" if self.weights == "time" else self.weights

    def has_clock(self, clock: Clock) -> bool:
        """Tell whether it has the weights of a clock."""
        return not self.clocks or clock.value in self.clocks

    def shown_clock(self, chosen: Clock) -> Clock:
        """Return the clock of weights: the only one if there is one, as all others are the same."""
        return Clock(self.clocks[0]) if len(self.clocks) == 1 else chosen

    @property
    def recorded_ns(self) -> int:
        """The duration without pauses."""
        return max(0, self.duration_ns - self.paused_ns)
