"""Repeat the constants and record layouts of ``agent/abi.h``, which explains them.

``tests/unit/wire/test_abi.py`` compiles the header and compares the two. The layout of intervals is
a numpy dtype in ``decoder.py``.
"""

from __future__ import annotations

import struct

ABI_VERSION = 14
RING_MAGIC = 0x31474E4952505446
BATCH_MAGIC = 0x48435442
RING_HEADER_BYTES = 4096
RING_BYTES = 1 << 22
MAX_FRAMES = 2048

FRAME_KIND_SHIFT = 56
FRAME_KIND_MODULE = 0
FRAME_KIND_RUNTIME = 1
KERNEL_CODE = 0xFFFFFFFFFFFF
GUESSED_CALLER = 0xFFFFFFFFFFFE
FRAME_KIND_MANAGED = 2
FRAME_KIND_EVAL = 3
FRAME_MODULE_SHIFT = 40
FRAME_POSITION_SHIFT = 32
NO_POSITION = 0xFFFFFF

SECTION_MODULES = 1
SECTION_THREADS = 2
SECTION_CODES = 3
SECTION_TRACES = 4
SECTION_INTERVALS = 5

MODULE_GONE = 1
THREAD_EXITED = 1
THREAD_HIDDEN = 2
THREAD_SIGNAL_BLOCKED = 4
INTERVAL_OPEN = 1
SYSNO_LOCK = 0x7FFD
MARK_LOCK = 3
MARK_LOCK_HELD = 1
MARK_LOCK_AWAITED = 2
MARK_LOCK_RELEASED = 3
MARK_COLLECTING = 4
CODE_PARTS = 4
CODE_GONE = 1
CODE_WIDE_SHIFT = 4
CODE_CUT_SHIFT = 12
JAVA_NO_INDEX = 0xFFFF
JAVA_TIER_SHIFT = 16
JAVA_TIER_NATIVE = 5
JAVA_TIER_STUB = 6
JAVA_STUB_SHIFT = 22
JAVA_STUB_BYTES = 0x40000
JAVA_INLINED = 0x100000
JAVA_NEAREST = 0x200000
RUBY_SINGLETON = 0x100000000
RUBY_IN_C = 0x200000000
V8_CODE_IS_BYTECODE = 1
V8_CODE_IS_BASELINE = 2
V8_CODE_IS_OPTIMISED = 3
V8_CODE_IS_REGEXP = 4
V8_OBJECT_BYTES = 64
V8_KIND_SHIFT = 56

HANDLER_HISTOGRAM_BUCKETS = 64
HANDLER_HISTOGRAM_NS = 256
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
    "codes",
    "codes_lost",
    "threads_admitted",
    "once_cpu_ns",
)
ENGINE_ROUNDS = 0
ENGINE_CPU_TIMERS = 1

STOP_NONE = 0
STOP_ASKED = 1
STOP_HOST_SILENT = 2
STOP_SANDBOXED = 3
HOST_SILENCE_NS = 3_000_000_000

