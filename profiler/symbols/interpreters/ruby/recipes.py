"""Find a Ruby by the symbols that it exports, and make its recipe."""

from __future__ import annotations

import re
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import RUBY_CONTROL_FRAMES, RUNTIME_RUBY
from ..loaded_symbols import LoadedElf, LoadedSymbol
from ..recipe import Recipe
from .layout import VERSIONS, layout_of

_MACHINE, _LOOP, _VERSION = "ruby_current_vm_ptr", "rb_vm_exec", "ruby_version"
_MAX_VERSION_BYTES = 32
_MAX_LOOP_BYTES = 1 << 20  # 3 kB in 3.1; 40 kB where the loop is inlined into it
_NUMBERS = re.compile(r"(\d{1,3})\.(\d{1,3})\.\d{1,3}")
NOT_SHOWN = "its methods appear as the interpreter's C functions"


class Location(NamedTuple):
    """One Ruby in a process."""

    version: str  # "Ruby 3.1.2"
    numbers: tuple[int, int]  # (3, 1)
    image: tuple[int, int]  # start and end of its file's memory
    machine: int  # runtime_addr of the variable that points to the virtual machine
    loop: LoadedSymbol  # rb_vm_exec


def is_exported(elf: LoadedElf) -> bool:
    """Return whether a file holds a Ruby."""
    return elf.symbol(_MACHINE) is not None and elf.symbol(_VERSION) is not None


def locate(memory: ProcessMemory, elf: LoadedElf) -> Location:
    """Describe a loaded Ruby.

    Raises:
        MemoryReadError: it cannot be read, or is none.
    """
    machine, loop, version = (elf.symbol(name) for name in (_MACHINE, _LOOP, _VERSION))
    if machine is None or version is None:
        raise MemoryReadError("not a Ruby")
    text = memory.read_some(version.addr, _MAX_VERSION_BYTES).partition(b"\0")[0]
    match = _NUMBERS.match(text.decode("latin-1"))
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    name = f"Ruby {match[0]}" if match else "Ruby"
    return Location(name, numbers, (elf.start, elf.end), machine.addr, loop or LoadedSymbol(0, 0))


def make_recipe(place: Location, recipe_id: int) -> Recipe | str:
    """Return the recipe, or a line that says why there is none."""
    layout = layout_of(place.numbers)
    if layout is None:
        known = " and ".join(f"{major}.{minor}" for major, minor in VERSIONS)
        return f"{place.version}: a version that is not known ({known} are): {NOT_SHOWN}"
    if not 0 < place.loop.size <= _MAX_LOOP_BYTES:
        return f"{place.version}: it does not export {_LOOP}: {NOT_SHOWN}"
    return Recipe(
        {
            "runtime": RUNTIME_RUBY,
            "id": recipe_id,
            "walk": RUBY_CONTROL_FRAMES,
            "runtime_addr": place.machine,
            "runtime_bytes": 8,
            "image_start": place.image[0],
            "image_end": place.image[1],
            "eval_start": place.loop.addr,
            "eval_end": place.loop.addr + place.loop.size,
            "eval_cold_start": 0,
            "eval_cold_end": 0,
            **layout,
        }
    )
