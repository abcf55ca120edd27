"""Find a Ruby by the symbols that it exports, and make its recipe."""

from __future__ import annotations

import re
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import RUBY_CONTROL_FRAMES, RUNTIME_RUBY
from ...locate.loaded_symbols import LoadedElf, LoadedSymbol
from ...object.elf import ElfError, ElfFile
from ..file_symbols import file_symbols
from ..recipe import Recipe
from .classes import find_class_keys, find_symbols
from .layout import VERSIONS, layout_of
from .stripped import find_loop, find_machine

_MACHINE, _LOOP = "ruby_current_vm_ptr", "rb_vm_exec"
_OBJECT, _VERSION = "rb_cObject", "ruby_version"  # exported by all
_MAX_VERSION_BYTES = 32
_MAX_LOOP_BYTES = 1 << 20  # 3 kB in 3.1; 40 kB where the loop is inlined into it
_NUMBERS = re.compile(r"(\d{1,3})\.(\d{1,3})\.\d{1,3}")
NOT_SHOWN = "its methods appear as the interpreter's C functions"


class Location(NamedTuple):
    """One Ruby in a process."""

    version: str  # "Ruby 3.1.2"
    numbers: tuple[int, int]  # (3, 1)
    image: tuple[int, int]  # start and end of its file's memory
    machine: LoadedSymbol | None  # the variable that points to the virtual machine
    loop: LoadedSymbol | None  # rb_vm_exec
    elf: LoadedElf

    @property
    def is_without_machine(self) -> bool:
        """True if all is known but where the virtual machine is."""
        return (
            self.machine is None and self.loop is not None and layout_of(self.numbers) is not None
        )


def is_exported(elf: LoadedElf) -> bool:
    """Return whether a file holds a Ruby."""
    return elf.symbol(_OBJECT) is not None and elf.symbol(_VERSION) is not None


def locate(memory: ProcessMemory, elf: LoadedElf, opened: ElfFile | None) -> Location:
    """Describe a loaded Ruby.

    Args:
        memory: the memory of the process.
        elf: the file as it is loaded.
        opened: the file; None if it cannot be read.

    Raises:
        MemoryReadError: it cannot be read, or is none.
    """
    version = elf.symbol(_VERSION)
    if version is None:
        raise MemoryReadError("not a Ruby")
    text = memory.read_some(version.addr, _MAX_VERSION_BYTES).partition(b"\0")[0]
    match = _NUMBERS.match(text.decode("latin-1"))
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    name = f"Ruby {match[0]}" if match else "Ruby"
    machine, loop = (elf.symbol(each) or _in_file(elf, opened, each) for each in (_MACHINE, _LOOP))
    if loop is None:
        loop = find_loop(memory, elf, opened)
    return Location(name, numbers, (elf.start, elf.end), machine, loop, elf)


def _in_file(elf: LoadedElf, opened: ElfFile | None, name: str) -> LoadedSymbol | None:
    """Return a symbol of the file that is not exported, as since 3.2; a stripped one has none."""
    if opened is None:
        return None
    try:
        found = [each for each in file_symbols(opened, name + "\0") if each.name == name]
    except ElfError:
        return None
    return LoadedSymbol(elf.load_bias + found[0].file_addr, found[0].size) if found else None


def with_machine(memory: ProcessMemory, place: Location) -> Location:
    """Find the virtual machine of a stripped Ruby, which is there as soon as it has started."""
    layout = layout_of(place.numbers)
    if place.machine is not None or place.loop is None or layout is None:
        return place
    return place._replace(machine=find_machine(memory, place.elf, layout))


def make_recipe(place: Location, recipe_id: int) -> Recipe | str:
    """Return the recipe, or a line that says why there is none.

    Without the names of symbols and classes: see ``with_names``.
    """
    layout = layout_of(place.numbers)
    if layout is None:
        known = " and ".join(f"{major}.{minor}" for major, minor in VERSIONS)
        return f"{place.version}: a version that is not known ({known} are): {NOT_SHOWN}"
    machine, loop = place.machine, place.loop
    if loop is None or not 0 < loop.size <= _MAX_LOOP_BYTES:
        return f"{place.version}: its file is stripped, and {_LOOP} was not found: {NOT_SHOWN}"
    if machine is None:
        return f"{place.version}: its file is stripped, and {_MACHINE} was not found: {NOT_SHOWN}"
    return Recipe(
        {
            "runtime": RUNTIME_RUBY,
            "id": recipe_id,
            "walk": RUBY_CONTROL_FRAMES,
            "runtime_addr": machine.addr,
            "runtime_bytes": 8,
            "image_start": place.image[0],
            "image_end": place.image[1],
            "eval_start": loop.addr,
            "eval_end": loop.addr + loop.size,
            "eval_cold_start": 0,
            "eval_cold_end": 0,
            **{name: at for name, at in layout.items() if not name.startswith("class_")},
        }
    )


def with_names(memory: ProcessMemory, place: Location, recipe: Recipe) -> tuple[Recipe, str]:
    """Add what names methods in C, and classes, in a Ruby that runs; return what is missing."""
    layout = layout_of(place.numbers) or {}
    numbers, missing = dict(recipe.numbers), []
    symbols = find_symbols(memory, place.elf, layout)
    if symbols:
        numbers["symbols"] = symbols
    else:
        missing.append("methods in C are native functions: the names of symbols were not found")
    keys = find_class_keys(memory, place.elf, layout)
    if keys:
        numbers |= {name: at for name, at in layout.items() if name.startswith("class_")} | keys
    else:
        missing.append("methods are shown without their classes: their names were not found")
    return Recipe(numbers), "; ".join(missing)
