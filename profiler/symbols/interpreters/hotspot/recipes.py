"""Make the recipe of a HotSpot from the tables that it exports.

Names of fields have changed: ``_FIELDS`` has for each number the names that it had, the newest
last. What the tables do not say is constant on x86-64 (``frame_x86.hpp``), or follows from the
version.

Source: src/hotspot/share/runtime/vmStructs.cpp, 8 to 25.
"""

from __future__ import annotations

from typing import NamedTuple

from ....linux.elf_headers import PT_LOAD
from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import HOTSPOT_HEAPS, RUNTIME_HOTSPOT
from ...locate.loaded_symbols import LoadedElf
from ..recipe import Recipe
from .routines import Routine, Variables, find_routines
from .tables import VmTables, read_tables

OLDEST = 11
_MAX_RELEASE_BYTES = 64
_MAX_HEAPS = 16

_FIELDS = {
    "heap_segment_shift": ("CodeHeap._log2_segment_size",),
    "block_used": ("HeapBlock::Header._used",),
    "blob_name": ("CodeBlob._name",),
    "blob_bytes": ("CodeBlob._size",),
    "blob_frame_words": ("CodeBlob._frame_size",),
    "blob_frame_complete": ("CodeBlob._frame_complete_offset",),
    "compiled_method": ("CompiledMethod._method", "nmethod._method"),
    "compiled_id": ("nmethod._compile_id",),
    "compiled_level": ("nmethod._comp_level",),
    "compiled_original": ("nmethod._orig_pc_offset",),
    "places": ("nmethod._scopes_pcs_offset",),
    "method_const": ("Method._constMethod",),
    "const_pool": ("ConstMethod._constants",),
    "const_name": ("ConstMethod._name_index",),
    "const_signature": ("ConstMethod._signature_index",),
    "const_code_bytes": ("ConstMethod._code_size",),
    "const_flags": ("ConstMethod._flags", "ConstMethod._flags._flags"),
    "const_words": ("ConstMethod._constMethod_size",),
    "pool_holder": ("ConstantPool._pool_holder",),
    "pool_length": ("ConstantPool._length",),
    "klass_name": ("Klass._name",),
    "symbol_length": ("Symbol._length",),
    "symbol_body": ("Symbol._body", "Symbol._body[0]"),
    "system_tid": ("OSThread._thread_id",),
    "thread_system": ("JavaThread._osthread", "Thread._osthread"),
}
# One of each pair.
_EITHER = (
    ("blob_code", ("CodeBlob._code_begin",), "blob_code_offset", ("CodeBlob._code_offset",)),
    (
        "compiled_deopt",
        ("CompiledMethod._deopt_handler_begin", "nmethod._deopt_handler_begin"),
        "compiled_deopt_offset",
        ("nmethod._deopt_handler_offset", "nmethod._deopt_handler_entry_offset"),
    ),
    (
        "compiled_entry",
        ("nmethod._verified_entry_point",),
        "compiled_entry_offset",
        ("nmethod._verified_entry_offset",),
    ),
    (
        "scopes",
        ("CompiledMethod._scopes_data_begin", "nmethod._scopes_data_begin"),
        "scopes_offset",
        ("nmethod._scopes_data_offset",),
    ),
    (
        "klass_source",
        ("InstanceKlass._source_file_name_index",),
        "pool_source",
        ("ConstantPool._source_file_name_index",),
    ),
)
_SIZES = {
    "block_bytes": "HeapBlock",
    "place_bytes": "PcDesc",
    "const_bytes": "ConstMethod",
    "pool_bytes": "ConstantPool",
}
_LINES_FLAGS = (
    "ConstMethod::_has_linenumber_table",
    "ConstMethodFlags::_misc_has_linenumber_table",
)
_FRAME_BYTECODE = 64  # frame::interpreter_frame_bcp_offset, in bytes
_NUMBERS_WITHOUT_ZERO = 20  # the version since which compressed numbers have no byte 0


