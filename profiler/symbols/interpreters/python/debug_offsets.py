"""Read ``struct _Py_DebugOffsets``, in which CPython 3.13 and newer describe themselves.

It stands at the start of ``_PyRuntime``: a cookie, the version, whether there is a global lock, and
groups of u64 in an order that differs by version. Of 3.15 we know the order of a part only. There
the rest comes from our table, which is used if the runs of numbers that it implies are all there.

Source: Include/internal/pycore_debug_offsets.h (3.13: pycore_runtime.h).
"""

from __future__ import annotations

import struct

from ....linux.process_memory import ProcessMemory
from .version import Version

_COOKIE_BYTES = 8
_HEAD = "version free_threaded runtime.size runtime.finalizing runtime.interpreters_head "
_INTERPRETER_13 = (
    "interpreter.size interpreter.id interpreter.next interpreter.threads_head interpreter.gc "
    "interpreter.modules interpreter.sysdict interpreter.builtins interpreter.ceval_gil "
    "interpreter.gil interpreter.gil_enabled interpreter.gil_locked interpreter.gil_holder "
)
_INTERPRETER_14 = _INTERPRETER_13.replace(
    "interpreter.gc ", "interpreter.threads_main interpreter.gc "
) + ("interpreter.code_object_generation interpreter.tlbc_generation ")
_THREAD_BEGIN = "thread.size thread.prev thread.next thread.interp thread.current_frame "
_THREAD_END = "thread.thread_id thread.native_thread_id thread.datastack_chunk thread.status "
_FRAME_13 = (
    "frame.size frame.previous frame.executable frame.instr_ptr frame.localsplus frame.owner "
)
_FRAME_14 = _FRAME_13 + "frame.stackpointer frame.tlbc_index "
_CODE_13 = (
    "code.size code.filename code.name code.qualname code.linetable code.firstlineno "
    "code.argcount code.localsplusnames code.localspluskinds code.co_code_adaptive "
)
_OBJECTS = (
    "object.size object.ob_type type.size type.tp_name type.tp_repr type.tp_flags "
    "tuple.size tuple.ob_item tuple.ob_size list.size list.ob_item list.ob_size "
)
_SET_14 = "set.size set.used set.table set.mask "
_REST = (
    "dict.size dict.ma_keys dict.ma_values float.size float.ob_fval long.size long.lv_tag "
    "long.ob_digit bytes.size bytes.ob_size bytes.ob_sval unicode.size unicode.state "
    "unicode.length unicode.asciiobject_size gc.size gc.collecting "
)
_REST_14 = (
    "gen.size gen.name gen.iframe gen.frame_state llist.next llist.prev "
    "debugger.eval_breaker debugger.support debugger.enabled debugger.pending_call "
    "debugger.script_path debugger.script_path_size "
)
_BEGIN_14 = _HEAD + _INTERPRETER_14 + _THREAD_BEGIN
LAYOUTS: dict[tuple[int, int], tuple[str, ...]] = {
    key: tuple(text.split())
    for key, text in {
        (3, 13): _HEAD
        + _INTERPRETER_13
        + _THREAD_BEGIN
        + _THREAD_END
        + _FRAME_13
        + _CODE_13
        + _OBJECTS
        + _REST,
        (3, 14): _BEGIN_14
        + _THREAD_END
        + _FRAME_14
        + _CODE_13
        + "code.co_tlbc "
        + _OBJECTS
        + _SET_14
        + _REST
        + _REST_14,
        (3, 15): _BEGIN_14 + "thread.base_frame ",
    }.items()
}
"""The fields in their order, after the cookie."""

SIZES = {(3, 13): 584, (3, 14): 760, (3, 15): 888}
"""Bytes of the whole."""

