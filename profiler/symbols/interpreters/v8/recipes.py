"""Make the recipe of a V8 from the symbols that it exports, and those of its file."""

from __future__ import annotations

from typing import NamedTuple

from ....linux.process_memory import ProcessMemory
from ....wire.abi import RUNTIME_V8
from ...locate.loaded_symbols import LoadedElf
from ...object.elf import ElfError, ElfFile
from ..file_symbols import FileSymbol, file_symbols
from ..recipe import Recipe
from .layout import Layout, UnknownBuildError, read_layout, read_version, version_text

_ARRAY_HEADER_BYTES = 16
_BLOB = ("v8_Default_embedded_blob_code_data_", "v8_Default_embedded_blob_code_")
_BLOB_BYTES = "v8_Default_embedded_blob_code_size_"
_INTERPRETER = "Builtins_InterpreterEntryTrampoline"
_BYTECODE_LENGTHS = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
_MAX_BLOB_BYTES = 16 << 20  # node's has 1.6 to 2 MB
_MAX_LENGTHS_BYTES = 4096


class Location(NamedTuple):
    """One V8 in a process."""

    version: str  # "V8 11.3.244"
    numbers: tuple[int, int, int]
    image: tuple[int, int]  # start and end of its file's memory
    bias: int
    layout: Layout | str  # or why it is not known
    builtins: tuple[int, int]  # file_addr of its own functions
    interpreter: tuple[int, int]  # file_addr of the one that runs bytecode; all if not known
    bytecode_lengths: (
        bytes  # for each width of operands, one byte for each bytecode; b"" if unknown
    )


def locate(memory: ProcessMemory, elf: LoadedElf, opened: ElfFile | None) -> Location:
    """Describe a loaded V8.

    Args:
        memory: the memory of the process.
        elf: the file as it is loaded.
        opened: the file; None if it cannot be read.

    Raises:
        MemoryReadError: the process has gone.
    """
    version = read_version(memory, elf)
    layout: Layout | str
    try:
        layout = read_layout(memory, elf)
    except UnknownBuildError as error:
        layout = str(error)
    found = _symbols_of(opened)
    builtins = _builtins(memory, elf, found)
    trampoline = next((each for each in found if each.name == _INTERPRETER and each.size), None)
    interpreter = builtins
    if trampoline is not None:
        interpreter = (trampoline.file_addr, trampoline.file_addr + trampoline.size)
    lengths = next((each for each in found if each.name == _BYTECODE_LENGTHS), None)
    exported = elf.symbol(_BYTECODE_LENGTHS)
    sizes = b""
    if exported is not None and exported.size <= _MAX_LENGTHS_BYTES:
        sizes = memory.read(exported.addr, exported.size)
    elif lengths is not None and lengths.size <= _MAX_LENGTHS_BYTES:
        sizes = memory.read(lengths.file_addr + elf.load_bias, lengths.size)
    return Location(
        version_text(version),
        version,
        (elf.start, elf.end),
        elf.load_bias,
        layout,
        builtins,
        interpreter,
        sizes,
    )


def make_recipe(place: Location, recipe_id: int) -> Recipe | str:
    """Return the recipe, or a line that says why there is none."""
    layout = place.layout
    if isinstance(layout, str):
        return f"{place.version}: a build that is not known ({layout}): {NOT_SHOWN}"
    numbers = {
        "runtime": RUNTIME_V8,
        "id": recipe_id,
        "image_start": place.image[0],
        "image_end": place.image[1],
        "image_bias": place.bias % (1 << 64),
        "builtins_start": place.builtins[0],
        "builtins_end": place.builtins[1],
        "interpreter_start": place.interpreter[0],
        "interpreter_end": place.interpreter[1],
        "map_type": layout.map_kind,
        "shared_type": layout.shared_kind,
        "code_type": layout.code_kind,
        "bytecode_type": layout.bytecode_kind,
        "function_shared": layout.function_shared,
        "shared_data": layout.shared_data,
        "code_instructions": layout.code_instructions,
        "code_bytes": layout.code_bytes,
        "code_flags": layout.code_flags,
        "code_deopt": layout.code_deopt,
        "code_table": layout.code_table,
        "deopt_shared": _ARRAY_HEADER_BYTES + 8 * layout.deopt_shared,
        "kind_baseline": layout.baseline_kind,
        "shared_script": layout.shared_script,
        "shared_number": layout.shared_number,
        "script_source": layout.script_source,
        "script_name": layout.script_name,
        "script_number": layout.script_ends + 8,
        "deopt_number": _ARRAY_HEADER_BYTES + 8 * layout.deopt_number,
        "bytecode_table": layout.bytecode_positions,
    }
    if layout.code_start is not None:
        numbers["code_start"] = layout.code_start
    if layout.regexp_kind is not None:
        numbers["kind_regexp"] = layout.regexp_kind
    if layout.wrapper_shared is not None:
        numbers["wrapper_shared"] = layout.wrapper_shared
    return Recipe(numbers)


NOT_SHOWN = "compiled functions are shown as [jit], interpreted ones as the engine's own"


def _symbols_of(opened: ElfFile | None) -> list[FileSymbol]:
    if opened is None:
        return []
    try:
        return file_symbols(opened, *_BLOB, _INTERPRETER, _BYTECODE_LENGTHS)
    except ElfError:
        return []


def _builtins(memory: ProcessMemory, elf: LoadedElf, found: list[FileSymbol]) -> tuple[int, int]:
    """Return the range of V8's own functions; that of all code of the file if it is not known."""
    addresses = {each.name: each.file_addr for each in found}
    start = next((addresses[name] for name in _BLOB if name in addresses), 0)
    size = 0
    if start and _BLOB_BYTES in addresses:
        size = memory.integer(addresses[_BLOB_BYTES] + elf.load_bias, 4)
    if 0 < size <= _MAX_BLOB_BYTES:
        return start, start + size
    return elf.start - elf.load_bias, elf.end - elf.load_bias
