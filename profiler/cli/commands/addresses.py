"""Print the functions at addresses that a user gives as arguments or on stdin.

Another program may write addresses to stdin one by one and wait for each answer, as with
``llvm-symbolizer`` and ``addr2line``. Each address is therefore answered at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import UsageError
from ...model import Frame, FrameKind
from ..streams import print_json, print_line

if TYPE_CHECKING:
    from ...symbols.inventory import Inventory

READ_BYTES = 1 << 16
_ADDRESS = re.compile(r"(?:(?P<module>.*)\+)?(?:0[xX])?(?P<digits>[0-9a-fA-F]{1,16})")


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``0x1f``, ``1f`` or ``module+0x1f``. Return the module's name (or ``""``) and address.

    Raises:
        UsageError: not such an address.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not an address", "give hexadecimal digits, as in 0x1f40 or libc.so.6+1f40"
        )
    return match["module"] or "", int(match["digits"], 16)


def read_addresses(descriptor: int) -> Iterator[list[tuple[str, int]]]:
    """Yield the addresses of a stream, as many at a time as can be read without waiting.

    Raises:
        UsageError: a line is not an address; yields the addresses before it first.
    """
    rest, number = b"", 0
    while True:
        data = os.read(descriptor, READ_BYTES)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        addresses = []
        for line in lines:
            number += 1
            text = line.decode("utf-8", "replace").strip()
            try:
                if text:
                    addresses.append(parse_address(text))
            except UsageError as error:
                yield addresses
                raise UsageError(f"line {number} of stdin: {error.message}", error.hint) from None
        yield addresses
        if not data:
            return


def show_names(
    found: Inventory,
    is_process: bool,
    chunks: Iterator[list[tuple[str, int]]],
    full: bool,
    as_json: bool,
) -> None:
    """Print the functions at addresses, in the order of the addresses.

    Raises:
        UsageError: the file has parts for several processors, or a module does not exist.
    """
    if not is_process and len(found.modules) > 1:
        raise UsageError(
            "the file has parts for several processors: "
            + ", ".join(each.machine for each in found.modules),
            "choose one with --arch",
        )
    for addresses in chunks:
        places = [place_of(found, is_process, name, addr) for name, addr in addresses]
        frames = frames_at(found, places)
        for (name, addr), place in zip(addresses, places, strict=True):
            stack = frames.get(place, ()) if place is not None else ()
            if as_json:
                print_json(answer(addr, place, stack), indent=None)
                continue
            asked = f"{name}+{addr:#x}" if name else f"{addr:#x}"
            print_line(asked if stack else f"{asked}  (no known function there)")
            for frame in reversed(stack):
                print_line(f"    {frame_text(frame, full)}")
        sys.stdout.flush()


class Place(NamedTuple):
    """An address in one of the modules."""

    position: int  # of the module in the inventory
    file_addr: int
    module: str


def place_of(found: Inventory, is_process: bool, name: str, addr: int) -> Place | None:
    """Find the module of an address; None if no module contains it.

    With a module's name, the address is one as linked; else a runtime address for a process.

    Raises:
        UsageError: there is no module of that name.
    """
    for position, each in enumerate(found.modules):
        module = each.module
        if name == module.name or not (name or is_process):
            return Place(position, addr, module.name)
        for start, end, load_bias in each.ranges if not name else ():
            if start <= addr < end:
                return Place(position, addr - load_bias, module.name)
    if name:
        raise UsageError(
            f"it has no module {name}", "leave out the module's name, or name another file"
        )
    return None


def frames_at(found: Inventory, places: Sequence[Place | None]) -> dict[Place, tuple[Frame, ...]]:
    """Return the frames at each place, outermost first, with one look-up per module."""
    wanted: dict[int, list[Place]] = {}
    for place in places:
        if place is not None:
            wanted.setdefault(place.position, []).append(place)
    frames: dict[Place, tuple[Frame, ...]] = {}
    for index, mine in wanted.items():
        stacks = found.resolve(found.modules[index], [place.file_addr for place in mine])
        frames.update(zip(mine, stacks, strict=True))
    return frames


def frame_text(frame: Frame, full: bool) -> str:
    """Format a frame as one line, as `flametap dump` does."""
    function = frame.function
    name = (full and function.full_name) or function.name
    place = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    inlined = " [inlined]" if function.kind is FrameKind.INLINED else ""
    return f"{name}{place}{inlined}"


def answer(addr: int, place: Place | None, stack: Sequence[Frame]) -> dict[str, Any]:
    """Return the JSON object of one address. ``module`` is null if no module contains it; frames
    are those of `flametap dump --json`, with ``full_name``.
    """
    return {
        "address": addr,
        "module": None if place is None else place.module,
        "file_address": None if place is None else place.file_addr,
        "frames_leaf_first": [
            {
                "name": frame.function.name,
                "full_name": frame.function.full_name or frame.function.name,
                "file": frame.file,
                "line": frame.line,
                "function_file": frame.function.file,
                "kind": frame.function.kind.value,
            }
            for frame in reversed(stack)
        ],
    }