# The rest of 3.15, in runs that stand somewhere behind the known part. None is a size that may
# differ from build to build.
_Run = dict[str, "int | None"]
_RUNS_15: tuple[_Run, ...] = (
    {
        "thread.thread_id": 176,
        "thread.native_thread_id": 184,
        "thread.datastack_chunk": 256,
        "thread.status": 32,
    },
    {
        "frame.previous": 8,
        "frame.executable": 0,
        "frame.instr_ptr": 56,
        "frame.localsplus": 80,
        "frame.owner": 74,
    },
    {
        "code.filename": 112,
        "code.name": 120,
        "code.qualname": 128,
        "code.linetable": 136,
        "code.firstlineno": 68,
    },
    {"code.localsplusnames": 96, "code.localspluskinds": None, "code.co_code_adaptive": 208},
    {"object.size": 16, "object.ob_type": 8},
    {"bytes.ob_size": 16, "bytes.ob_sval": 32},
    {"unicode.state": 32, "unicode.length": 16, "unicode.asciiobject_size": 40},
)
_GC_COLLECTING_15 = 7512  # in the interpreter's state, with or without a global lock
_RUNS_15_FREE_THREADED: tuple[_Run, ...] = (
    _RUNS_15[0],
    {**_RUNS_15[1], "frame.owner": 78},
    {
        "code.filename": 128,
        "code.name": 136,
        "code.qualname": 144,
        "code.linetable": 152,
        "code.firstlineno": 84,
    },
    {"code.localsplusnames": 112, "code.localspluskinds": None, "code.co_code_adaptive": 232},
    {"object.size": 32, "object.ob_type": 24},
    {"bytes.ob_size": 32, "bytes.ob_sval": 48},
    {"unicode.state": 48, "unicode.length": 32, "unicode.asciiobject_size": 56},
)
# Offsets above are damaged: the largest of them all is in the state of an interpreter.
_MAX_OFFSET = 1 << 24


def read_debug_offsets(
    memory: ProcessMemory, runtime_addr: int, version: Version
) -> dict[str, int] | None:
    """Return the offsets of a process by the names of ``LAYOUTS``; None if they are not known.

    Raises:
        MemoryReadError: they cannot be read.
    """
    size = SIZES.get(version.minor_version)
    if size is None:
        return None
    data = memory.read(runtime_addr, size)[_COOKIE_BYTES:]
    return parse_debug_offsets([word for (word,) in struct.iter_unpack("<Q", data)], version)


def parse_debug_offsets(words: list[int], version: Version) -> dict[str, int] | None:
    """Return the offsets by name; None if they are damaged, or not those we know.

    Args:
        words: what follows the cookie.
        version: which says how they are arranged.
    """
    names = LAYOUTS[version.minor_version]
    found = dict(zip(names, words, strict=False))
    if len(words) < len(names):
        return None
    if version.minor_version == (3, 15):
        rest = words[len(names) :]
        for run in _RUNS_15_FREE_THREADED if version.is_free_threaded else _RUNS_15:
            if not _has_run(rest, tuple(run.values())):
                return None
            found |= {name: value for name, value in run.items() if value is not None}
        found["gc.collecting"] = _GC_COLLECTING_15 - found["interpreter.gc"]
    del found["version"]
    if any(not 0 <= value < _MAX_OFFSET for value in found.values()):
        return None
    return found


def numbers_of(found: dict[str, int]) -> dict[str, int]:
    """Return the numbers of a recipe that debug offsets give."""
    lock = found["interpreter.gil"]
    numbers = {
        "runtime_head": found["runtime.interpreters_head"],
        "runtime_finalizing": found["runtime.finalizing"],
        "interpreter_next": found["interpreter.next"],
        "interpreter_threads": found["interpreter.threads_head"],
        "interpreter_gil": found["interpreter.ceval_gil"],
        "interpreter_collecting": found["interpreter.gc"] + found["gc.collecting"],
        "gil_holder": found["interpreter.gil_holder"] - lock,
        "gil_locked": found["interpreter.gil_locked"] - lock,
        "thread_next": found["thread.next"],
        "thread_interpreter": found["thread.interp"],
        "thread_pointer": found["thread.thread_id"],
        "thread_tid": found["thread.native_thread_id"],
        "thread_frame": found["thread.current_frame"],
        "thread_datastack_chunk": found["thread.datastack_chunk"],
        "frame_previous": found["frame.previous"],
        "frame_code": found["frame.executable"],
        "frame_position": found["frame.instr_ptr"],
        "frame_owner": found["frame.owner"],
        "code_bytes": found["code.co_code_adaptive"],
        "code_first_line": found["code.firstlineno"],
        "code_file_name": found["code.filename"],
        "code_name": found["code.name"],
        "code_qualified_name": found["code.qualname"],
        "code_line_table": found["code.linetable"],
        "object_type": found["object.ob_type"],
        "string_length": found["unicode.length"],
        "string_state": found["unicode.state"],
        "string_ascii": found["unicode.asciiobject_size"],
        "bytes_length": found["bytes.ob_size"],
        "bytes_data": found["bytes.ob_sval"],
    }
    if "thread.base_frame" in found:
        numbers["thread_base_frame"] = found["thread.base_frame"]
    return numbers


def _has_run(words: list[int], run: tuple[int | None, ...]) -> bool:
    """Return True if the numbers of a run follow one another somewhere; None is any number."""
    return any(
        all(wanted in (None, word) for wanted, word in zip(run, words[at:], strict=False))
        for at in range(len(words) - len(run) + 1)
    )
