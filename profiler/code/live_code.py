"""Read the texts and instructions of a target's functions from its files, while it lives.

Missing or damaged files of the target never raise anything but ``LookupError``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Frame, FrameKind, Function, SymbolSource
from ..recording.code_source import NO_FILE, CodeRow, Listing
from ..recording.profile.store import Profile
from ..symbols.locate.source_text import SourceText, read_source
from ..symbols.object.disassembly import Instruction, disassemble
from ..symbols.object.object_file import ObjectFile
from ..symbols.resolver import ModuleResolver
from ..symbols.symbolizer import Symbolizer
from ..symbols.symbolizers import Symbolizers
from .annotation import rows_of

# Most code of one function that is disassembled. CPython's interpreter loop has 60 kB, V8's largest
# builtins 100 kB.
MAX_CODE_BYTES = 1 << 20
MAX_LISTINGS = 4  # in the cache; a listing of 10 000 instructions has some MB
IN_NO_FILE = "its code is in no file: made while the program ran, or part of the interpreter"


@dataclass(frozen=True, eq=False)
class _Kept:
    """A listing, and what it was made from."""

    key: tuple[int, int]
    listing: Listing

    def holds(self, addrs: npt.NDArray[np.int64]) -> bool:
        """Return True if one of the instructions contains each of these addresses."""
        return bool((rows_of(self.listing.rows, addrs) >= 0).all())


class LiveCode:
    """The code of a target; see the module docstring. A ``CodeSource``. Any thread may call.

    Args:
        profile: has the modules.
        symbolizer: the source of the names; None before the attach.
    """

    def __init__(self, profile: Profile, symbolizer: Symbolizer | Symbolizers | None) -> None:
        self._profile = profile
        self._symbolizer = symbolizer
        self._listings: dict[Function, _Kept] = {}  # a cache, oldest first
        self._lock = threading.Lock()

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        return self._symbolizer.sources() if self._symbolizer else []

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        if not file:
            return SourceText(None, self._why_no_lines(function))
        if function.kind is FrameKind.PYTHON and file.startswith("<"):
            return SourceText(None, IN_NO_FILE)
        if self._symbolizer is None:
            return read_source(file, ())
        is_script = function.kind is FrameKind.JAVASCRIPT
        built_ns = self._symbolizer.mapped_ns(file) if is_script else self._built_ns(function)
        found = read_source(file, self._symbolizer.roots, built_ns)
        if is_script and (found.lines is None or found.note):
            return self._symbolizer.embedded_text(file) or found
        return found

    def _why_no_lines(self, function: Function) -> str:
        sources = self._symbolizer.sources() if self._symbolizer else []
        for source in sources:
            if source.module == function.module and source.note:
                return f"no lines are known: {source.note}"
        return "no lines are known"

    def _built_ns(self, function: Function) -> int:
        """Return the time of the module file's last modification (Unix, ns); 0 if unknown."""
        for module in self._profile.modules.values():
            if module.name == function.module and self._symbolizer is not None:
                work = self._symbolizer.work_on(module.module_id)
                return 0 if work is None else work.modified_ns
        return 0

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """See ``CodeSource.listing``."""
        if self._symbolizer is None:
            raise LookupError("its file is unknown")
        work = self._symbolizer.work_on(module_id)
        if work is None or work.image is None or work.resolver is None:
            raise LookupError(NO_FILE)
        with self._lock:
            kept = self._listings.get(function)
        # Reuse a listing while the names are the same and it contains every address with weight.
        key = (module_id, id(work.resolver.lines))
        if kept is not None and kept.key == key and kept.holds(addrs):
            return kept.listing
        with work.resolving:  # meanwhile no other thread resolves addresses of this module
            instructions, notes = _decode(work.image.elf, work.resolver, addrs.tolist())
            frames = work.resolver.resolve_many([each.addr for each in instructions])
        rows = [
            _code_row(instruction, chain)
            for instruction, chain in zip(instructions, frames, strict=True)
            if function.kind is not FrameKind.INLINED
            or any(frame.function == function for frame in chain)
        ]
        listing = Listing(rows, notes)
        with self._lock:
            while len(self._listings) >= MAX_LISTINGS:
                del self._listings[next(iter(self._listings))]
            self._listings[function] = _Kept(key, listing)
        return listing


def _decode(
    elf: ObjectFile, resolver: ModuleResolver, seen: Sequence[int]
) -> tuple[list[Instruction], list[str]]:
    """Decode the functions at some addresses; return instructions by address, and notes.

    Raises:
        LookupError: the extent of these functions is unknown.
    """
    notes: list[str] = []
    instructions: list[Instruction] = []
    left, end = MAX_CODE_BYTES, 0
    for start, stop in resolver.spans(seen):
        start = max(start, end)  # symbols may nest
        if start >= stop:
            continue
        size = min(stop - start, left)
        if size < stop - start:
            notes.append(f"only the first {MAX_CODE_BYTES >> 10} kB of its code are shown")
        code = elf.at_addr(start, size) if size else b""
        instructions += disassemble(code, start, elf.machine, resolver.target_names)
        left, end = left - size, stop
        if not left:
            break
    if not instructions:
        raise LookupError("the start and the end of the function are unknown")
    return instructions, notes


def _code_row(instruction: Instruction, frames: tuple[Frame, ...]) -> CodeRow:
    innermost = frames[-1]
    return CodeRow(
        instruction.addr,
        instruction.data,
        instruction.text,
        instruction.target,
        0,
        0,
        innermost.file,
        innermost.line,
        innermost.function.name if len(frames) > 1 else "",
    )
