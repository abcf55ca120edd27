"""Say how V8's objects lie in memory, by the symbols that it exports for debuggers (``v8dbg_…``).

What a version does not export follows from its number: ``_by_version``. Offsets are in bytes from
the start of an object; kinds are instance types, as maps have them.

Source: tools/gen-postmortem-metadata.py; src/objects/*.tq; 9.4 to 13.6 were read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf

OLDEST, NEWEST = (9, 4), (14, 99)
_PREFIX = "v8dbg_"
_MARK = f"{_PREFIX}off_fp_function"
_TAGGED_BYTES = f"{_PREFIX}TaggedSize"
_VERSION = "_ZN2v88internal7Version5major_E"
_NAMES = ("major", "minor", "build")


@dataclass(frozen=True)
class Layout:
    """One version's numbers."""

    version: tuple[int, int, int]
    map_kind: int  # u16
    # Kinds.
    shared_kind: int
    script_kind: int
    scope_kind: int
    code_kind: int
    bytecode_kind: int
    interpreter_data_kind: int
    debug_info_kind: int
    fixed_array_kind: int
    map_object_kind: int
    byte_kinds: frozenset[int]  # arrays of bytes
    uncompiled_kinds: frozenset[int]
    first_nonstring_kind: int
    # Fields.
    function_shared: int
    shared_data: int
    shared_name: int
    shared_script: int
    shared_number: int  # i32, which one it is in its script
    script_name: int
    script_source: int
    script_ends: int
    script_first_line: int
    script_first_column: int
    scope_locals: int  # index of a word
    scope_first: int  # the first word of variables
    bytecode_data: int
    bytecode_positions: int
    code_start: int | None  # None: instructions lie in the Code itself
    code_instructions: int
    code_bytes: int  # u32
    code_flags: int  # u32
    code_deopt: int
    code_table: int
    baseline_kind: int  # of code
    regexp_kind: int | None  # None if it is not known
    deopt_literals: int  # index
    deopt_positions: int  # index
    deopt_shared: int  # index
    deopt_number: int  # index
    wrapper_shared: int | None
    has_position_flags: bool  # positions: flags in the lowest two bits of a code offset

    @property
    def has_fixed_scope_positions(self) -> bool:
        """True if a ScopeInfo has its function's place in the source before its variables."""
        return self.scope_first >= 5


class UnknownBuildError(Exception):
    """A number is missing, or the version is not known: the message is one line."""


def has_symbols(elf: LoadedElf) -> bool:
    """Return True if a loaded file is a V8 with symbols for debuggers."""
    return elf.symbol(_MARK) is not None


def read_layout(memory: ProcessMemory, elf: LoadedElf) -> Layout:
    """Read the numbers of a loaded V8.

    Raises:
        UnknownBuildError: the build is not known.
        MemoryReadError: the process has gone.
    """
    version = read_version(memory, elf)
    if not OLDEST <= version[:2] <= NEWEST:
        raise UnknownBuildError("a version that is not known")
    symbols = _Symbols(memory, elf)
    if symbols.first("TaggedSize", default=8) != 8:
        raise UnknownBuildError("its pointers are compressed")
    try:
        return Layout(version=version, **_exported(symbols), **_by_version(version, symbols))
    except KeyError as error:
        raise UnknownBuildError(f"it does not say {error.args[0]}") from error


def read_version(memory: ProcessMemory, elf: LoadedElf) -> tuple[int, int, int]:
    """Return the version of a loaded V8; zeros if it does not say.

    Raises:
        MemoryReadError: the process has gone.
    """
    numbers = []
    for name in _NAMES:
        mangled = f"_ZN2v88internal7Version{len(name) + 1}{name}_E"
        symbol = elf.symbol(mangled)
        numbers.append(0 if symbol is None else memory.integer(symbol.addr, 4))
    return numbers[0], numbers[1], numbers[2]


class _Symbols:
    def __init__(self, memory: ProcessMemory, elf: LoadedElf) -> None:
        self._memory = memory
        self._elf = elf

    def first(self, *names: str, default: int | None = None) -> int:
        """Return the number of the first name that there is.

        Raises:
            KeyError: there is none, and no default.
            MemoryReadError: the process has gone.
        """
        for name in names:
            symbol = self._elf.symbol(_PREFIX + name)
            if symbol is not None:
                return self._memory.integer(symbol.addr, 4, signed=True)
        if default is None:
            raise KeyError(names[0])
        return default

    def all(self, *names: str) -> frozenset[int]:
        """Return the numbers of those names that there are."""
        found = (self.first(name, default=-1) for name in names)
        return frozenset(number for number in found if number >= 0)