class Location(NamedTuple):
    """One HotSpot in a process."""

    version: str  # "OpenJDK 17.0.15"
    major: int
    image: tuple[int, int]  # start and end of its file's memory
    tables: VmTables
    zeroed: tuple[tuple[int, int], ...] = ()  # its variables that the file does not hold


class NotReadyError(Exception):
    """The virtual machine has not set itself up yet."""


def locate(memory: ProcessMemory, elf: LoadedElf) -> Location:
    """Describe a loaded HotSpot.

    Raises:
        MemoryReadError: its tables are missing or damaged.
    """
    tables = read_tables(memory, elf)
    version, major = _version(memory, tables)
    return Location(version, major, (elf.start, elf.end), tables, _zeroed(elf))


def make_recipe(
    memory: ProcessMemory, place: Location, recipe_id: int, *, inlines: bool = True
) -> Recipe | str:
    """Return the recipe, or a line that says why there is none.

    Args:
        memory: the memory of the process.
        place: the virtual machine in it.
        recipe_id: its number.
        inlines: whether the agent sends inlined methods.

    Raises:
        NotReadyError: it is starting.
        MemoryReadError: the process has gone, or its tables lead nowhere.
    """
    if place.major < OLDEST:
        return f"{place.version}: too old: its methods are shown as [jit] and the machine's own"
    tables = place.tables
    numbers: dict[str, int] = {
        "runtime": RUNTIME_HOTSPOT,
        "id": recipe_id,
        "image_start": place.image[0],
        "image_end": place.image[1],
        "number_base": int(place.major >= _NUMBERS_WITHOUT_ZERO),
        "frame_bytecode": _FRAME_BYTECODE,
    }
    try:
        if not inlines:
            numbers["outermost"] = 1
        numbers |= _offsets(tables)
        statics = tables.statics
        numbers["call_stub_return"] = memory.word(statics["StubRoutines._call_stub_return_address"])
        queue = memory.word(statics["AbstractInterpreter._code"])
        if not queue or not numbers["call_stub_return"]:
            raise NotReadyError
        buffer = memory.word(queue + tables.offsets["StubQueue._stub_buffer"])
        numbers["interpreter"] = buffer
        numbers |= _heaps(memory, tables)
    except KeyError as error:
        return f"{place.version}: a build that is not known (it does not say {error.args[0]})"
    return Recipe(numbers)


def routines_of(memory: ProcessMemory, place: Location, recipe: Recipe) -> tuple[Routine, ...]:
    """Return the virtual machine's own routines that there are by now."""
    variables = Variables(place.image, place.zeroed)
    return find_routines(memory, variables, recipe["call_stub_return"])


