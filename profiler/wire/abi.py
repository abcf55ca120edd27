"""Repeat the constants and record layouts of ``agent/abi.h``, which explains them.

``tests/unit/wire/test_abi.py`` compiles the header and compares the two. The layout of intervals is
a numpy dtype in ``decoder.py``.
"""

from __future__ import annotations

import struct

ABI_VERSION = 4
RING_MAGIC = 0x31474E4952505446
BATCH_MAGIC = 0x48435442
RING_HEADER_BYTES = 4096
RING_BYTES = 1 << 22
MAX_FRAMES = 2048

FRAME_KIND_SHIFT = 56
FRAME_KIND_MODULE = 0
FRAME_KIND_RUNTIME = 1
FRAME_MODULE_SHIFT = 40

SECTION_MODULES = 1
SECTION_THREADS = 2
SECTION_TRACES = 3
SECTION_INTERVALS = 4

MODULE_GONE = 1
THREAD_EXITED = 1
THREAD_HIDDEN = 2
THREAD_SIGNAL_BLOCKED = 4
INTERVAL_OPEN = 1

HANDLER_HISTOGRAM_BUCKETS = 64
HANDLER_HISTOGRAM_NS = 250
COUNTER_COUNT = 64
# In the order of enum counter; the position is the index into ring_header.counters.
COUNTER_NAMES = (
    "ticks",
    "ticks_late",
    "signals_sent",
    "signals_handled",
    "signals_late",
    "parked_reads",
    "parked_torn",
    "unchanged",
    "ring_full",
    "intervals_lost",
    "traces_lost",
    "threads_lost",
    "threads_exited",
    "signal_blocked",
    "eintr_repaired",
    "eintr_unrepairable",
    "fork_backoff",
    "handler_ns_total",
    "handler_ns_max",
    "sampler_cpu_ns",
    "cfi_rows",
    "cfi_modules",
    "cfi_compile_ns",
    "bytes_held",
    "unattributed_cpu_ns",
    "module_refreshes",
    "rate_mhz_now",
    "not_ready",
    "waits_interrupted",
    "signals_failed",
    "handler_replaced",
    "budget_lowered",
    "budget_raised",
    "gaps",
    "gap_ns",
    "small_stack",
    "modules_lost",
    "records_lost",
    "stray_stack",
    "unattributed_ended_ns",
    "unattributed_blocked_ns",
    "unattributed_handler_ns",
    "unattributed_stack_ns",
    "unattributed_unseen_ns",
    "engine_now",
    "timers_failed",
    "samples_lost",
    "cpu_rate_mhz_now",
    "clocks_lent",
)
ENGINE_ROUNDS = 0
ENGINE_CPU_TIMERS = 1

STOP_NONE = 0
STOP_ASKED = 1
STOP_HOST_SILENT = 2
STOP_SANDBOXED = 3
HOST_SILENCE_NS = 3_000_000_000

# "<" keeps Python from adding padding; abi.h has none.
RING_HEADER = struct.Struct("<Q2I9Q")
BATCH_HEADER = struct.Struct("<4I2Q")
SECTION_HEADER = struct.Struct("<4I")
MODULE_RECORD = struct.Struct("<2I3Q32s2I")
THREAD_RECORD = struct.Struct("<4IQ16s")
TRACE_RECORD = struct.Struct("<IHBB2I")
