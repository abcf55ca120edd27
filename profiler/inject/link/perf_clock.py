"""Precise clocks for threads of the target: our signal when CPU time has passed.

The timers that the agent makes itself expire at ticks of the scheduler only
(``agent/sampling/cpu_timers.c``). An event of perf is an hrtimer: on the CPU time of one thread, or
on the clock of a CPU. Attached to it is a program that sends the signal to the thread it
interrupts, if that is one of the target's and stands in a table of the agent's. Each event costs
the thread an interrupt (10 µs in a virtual machine), so each is a sample. Periods are drawn anew
from time to time, so that no loop of a thread keeps in step.

The descriptors stay with us: whoever holds one could make it expire every 10 us, and a CPU is not
the target's alone. perf_event_open(2); bpf(2); bpf-helpers(7).
"""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import os
import random
import struct
from typing import NamedTuple

from ...linux import ptrace
from ...linux.syscalls import syscall_numbers

SYS_PERF_EVENT_OPEN, SYS_BPF = syscall_numbers("perf_event_open", "bpf")
# The first version of struct perf_event_attr; of union bpf_attr as much as the command needs.
EVENT = struct.Struct("=IIQQQQQIIQ")
PROGRAM = struct.Struct("=IIQQIIQI")
PERF_TYPE_SOFTWARE = 1
PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK = 0, 1
PERF_FLAG_FD_CLOEXEC = 8
ANY = -1  # thread or CPU
NO_GROUP = -1
PERF_EVENT_IOC_PERIOD, PERF_EVENT_IOC_SET_BPF = 0x40082404, 0x40042408
BPF_PROG_LOAD, BPF_PROG_TYPE_PERF_EVENT = 5, 7
# What reads the agent's table is for programs alone that may be had under the GPL, too.
LICENSE = b"Dual MIT/GPL"
TABLE_SIZE = 1024  # CLOCK_TABLE in agent/agent.h
PERIOD_LEAST_NS, PERIOD_MOST_NS = 250_000, 1_000_000_000

# Instructions: operation, registers (destination, and source in the upper half), offset, value.
INSTRUCTION = struct.Struct("=BBhi")
MOVE, MOVE_REGISTER, ADD, ADD_REGISTER = 0xB7, 0xBF, 0x07, 0x0F
AND, SHIFT_LEFT, XOR_REGISTER = 0x57, 0x67, 0xAF
LOAD_32, LOAD_64, STORE_VALUE_64 = 0x61, 0x79, 0x7A
LOAD_64_BITS = 0x18  # takes two
IF_NOT, IF_NOT_REGISTER = 0x55, 0x5D
CALL, EXIT = 0x85, 0x95
STACK = 10  # register
# Functions; the third gives the numbers of the running thread in a pid namespace (Linux 5.7).
READ_NUMBERS, READ_USER, SEND_SIGNAL_THREAD = 120, 112, 117


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of clock.

    ``number``: in the agent (enum clock_kind in ``agent/process/thread_slot.h``).
    """

    number: int
    counter: int


OF_THREAD = Kind(1, PERF_COUNT_SW_TASK_CLOCK)
OF_CPU = Kind(2, PERF_COUNT_SW_CPU_CLOCK)
SPREAD = 0.4  # of the rate of a clock's events, as a fraction of the mean


class Table(NamedTuple):
    """What the agent says of the threads to be sampled, in the target's memory.

    ``addr`` is of an array of u64; the entry of a thread is at its number modulo the size, and is
    the number, xor ``cookie``, xor the kind of its clock << 32, where a signal is wanted. No other
    memory looks like that.
    """

    addr: int
    cookie: int
    signo: int


@dataclasses.dataclass(frozen=True)
class Process:
    """The target as the kernel's programs know it: its number in its own pid namespace."""

    device: int
    inode: int
    number: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """Raises OSError when the process has ended."""
        found = os.stat(f"/proc/{pid}/ns/pid")
        # The kernel's own form of a device number.
        device = os.major(found.st_dev) << 20 | os.minor(found.st_dev)
        with open(f"/proc/{pid}/status") as file:
            numbers = next(line for line in file if line.startswith("NSpid:"))
        return cls(device, found.st_ino, int(numbers.split()[-1]))