def _zeroed(elf: LoadedElf) -> tuple[tuple[int, int], ...]:
    found = []
    for each in elf.program_headers:
        if each.kind == PT_LOAD and each.memory_size > each.file_size:
            start = elf.load_bias + each.vaddr
            found.append(((start + each.file_size + 7) // 8 * 8, start + each.memory_size))
    return tuple(found)


def _version(memory: ProcessMemory, tables: VmTables) -> tuple[str, int]:
    major = 0
    release = b""
    try:
        major = memory.integer(tables.statics["Abstract_VM_Version._vm_major_version"], 4)
        text = memory.word(tables.statics["Abstract_VM_Version._s_vm_release"])
        release = memory.read_some(text, _MAX_RELEASE_BYTES).partition(b"\0")[0]
    except (KeyError, MemoryReadError):
        pass
    number = release.decode("ascii", "replace").partition("+")[0].partition("-")[0]
    if not number.isprintable():
        number = ""
    return f"OpenJDK {number or major or 'of unknown version'}", major


def _offsets(tables: VmTables) -> dict[str, int]:
    """Return the numbers that stand in the tables as they are needed.

    Raises:
        KeyError: a name is missing.
    """
    offsets = tables.offsets
    found = {name: _first(offsets, names) for name, names in _FIELDS.items()}
    for name, names, other, other_names in _EITHER:
        if any(each in offsets for each in names):
            found[name] = _first(offsets, names)
        else:
            found[other] = _first(offsets, other_names)
    found |= {name: tables.sizes[type_name] for name, type_name in _SIZES.items()}
    found["const_lines_flag"] = _first(tables.constants, _LINES_FLAGS)
    space = offsets["CodeHeap._memory"]
    low, high = offsets["VirtualSpace._low"], offsets["VirtualSpace._high"]
    found["heap_low"], found["heap_high"] = space + low, space + high
    found["heap_limit"] = space + offsets["VirtualSpace._high_boundary"]
    found["heap_map"] = offsets["CodeHeap._segmap"] + low
    found["heap_map_high"] = offsets["CodeHeap._segmap"] + high
    if "nmethod._immutable_data" in offsets:
        found["places_base"] = offsets["nmethod._immutable_data"]
        found["places_end"] = offsets["nmethod._scopes_data_offset"]
    else:
        found["places_end"] = offsets["nmethod._dependencies_offset"]
    if "CodeBlob._mutable_data" in offsets:
        found["methods_base"] = offsets["CodeBlob._mutable_data"]
        found["methods_offset"] = offsets["CodeBlob._relocation_size"]
    elif "nmethod._immutable_data" in offsets:
        found["methods_offset"] = offsets["CodeBlob._data_offset"]
        found["methods_offset_2"] = offsets["nmethod._metadata_offset"]
    else:
        found["methods_offset"] = offsets["nmethod._metadata_offset"]
    return found | _threads(tables)


def _threads(tables: VmTables) -> dict[str, int]:
    offsets, statics = tables.offsets, tables.statics
    anchor = offsets["JavaThread._anchor"]
    found = {
        "thread_anchor_sp": anchor + offsets["JavaFrameAnchor._last_Java_sp"],
        "thread_anchor_pc": anchor + offsets["JavaFrameAnchor._last_Java_pc"],
        "thread_anchor_fp": anchor + offsets["JavaFrameAnchor._last_Java_fp"],
    }
    if "ThreadsSMRSupport._java_thread_list" in statics:
        found["threads"] = statics["ThreadsSMRSupport._java_thread_list"]
        found["threads_length"] = offsets["ThreadsList._length"]
        found["threads_first"] = offsets["ThreadsList._threads"]
    else:
        found["threads"] = statics["Threads._thread_list"]
        found["thread_next"] = offsets["JavaThread._next"]
    return found | _monitors(offsets)


def _monitors(offsets: dict[str, int]) -> dict[str, int]:
    """Return what says who holds the monitors that threads wait for, if all of it is known."""
    pending = ("JavaThread._current_pending_monitor", "Thread._current_pending_monitor")
    try:
        found = {
            "thread_pending_monitor": _first(offsets, pending),
            "monitor_owner": offsets["ObjectMonitor._owner"],
        }
    except KeyError:
        return {}
    if "JavaThread._monitor_owner_id" in offsets:
        found["thread_owner_id"] = offsets["JavaThread._monitor_owner_id"]
    return found


def _heaps(memory: ProcessMemory, tables: VmTables) -> dict[str, int]:
    offsets = tables.offsets
    array = memory.word(tables.statics["CodeCache._heaps"])
    if not array:
        raise NotReadyError
    lengths = ("GrowableArrayBase._len", "GenericGrowableArray._len")
    count = memory.integer(array + _first(offsets, lengths), 4)
    data = memory.word(array + offsets["GrowableArray<int>._data"])
    if not 0 < count <= _MAX_HEAPS:
        raise NotReadyError
    names = ["heap", *(f"heap_{i}" for i in range(1, HOTSPOT_HEAPS))]
    return {
        name: memory.word(data + 8 * i) for i, name in enumerate(names[: min(count, HOTSPOT_HEAPS)])
    }


def _first(found: dict[str, int], names: tuple[str, ...]) -> int:
    """Return the number of the first name that there is.

    Raises:
        KeyError: there is none.
    """
    for name in names:
        if name in found:
            return found[name]
    raise KeyError(names[-1])
