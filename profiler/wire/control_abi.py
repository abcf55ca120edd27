"""Repeat the layouts of ``agent/entry/control.h``, which explains them.

``tests/unit/wire/test_control_abi.py`` compiles the header and compares the two.
"""

from __future__ import annotations

import struct

BOOT_NOTHING, BOOT_READY, BOOT_FAILED, BOOT_LEFT = range(4)
# struct boot: go, state, error, control_fd, tid, is_alone, must_leave, visitors, then addresses:
# cell, gate, stack, stack_bytes, libc_code; alternate_start, _flags, _bytes.
BOOT = struct.Struct("<IIiiIIIIQQQQQQQQ")
ALTERNATE = struct.Struct("<QQQ")
AT_ALTERNATE = BOOT.size - ALTERNATE.size

CONTROL_BYTES = 128 << 10
CONTROL_WORDS = 12288
CONTROL_PROBES = 256
PREPARE, START, RECIPES, PAUSE, RATE, STOP, LEAVE, CONNECT = range(1, 9)
# struct control: indexes of the futexes, as an array of u32, and offsets of the rest.
REQUEST, ANSWERED = 0, 1
AT_CALL, AT_RESULT, AT_ARGUMENTS = 8, 12, 16
PREPARED = struct.Struct("<ii")  # ring_fd, host_end_fd
AT_PREPARED = 48
AT_OFFSETS = 56  # tid_offset, stack_notes_offset, robust_list_offset
AT_COUNT = 80
AT_WORDS = 88
PROBE = struct.Struct("<QQQq")  # struct control_probe: tid, sp, alternate stack: start, bytes
