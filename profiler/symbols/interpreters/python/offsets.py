"""Offsets of CPython's structures that a process cannot tell, by version.

In bytes, on x86-64 Linux, release builds, under the names of the agent's recipe
(``wire.abi.RECIPE_NAMES``). Computed by a C compiler from each version's internal headers, and
compared with the machine code of its builds. From 3.13 on, most are in the process itself
(``debug_offsets``), and only the rest is here.
"""

from __future__ import annotations

from ....wire.abi import (
    PYTHON_CFRAME_ENTRIES,
    PYTHON_CFRAME_OBJECTS,
    PYTHON_CFRAMES,
    PYTHON_ENTRIES,
    PYTHON_FRAME_OBJECTS,
)
from .version import Version

# From 3.8 to 3.12, all releases of a version have the same.
_OBJECTS = {
    "object_type": 8,
    "bytes_length": 16,
    "bytes_data": 32,
    "string_length": 16,
    "string_hash": 24,
    "string_state": 32,
    "string_kind_shift": 2,
}
_LONG_STRINGS = {"string_ascii": 48, "string_compact": 72}  # before 3.12: with a wchar_t pointer
_SHORT_STRINGS = {"string_ascii": 40, "string_compact": 56}
_GIL = {"gil_holder": 8, "gil_locked": 16, "gil_bytes": 208}
_CODE_8 = {
    "code_first_line": 40,
    "code_file_name": 104,
    "code_name": 112,
    "code_line_table": 120,
}

TABLES: dict[tuple[int, int], dict[str, int]] = {
    (3, 8): {
        **_OBJECTS,
        **_LONG_STRINGS,
        **_GIL,
        **_CODE_8,
        "walk": PYTHON_FRAME_OBJECTS,
        "runtime_head": 32,
        "runtime_finalizing": 16,
        "gil_addr": 1152,  # in _PyRuntime
        "interpreter_next": 0,
        "interpreter_threads": 8,
        "thread_next": 8,
        "thread_interpreter": 16,
        "thread_pointer": 176,
        "thread_frame": 24,
        "frame_previous": 24,
        "frame_code": 32,
        "frame_code_tags": 0,
        "frame_position": 104,
        "frame_position_unit": 1,
    },
    (3, 9): {
        **_OBJECTS,
        **_LONG_STRINGS,
        **_GIL,
        **_CODE_8,
        "walk": PYTHON_FRAME_OBJECTS,
        "runtime_head": 32,
        "runtime_finalizing": 16,
        "gil_addr": 352,
        "interpreter_next": 0,
        "interpreter_threads": 8,
        "interpreter_collecting": 816,
        "thread_next": 8,
        "thread_interpreter": 16,
        "thread_pointer": 176,
        "thread_frame": 24,
        "frame_previous": 24,
        "frame_code": 32,
        "frame_code_tags": 0,
        "frame_position": 104,
        "frame_position_unit": 1,
    },
    (3, 10): {
        **_OBJECTS,
        **_LONG_STRINGS,
        **_GIL,
        **_CODE_8,
        "walk": PYTHON_CFRAME_OBJECTS,
        "runtime_head": 32,
        "runtime_finalizing": 16,
        "gil_addr": 352,
        "interpreter_next": 0,
        "interpreter_threads": 8,
        "interpreter_collecting": 816,
        "thread_next": 8,
        "thread_interpreter": 16,
        "thread_pointer": 176,
        "thread_frame": 24,
        "thread_cframe": 48,
        "thread_root_cframe": 264,
        "cframe_previous": 8,
        "frame_previous": 24,
        "frame_code": 32,
        "frame_code_tags": 0,
        "frame_position": 96,
        "frame_position_unit": 2,
    },
    (3, 11): {
        **_OBJECTS,
        **_LONG_STRINGS,
        **_GIL,
        "walk": PYTHON_CFRAMES,
        "runtime_head": 40,
        "runtime_finalizing": 24,
        "gil_addr": 360,
        "interpreter_next": 0,
        "interpreter_threads": 16,
        "interpreter_collecting": 848,
        "thread_next": 8,
        "thread_interpreter": 16,
        "thread_pointer": 152,
        "thread_tid": 160,
        "thread_cframe": 56,
        "thread_root_cframe": 336,
        "thread_datastack_chunk": 296,
        "thread_datastack_top": 304,
        "cframe_frame": 8,
        "cframe_previous": 16,
        "frame_previous": 48,
        "frame_code": 32,
        "frame_code_tags": 0,
        "frame_position": 56,
        "frame_position_unit": 0,
        "frame_owner": 69,
        "frame_is_entry": 68,
        "code_bytes": 184,
        "code_first_line": 72,
        "code_file_name": 112,
        "code_name": 120,
        "code_qualified_name": 128,
        "code_line_table": 136,
    },
    (3, 12): {
        **_OBJECTS,
        **_SHORT_STRINGS,
        **_GIL,
        "walk": PYTHON_CFRAME_ENTRIES,
        "runtime_head": 40,
        "runtime_finalizing": 24,
        "interpreter_next": 0,
        "interpreter_threads": 72,
        "interpreter_gil": 384,
        "interpreter_collecting": 312,
        "thread_next": 8,
        "thread_interpreter": 16,
        "thread_pointer": 136,
        "thread_tid": 144,
        "thread_cframe": 56,
        "thread_root_cframe": 272,
        "thread_datastack_chunk": 232,
        "thread_datastack_top": 240,
        "cframe_frame": 0,
        "cframe_previous": 8,
        "frame_previous": 8,
        "frame_code": 0,
        "frame_code_tags": 0,
        "frame_position": 56,
        "frame_position_unit": 0,
        "frame_owner": 70,
        "code_bytes": 192,
        "code_first_line": 68,
        "code_version": 92,
        "code_file_name": 112,
        "code_name": 120,
        "code_qualified_name": 128,
        "code_line_table": 136,
    },
}

# From 3.13 on, what is not in struct _Py_DebugOffsets, of builds with a global lock.
_SINCE_13 = {
    "walk": PYTHON_ENTRIES,
    "frame_position_unit": 0,
    "code_version": 92,
    "string_hash": 24,
    "string_kind_shift": 2,
    "string_compact": 56,
    "gil_bytes": 208,
}
_CONSTANTS: dict[tuple[int, int], dict[str, int]] = {
    (3, 13): {
        **_SINCE_13,
        "thread_datastack_top": 240,
        "frame_code_tags": 0,
    },
    (3, 14): {
        **_SINCE_13,
        "thread_datastack_top": 240,
        "frame_code_tags": 3,
    },
    (3, 15): {
        **_SINCE_13,
        "thread_datastack_top": 264,
        "frame_code_tags": 3,
    },
}
# All objects have a head of 32 bytes there instead of 16, and the lock a word more.
_FREE_THREADED = {
    "code_version": 108,
    "string_hash": 40,
    "string_compact": 72,
    "gil_bytes": 216,
}


def constants_of(version: Version) -> dict[str, int] | None:
    """Return what the debug offsets of a version lack; None for a version that is not known."""
    constants = _CONSTANTS.get(version.minor_version)
    if constants is None or not version.is_free_threaded:
        return constants
    # Since 3.14, ``interned`` takes a byte of a string's state, and ``kind`` follows it.
    shift = 2 if version.minor < 14 else 8
    return {**constants, **_FREE_THREADED, "string_kind_shift": shift}