def program(kind: Kind, process: Process, table: Table) -> bytes:
    """Return what runs at each event; by its result, nothing is recorded.

    Args:
        kind: of the clock.
        process: the target.
        table: its threads to be sampled.
    """
    return b"".join(
        INSTRUCTION.pack(operation, source << 4 | target, offset, value)
        for operation, target, source, offset, value in (
            # Is it the target that runs?
            (STORE_VALUE_64, STACK, 0, -8, 0),
            *_load_64_bits(1, process.device),
            *_load_64_bits(2, process.inode),
            (MOVE_REGISTER, 3, STACK, 0, 0),
            (ADD, 3, 0, 0, -8),
            (MOVE, 4, 0, 0, 8),
            (CALL, 0, 0, 0, READ_NUMBERS),
            (IF_NOT, 0, 0, 21, 0),
            (LOAD_32, 7, STACK, -4, 0),
            (IF_NOT, 7, 0, 19, process.number),
            # Is a signal wanted by this thread?
            (LOAD_32, 8, STACK, -8, 0),
            (MOVE_REGISTER, 9, 8, 0, 0),
            (AND, 9, 0, 0, TABLE_SIZE - 1),
            (SHIFT_LEFT, 9, 0, 0, 3),
            *_load_64_bits(3, table.addr),
            (ADD_REGISTER, 3, 9, 0, 0),
            (STORE_VALUE_64, STACK, 0, -16, 0),
            (MOVE_REGISTER, 1, STACK, 0, 0),
            (ADD, 1, 0, 0, -16),
            (MOVE, 2, 0, 0, 8),
            (CALL, 0, 0, 0, READ_USER),
            (LOAD_64, 7, STACK, -16, 0),
            *_load_64_bits(1, table.cookie ^ kind.number << 32),
            (XOR_REGISTER, 7, 1, 0, 0),
            (IF_NOT_REGISTER, 7, 8, 2, 0),
            (MOVE, 1, 0, 0, table.signo),
            (CALL, 0, 0, 0, SEND_SIGNAL_THREAD),
            (MOVE, 0, 0, 0, 0),
            (EXIT, 0, 0, 0, 0),
        )
    )


def load_program(kind: Kind, process: Process, table: Table) -> int:
    """Return a descriptor of the program for all clocks of a kind; -1 where it cannot be loaded."""
    instructions = program(kind, process, table)
    text, license_name = _buffer(instructions), ctypes.create_string_buffer(LICENSE)
    return _bpf(
        BPF_PROG_LOAD,
        PROGRAM.pack(
            *(BPF_PROG_TYPE_PERF_EVENT, len(instructions) // INSTRUCTION.size),
            *(ctypes.addressof(text), ctypes.addressof(license_name), 0, 0, 0, 0),
        ),
    )


def open_clock(kind: Kind, number: int, loaded: int, mean_ns: int) -> int:
    """Start a clock; returns its descriptor, -1 where there is none.

    Args:
        kind: what it counts.
        number: of the thread or the CPU.
        loaded: descriptor of the program.
        mean_ns: mean CPU time between two samples.
    """
    tid, cpu = (ANY, number) if kind is OF_CPU else (number, ANY)
    attributes = _buffer(
        EVENT.pack(
            *(PERF_TYPE_SOFTWARE, EVENT.size, kind.counter, _period_ns(mean_ns)),
            *(0, 0, 0, 0, 0, 0),
        )
    )
    event = ptrace.syscall(
        *(SYS_PERF_EVENT_OPEN, ctypes.addressof(attributes), tid, cpu, NO_GROUP),
        PERF_FLAG_FD_CLOEXEC,
    )
    if event >= 0:
        try:
            fcntl.ioctl(event, PERF_EVENT_IOC_SET_BPF, loaded)
        except OSError:
            os.close(event)
            return -1
    return event


def draw_period(clock: int, mean_ns: int) -> None:
    """Draw the period of a clock anew, and thereby its moments. Raises OSError."""
    fcntl.ioctl(clock, PERF_EVENT_IOC_PERIOD, struct.pack("=Q", _period_ns(mean_ns)))


def is_permitted() -> bool:
    """Return whether we may open clocks. Tried with one that sends nothing."""
    loaded = load_program(OF_CPU, Process.of(os.getpid()), Table(0, 0, 0))
    if loaded < 0:
        return False
    try:
        clock = open_clock(OF_CPU, min(os.sched_getaffinity(0)), loaded, PERIOD_MOST_NS)
    finally:
        os.close(loaded)
    if clock >= 0:
        os.close(clock)
    return clock >= 0


def _period_ns(mean_ns: int) -> int:
    period_ns = int(mean_ns / random.uniform(1 - SPREAD, 1 + SPREAD))
    return min(max(period_ns, PERIOD_LEAST_NS), PERIOD_MOST_NS)


def _load_64_bits(register: int, value: int) -> tuple[tuple[int, int, int, int, int], ...]:
    low, high = struct.unpack("=ii", struct.pack("=Q", value))
    return (LOAD_64_BITS, register, 0, 0, low), (0, 0, 0, 0, high)


def _bpf(command: int, attributes: bytes) -> int:
    buffer = _buffer(attributes)
    return ptrace.syscall(SYS_BPF, command, ctypes.addressof(buffer), len(attributes))


def _buffer(content: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(content, len(content))