RECIPES_MAX = 8
ABSENT = (1 << 64) - 1
RUNTIME_PYTHON = 1
RUNTIME_HOTSPOT = 2
RUNTIME_V8 = 3
RUNTIME_RUBY = 4
RUNTIME_REGISTERED = 5
PYTHON_FRAME_OBJECTS = 1
PYTHON_CFRAME_OBJECTS = 2
PYTHON_CFRAMES = 3
PYTHON_CFRAME_ENTRIES = 4
PYTHON_ENTRIES = 5
RUBY_CONTROL_FRAMES = 6
RECIPE_WORDS = 96
HOTSPOT_HEAPS = 4
# In the order of enum recipe; the position is the index into a recipe's words.
RECIPE_NAMES = (
    "runtime",
    "id",
    "walk",
    "runtime_addr",
    "code_type_addr",
    "image_start",
    "image_end",
    "eval_start",
    "eval_end",
    "eval_cold_start",
    "eval_cold_end",
    "runtime_head",
    "runtime_finalizing",
    "runtime_bytes",
    "interpreter_next",
    "interpreter_threads",
    "thread_next",
    "thread_interpreter",
    "thread_pointer",
    "thread_tid",
    "thread_frame",
    "thread_cframe",
    "thread_root_cframe",
    "thread_base_frame",
    "thread_datastack_top",
    "thread_datastack_chunk",
    "cframe_frame",
    "cframe_previous",
    "frame_previous",
    "frame_code",
    "frame_code_tags",
    "frame_position",
    "frame_position_unit",
    "frame_owner",
    "frame_is_entry",
    "code_bytes",
    "code_first_line",
    "code_file_name",
    "code_name",
    "code_qualified_name",
    "code_line_table",
    "code_version",
    "object_type",
    "string_length",
    "string_hash",
    "string_state",
    "string_kind_shift",
    "string_ascii",
    "string_compact",
    "bytes_length",
    "bytes_data",
    "gil_addr",
    "interpreter_gil",
    "gil_holder",
    "gil_locked",
    "gil_bytes",
    "interpreter_collecting",
)
# Those, and behind them the words of enum ruby_recipe.
RUBY_RECIPE_NAMES = (
    *RECIPE_NAMES,
    "vm_ractors",
    "ractor_node",
    "ractor_threads",
    "ractor_owner",
    "thread_node",
    "thread_ractor",
    "thread_native",
    "thread_context",
    "context_stack",
    "context_stack_words",
    "context_frame",
    "frame_bytes",
    "frame_environment",
    "code_body",
    "body_words",
    "body_line_shift",
    "body_extent",
    "body_lines",
    "body_places",
    "string_pointer",
    "string_shift",
    "symbols",
    "class_extension",
    "class_is_inline",
    "class_variables",
    "class_path",
    "class_attached",
    "body_parent",
    "class_serial",
)
# The same in the order of enum v8_recipe.
V8_RECIPE_NAMES = (
    "runtime",
    "id",
    "image_bias",
    "builtins_start",
    "builtins_end",
    "image_start",
    "image_end",
    "interpreter_start",
    "interpreter_end",
    "map_type",
    "shared_type",
    "code_type",
    "bytecode_type",
    "function_shared",
    "shared_data",
    "code_start",
    "code_instructions",
    "code_bytes",
    "code_flags",
    "code_deopt",
    "code_table",
    "deopt_shared",
    "wrapper_shared",
    "kind_baseline",
    "shared_script",
    "shared_number",
    "script_source",
    "script_name",
    "script_number",
    "deopt_number",
    "bytecode_table",
    "kind_regexp",
)
# Those of enum hotspot_recipe; the heaps have a name each.
HOTSPOT_RECIPE_NAMES = (
    "runtime",
    "id",
    "call_stub_return",
    "interpreter",
    "number_base",
    "image_start",
    "image_end",
    "heap",
    "heap_1",
    "heap_2",
    "heap_3",
    "heap_low",
    "heap_high",
    "heap_map",
    "heap_segment_shift",
    "block_used",
    "block_bytes",
    "blob_name",
    "blob_bytes",
    "blob_frame_words",
    "blob_frame_complete",
    "blob_code",
    "blob_code_offset",
    "compiled_method",
    "compiled_id",
    "compiled_level",
    "compiled_original",
    "compiled_deopt",
    "compiled_deopt_offset",
    "compiled_entry",
    "compiled_entry_offset",
    "places_base",
    "places",
    "places_end",
    "scopes_offset",
    "scopes",
    "methods_base",
    "methods_offset",
    "methods_offset_2",
    "place_bytes",
    "method_const",
    "const_pool",
    "const_name",
    "const_signature",
    "const_code_bytes",
    "const_flags",
    "const_lines_flag",
    "const_bytes",
    "const_words",
    "pool_holder",
    "pool_length",
    "pool_source",
    "pool_bytes",
    "klass_name",
    "klass_source",
    "symbol_length",
    "symbol_body",
    "frame_bytecode",
    "threads",
    "threads_length",
    "threads_first",
    "thread_next",
    "thread_system",
    "system_tid",
    "thread_anchor_sp",
    "thread_anchor_pc",
    "thread_anchor_fp",
    "heap_limit",
    "heap_map_high",
    "outermost",
    "thread_pending_monitor",
    "monitor_owner",
    "thread_owner_id",
)

# "<" keeps Python from adding padding; abi.h has none.
RING_HEADER = struct.Struct("<Q2I9Q")
BATCH_HEADER = struct.Struct("<4I2Q")
SECTION_HEADER = struct.Struct("<4I")
MODULE_RECORD = struct.Struct("<2I3Q32s2I")
THREAD_RECORD = struct.Struct("<4IQ16s")
TRACE_RECORD = struct.Struct("<IHBB2I")
CODE_RECORD = struct.Struct("<I2H4I2Q")
