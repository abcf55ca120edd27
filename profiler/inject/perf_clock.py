"""A precise clock for one thread of the target: our signal when it has used so much CPU time.

The timers that the agent makes itself expire at ticks of the scheduler only
(``agent/sampling/cpu_timers.c``). An event of perf on the CPU time of a thread is an hrtimer.
Attached to it is a program that sends the signal to the thread it interrupts: not each time, but
after a number of times that it draws anew, so that no loop of the thread keeps in step; and only
while a word of the target's says so.

The event is off as it is made. Who holds its descriptor sets its period and switches it on; the
last to close it ends it. perf_event_open(2); bpf(2); bpf-helpers(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

from ..linux import ptrace
from ..linux.syscalls import syscall_numbers

SYS_PERF_EVENT_OPEN, SYS_BPF = syscall_numbers("perf_event_open", "bpf")
# The first version of struct perf_event_attr; of union bpf_attr as much as these two commands need.
EVENT = struct.Struct("=IIQQQQQIIQ")
MAP = struct.Struct("=IIII")
PROGRAM = struct.Struct("=IIQQIIQI")
PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK = 1, 1
IS_DISABLED = 1  # flags of the event
PERF_FLAG_FD_CLOEXEC = 8
ANY_CPU, NO_GROUP = -1, -1
PERF_EVENT_IOC_SET_BPF = 0x40042408
BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2
BPF_PROG_LOAD, BPF_PROG_TYPE_PERF_EVENT = 5, 7
# What reads the target's word is for programs alone that may be had under the GPL, too.
LICENSE = b"Dual MIT/GPL"
LONG_NS = 1_000_000_000  # the period before the holder has said
# An event in 2 to 5 sends the signal, in 3.5 on average: EVENTS_A_SAMPLE in agent/sampling/.
LEAST_BETWEEN, DRAWN_MASK = 1, 3

# Instructions: operation, registers (destination, and source in the upper half), offset, value.
INSTRUCTION = struct.Struct("=BBhi")
MOVE, MOVE_REGISTER, ADD, AND = 0xB7, 0xBF, 0x07, 0x57
LOAD_32, STORE_32, STORE_VALUE_32 = 0x61, 0x63, 0x62
LOAD_64_BITS = 0x18  # takes two
JUMP, IF_ZERO, IF_NOT = 0x05, 0x15, 0x55
CALL, EXIT = 0x85, 0x95
MAP_VALUE = 2  # source of LOAD_64_BITS
STACK = 10  # register
RANDOM, READ_USER, SEND_SIGNAL_THREAD = 7, 112, 117  # functions


def program(state: int, signo: int, armed_addr: int) -> bytes:
    """What runs at each event; by its result, nothing is recorded.

    Args:
        state: descriptor of a map whose one value is how many events to let pass.
        signo: the signal.
        armed_addr: of a u32 in the target: 1 where the signal is wanted.
    """
    low, high = struct.unpack("=ii", struct.pack("=Q", armed_addr))
    return b"".join(
        INSTRUCTION.pack(operation, source << 4 | target, offset, value)
        for operation, target, source, offset, value in (
            (LOAD_64_BITS, 6, MAP_VALUE, 0, state),
            (0, 0, 0, 0, 0),
            (LOAD_32, 7, 6, 0, 0),
            (IF_ZERO, 7, 0, 3, 0),
            (ADD, 7, 0, 0, -1),
            (STORE_32, 6, 7, 0, 0),
            (JUMP, 0, 0, 15, 0),
            (CALL, 0, 0, 0, RANDOM),
            (AND, 0, 0, 0, DRAWN_MASK),
            (ADD, 0, 0, 0, LEAST_BETWEEN),
            (STORE_32, 6, 0, 0, 0),
            (STORE_VALUE_32, STACK, 0, -8, 0),
            (MOVE_REGISTER, 1, STACK, 0, 0),
            (ADD, 1, 0, 0, -8),
            (MOVE, 2, 0, 0, 4),
            (LOAD_64_BITS, 3, 0, 0, low),
            (0, 0, 0, 0, high),
            (CALL, 0, 0, 0, READ_USER),
            (LOAD_32, 7, STACK, -8, 0),
            (IF_NOT, 7, 0, 2, 1),
            (MOVE, 1, 0, 0, signo),
            (CALL, 0, 0, 0, SEND_SIGNAL_THREAD),
            (MOVE, 0, 0, 0, 0),
            (EXIT, 0, 0, 0, 0),
        )
    )


def open_clock(tid: int, signo: int, armed_addr: int) -> int:
    """A descriptor of a clock for thread ``tid``, switched off; -1 where there is none."""
    loaded = _load(signo, armed_addr)
    if loaded < 0:
        return -1
    attributes = _buffer(
        EVENT.pack(
            *(PERF_TYPE_SOFTWARE, EVENT.size, PERF_COUNT_SW_TASK_CLOCK, LONG_NS),
            *(0, 0, IS_DISABLED, 0, 0, 0),
        )
    )
    event = ptrace.syscall(
        *(SYS_PERF_EVENT_OPEN, ctypes.addressof(attributes), tid, ANY_CPU, NO_GROUP),
        PERF_FLAG_FD_CLOEXEC,
    )
    try:
        if event >= 0:
            fcntl.ioctl(event, PERF_EVENT_IOC_SET_BPF, loaded)
    except OSError:
        os.close(event)
        return -1
    finally:
        os.close(loaded)
    return event


def is_permitted() -> bool:
    """Whether we may open clocks. Asked with one for the thread that calls, which never runs."""
    clock = open_clock(0, 0, 0)
    if clock >= 0:
        os.close(clock)
    return clock >= 0


def _load(signo: int, armed_addr: int) -> int:
    """A descriptor of the program, -1 where it cannot be loaded."""
    state = _bpf(BPF_MAP_CREATE, MAP.pack(BPF_MAP_TYPE_ARRAY, 4, 4, 1))
    if state < 0:
        return -1
    instructions = program(state, signo, armed_addr)
    text, license_name = _buffer(instructions), ctypes.create_string_buffer(LICENSE)
    try:
        return _bpf(
            BPF_PROG_LOAD,
            PROGRAM.pack(
                *(BPF_PROG_TYPE_PERF_EVENT, len(instructions) // INSTRUCTION.size),
                *(ctypes.addressof(text), ctypes.addressof(license_name), 0, 0, 0, 0),
            ),
        )
    finally:
        os.close(state)


def _bpf(command: int, attributes: bytes) -> int:
    buffer = _buffer(attributes)
    return ptrace.syscall(SYS_BPF, command, ctypes.addressof(buffer), len(attributes))


def _buffer(content: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(content, len(content))
