"""Make the recipe of a CPython from where it is and its version."""

from __future__ import annotations

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import RUNTIME_PYTHON
from ..recipe import Recipe
from .debug_offsets import numbers_of, read_debug_offsets
from .find import Location
from .offsets import TABLES, constants_of
from .version import Version

NEWEST = (3, 15)  # that we know
OLDEST = (3, 8)


def make_recipe(memory: ProcessMemory, place: Location, recipe_id: int) -> Recipe | str:
    """Return the recipe, or a line that says why there is none.

    Raises:
        MemoryReadError: the process has gone.
    """
    version = place.version
    if version is None:
        return "CPython of unknown version: its functions are shown as the interpreter's own"
    numbers = _offsets(memory, place, version)
    if numbers is None:
        return f"{version}: {_reason(version)}: its functions are shown as the interpreter's own"
    if "gil_addr" in numbers:
        numbers["gil_addr"] += place.runtime
    numbers |= {
        "runtime": RUNTIME_PYTHON,
        "id": recipe_id,
        "runtime_addr": place.runtime,
        "runtime_bytes": place.runtime_bytes,
        "code_type_addr": place.code_type,
        "image_start": place.image[0],
        "image_end": place.image[1],
        "eval_start": place.eval_loop[0],
        "eval_end": place.eval_loop[1],
        "eval_cold_start": place.eval_cold[0],
        "eval_cold_end": place.eval_cold[1],
    }
    return Recipe(numbers)


def _offsets(memory: ProcessMemory, place: Location, version: Version) -> dict[str, int] | None:
    table = TABLES.get(version.minor_version)
    if table is not None:
        return dict(table)
    constants = constants_of(version)
    if constants is None:
        return None
    try:
        found = read_debug_offsets(memory, place.runtime, version)
    except MemoryReadError:
        return None
    return None if found is None else {**constants, **numbers_of(found)}


def _reason(version: Version) -> str:
    if version.minor_version < OLDEST:
        return "too old"
    return "not known yet" if version.minor_version > NEWEST else "a build that is not known"