def _exported(symbols: _Symbols) -> dict[str, Any]:
    first = symbols.first
    shared, script = "class_SharedFunctionInfo__", "class_Script__"
    name = first(f"{script}name__Object")
    uncompiled = "type_UncompiledDataWith"
    return {
        "map_kind": first("class_Map__instance_type__uint16_t"),
        "shared_kind": first("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"),
        "script_kind": first("type_Script__SCRIPT_TYPE"),
        "scope_kind": first("type_ScopeInfo__SCOPE_INFO_TYPE"),
        "code_kind": first("type_Code__CODE_TYPE"),
        "bytecode_kind": first("type_BytecodeArray__BYTECODE_ARRAY_TYPE"),
        "interpreter_data_kind": first("type_InterpreterData__INTERPRETER_DATA_TYPE"),
        "debug_info_kind": first("type_DebugInfo__DEBUG_INFO_TYPE"),
        "fixed_array_kind": first("type_FixedArray__FIXED_ARRAY_TYPE"),
        "map_object_kind": first("type_Map__MAP_TYPE"),
        "byte_kinds": symbols.all(
            "type_ByteArray__BYTE_ARRAY_TYPE", "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE"
        ),
        "uncompiled_kinds": symbols.all(
            f"{uncompiled}PreparseData__UNCOMPILED_DATA_WITH_PREPARSE_DATA_TYPE",
            f"{uncompiled}PreparseDataAndJob__UNCOMPILED_DATA_WITH_PREPARSE_DATA_AND_JOB_TYPE",
            f"{uncompiled}outPreparseData__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_TYPE",
            f"{uncompiled}outPreparseDataWithJob"
            "__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_WITH_JOB_TYPE",
        ),
        "first_nonstring_kind": first("FirstNonstringType"),
        "function_shared": first("class_JSFunction__shared__SharedFunctionInfo"),
        "shared_name": first(
            f"{shared}name_or_scope_info__Tagged_NameOrScopeInfoT_",
            f"{shared}name_or_scope_info__Tagged_Object_",
            f"{shared}name_or_scope_info__Object",
        ),
        "shared_script": first(
            f"{shared}script__Tagged_HeapObject_",
            f"{shared}script_or_debug_info__HeapObject",
            f"{shared}script_or_debug_info__Object",
        ),
        "shared_number": first(f"{shared}flags__int") + 4,
        "script_name": name,
        "script_source": first(f"{script}source__Object", default=name - 8),
        "script_ends": first(f"{script}line_ends__Object"),
        "script_first_line": name + 8,
        "script_first_column": name + 16,
        "scope_locals": first("scopeinfo_idx_ncontextlocals"),
        "scope_first": first("scopeinfo_idx_first_vars"),
        "bytecode_data": first("class_BytecodeArray__data__uintptr_t", default=54),
    }


def _by_version(version: tuple[int, int, int], symbols: _Symbols) -> dict[str, Any]:
    first = symbols.first
    major = version[0]
    is_apart = major >= 11
    is_trusted = major >= 12
    header = ("class_InstructionStream__instruction_start__uintptr_t",) if is_apart else ()
    wrapped = "DeoptimizationDataWrappedSharedFunctionInfoIndex"
    shared_index = first("DeoptimizationDataSharedFunctionInfoIndex", wrapped, default=6)
    is_wrapped = first(wrapped, default=-1) >= 0
    return {
        "shared_data": 8,
        "bytecode_positions": 24 if is_trusted else 32,
        "code_start": first("class_Code__instruction_start__Address", default=40)
        if is_apart
        else None,
        "code_instructions": first(*header, "class_Code__instruction_start__uintptr_t"),
        "code_bytes": first("class_Code__instruction_size__int", default=56 if is_apart else 40),
        "code_flags": first("class_Code__flags__uint32_t", default=48),
        "code_deopt": 8 if is_trusted else 16,
        "code_table": 16 if is_trusted else 24,
        "baseline_kind": first("CodeKindBaseline", default=11),
        # Has no symbol. It moved between 13.6 and 14.6.
        "regexp_kind": 3 if version[:2] <= (13, 6) else 4 if version[:2] >= (14, 6) else None,
        "deopt_literals": first("DeoptimizationDataLiteralArrayIndex", default=2),
        "deopt_positions": first("DeoptimizationDataInliningPositionsIndex", default=7),
        "deopt_shared": shared_index,
        "deopt_number": first("DeoptimizationDataOptimizationIdIndex", default=5),
        "wrapper_shared": first(
            "class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_", default=8
        )
        if is_wrapped
        else None,
        "has_position_flags": major >= 14,
    }


def version_text(version: tuple[int, int, int]) -> str:
    """Return a version as V8 writes it."""
    return f"V8 {version[0]}.{version[1]}.{version[2]}" if version[0] else "V8"


__all__ = [
    "Layout",
    "MemoryReadError",
    "UnknownBuildError",
    "has_symbols",
    "read_layout",
    "read_version",
    "version_text",
]
