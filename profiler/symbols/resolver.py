"""Find the frames at addresses of one module, from its symbol tables and its debug information.

The symbol table names the outermost function if it can: it knows the public name of a function, and
the piece that contains the address. Inline chain and lines come from debug information. Code that
neither covers is named after the function start in the unwind tables, ``libfoo.so+0x1234``. So a
stripped program still shows each of its functions as one box, and assembler code without unwind
information as one between two functions.

Addresses come in thousands, so all of this is computed in columns; Python objects are made only for
distinct functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..model import Frame, FrameKind, Function, Module, RawFrame
from ..recording.names.inline_chains import Indexes, LineSource, pack_chains
from ..recording.names.packed_frames import PackedFrames
from ..recording.names.table import unnamed_function
from .names.demangle import demangle_many
from .names.limits import Budgets, ModuleNames
from .object.data_symbols import DataSymbols
from .object.go_names import go_names
from .object.macho import MachOFile
from .object.macho_symbols import StubNames
from .object.object_file import ObjectError, ObjectFile
from .object.plt import PltNames
from .object.symtab import Symbol, SymbolIndex
from .resolve_columns import FrameColumns

Frames = tuple[Frame, ...]


class ModuleResolver:
    """The frames of one module's addresses. Used by one thread at a time.

    Args:
        module: the module.
        own: the mapped file.
        debug: its separate debug file, if there is one.
        mini: its compressed symbols (``.gnu_debugdata``), used if both lack a symbol table.
        inlines: whether inlined functions become frames.
        budgets: what all modules share.

    Attributes:
        lines: lines and inline chains, ``None`` until they were read.
        tables: the best table that was found: "gopclntab", "symtab", "dynsym" or "none".
        lacks_inlines: True for a Go program whose inlined functions could not be found.

    Raises:
        ObjectError: a table is damaged.
    """

    def __init__(
        self,
        module: Module,
        own: ObjectFile,
        debug: ObjectFile | None,
        *,
        mini: ObjectFile | None = None,
        inlines: bool = True,
        budgets: Budgets | None = None,
    ) -> None:
        budgets = budgets or Budgets()
        self.lines: LineSource | None = None
        self._module = module
        full = next((elf for elf in (own, debug) if elf is not None and elf.has_symtab), None)
        if full is not None:
            tables = [(full, ".symtab")]  # includes all symbols of .dynsym
        else:
            tables = [(own, ".dynsym")]
            full = mini  # does not include the symbols of .dynsym
            if full is not None:
                tables.append((full, ".symtab"))
        self._index = SymbolIndex(tables, budgets.table_bytes)
        if full is not None:
            self.tables = "symtab"
        else:
            self.tables = "dynsym" if len(self._index) else "none"
        self._names = ModuleNames(module.name, budgets.names)
        self._go = go_names(own, self._names, inlines=inlines)
        if self._go is not None:
            self.tables = "gopclntab"
        self.lacks_inlines = self._go is not None and self._go.lacks_inlines
        self._stubs: PltNames | StubNames
        if isinstance(own, MachOFile):
            self._stubs = StubNames(own)
        else:
            self._stubs = PltNames(own, self._index)
        self._stub_functions: dict[tuple[str, str], Function] = {}
        self._fdes = own.fde_table()
        self._own = own
        self._data: DataSymbols | None = None
        self._columns = FrameColumns(self._names, self._index.bodies_of, inlines=inlines)

    @property
    def module_name(self) -> str:
        """The file name of the module."""
        return self._module.name

    @property
    def names_note(self) -> str:
        """Which names are cut or left out, one line for the user; ``""`` if none are."""
        return self._names.note

    @property
    def name_count(self) -> int:
        """The number of function names in its symbol tables."""
        return len(self._index)

    def are_entered(self, goals: Sequence[int], file_addrs: Sequence[int]) -> list[bool]:
        """Return whether a call to each goal enters the function at the corresponding address.

        The call may enter it directly or through a stub. False if that is unknown.

        Args:
            goals: target addresses of calls, file_addr.
            file_addrs: an address in the called function for each goal.
        """
        symbols = self._index.lookup_many(file_addrs)
        return [
            symbol is not None and (symbol.start == goal or self._stubs.lookup(goal) == symbol.name)
            for goal, symbol in zip(goals, symbols, strict=True)
        ]

    def resolve(self, file_addr: int) -> Frames:
        """Return the frames at ``file_addr``, outermost first; at least one."""
        return self.resolve_many([file_addr])[0]

    def resolve_many(self, file_addrs: Sequence[int]) -> list[Frames]:
        """Return the frames at each address; equal results may be one object."""
        return self.resolve_packed(file_addrs).unpack()

    def span(self, file_addr: int) -> tuple[int, int] | None:
        """Return start and end (file_addr) of the code around ``file_addr``; None if unknown.

        Raises:
            ObjectError: the file can no longer be read.
        """
        span = self._index.span(file_addr)
        if span is None and self._go is not None:
            span = self._go.span(file_addr)
        if span is None and self._fdes is not None:
            span = self._fdes.functions_at([file_addr])[0]
        return span

    def spans(self, file_addrs: Iterable[int]) -> list[tuple[int, int]]:
        """Return all pieces of the functions with code at these addresses, in order.

        A compiler may have placed the unlikely parts of a function elsewhere.

        Raises:
            ObjectError: the file can no longer be read.
        """
        found: set[tuple[int, int]] = set()
        symbols: set[Symbol] = set()
        for file_addr in file_addrs:
            if any(start <= file_addr < end for start, end in found):
                continue
            span = self.span(file_addr)
            if span is not None:
                found.add(span)
            symbol = self._index.lookup(file_addr)
            if symbol is not None:
                symbols.add(symbol)
        for symbol in symbols:
            function = self.resolve(symbol.start)[0].function
            for start in self._index.starts_of(symbol.name):
                # Another file may have a private function of the same name.
                if self.resolve(start)[0].function == function:
                    span = self.span(start)
                    if span is not None:
                        found.add(span)
        return sorted(found)

    def target_names(self, file_addrs: Sequence[int]) -> list[str]:
        """Name the targets of code that calls or reads these addresses.

        The names are ``foo+0x10``, ``foo@plt``, ``foo@got``, the name of a variable; ``""`` if
        unknown.

        Raises:
            ObjectError: the file can no longer be read.
        """
        names = []
        spans = self._index.spans(file_addrs)
        for addr, frames, span in zip(
            file_addrs, self.resolve_many(file_addrs), spans, strict=True
        ):
            function = frames[0].function
            slot = self._stubs.slot(addr)
            if slot is not None:
                names.append(f"{demangle_many([slot])[slot][0]}@got")
            elif function.kind is FrameKind.UNKNOWN:
                if self._data is None:
                    self._data = DataSymbols(self._own)
                names.append(self._data.name(addr))
            else:
                is_stub = function.name.endswith("@plt")
                start = addr if is_stub else (span or self.span(addr) or (addr, 0))[0]
                names.append(
                    f"{function.name}+{addr - start:#x}" if addr > start else function.name
                )
        return names

    def resolve_packed(self, file_addrs: Sequence[int]) -> PackedFrames:
        """Return the frames at each address in columns, at least one frame each."""
        symbol_of, symbols = self._index.find(file_addrs)
        lines = self.lines
        chains = pack_chains([()] * len(file_addrs)) if lines is None else lines.chains(file_addrs)
        # Many addresses have the same symbol and chain: compute each distinct pair once.
        width = len(chains.first) + 1
        pairs, place = np.unique((symbol_of + 1) * width + chains.of + 1, return_inverse=True)
        found = self._columns.of(pairs // width - 1, pairs % width - 1, symbols, chains, lines)
        first, count = found.first[place], found.count[place]
        extra = self._other_frames(file_addrs, count, symbol_of, symbols)
        rows, functions = len(found.line), len(found.functions)
        for i, frames in extra.items():
            first[i], count[i] = rows, len(frames)
            rows += len(frames)
        more = [frame for frames in extra.values() for frame in frames]
        numbers = {file: number for number, file in enumerate(found.files)}
        file = [numbers.setdefault(frame.other_file, len(numbers)) for frame in more]
        return PackedFrames(
            first,
            count,
            np.concatenate((found.function, functions + np.arange(len(more)))),
            np.concatenate((found.line, np.array([frame.line for frame in more], np.int64))),
            np.concatenate((found.file, np.array(file, np.int64))),
            [*found.functions, *(frame.function for frame in more)],
            list(numbers),
        )

    def _other_frames(
        self, file_addrs: Sequence[int], count: Indexes, symbol_of: Indexes, symbols: list[Symbol]
    ) -> dict[int, Frames]:
        """Return frames by position: from Go's table, and for addresses without a frame."""
        found: dict[int, Frames] = {}
        if self._go is not None:
            for i, (file_addr, number) in enumerate(
                zip(file_addrs, symbol_of.tolist(), strict=True)
            ):
                frames = self._go.frames(file_addr, symbols[number] if number >= 0 else None)
                if frames:
                    found[i] = frames
        unnamed = [i for i in np.nonzero(count == 0)[0].tolist() if i not in found]
        if unnamed:
            functions = self._unnamed([file_addrs[i] for i in unnamed])
            found.update((i, (Frame(f),)) for i, f in zip(unnamed, functions, strict=True))
        return found

    def _unnamed(self, file_addrs: list[int]) -> list[Function]:
        """Return functions for code that neither symbols nor debug information cover."""
        stubs: list[str | None] = []
        starts = file_addrs
        try:
            stubs = [self._stubs.lookup(file_addr) for file_addr in file_addrs]
            if self._fdes is not None:
                starts = self._fdes.starts_at(file_addrs)
        except ObjectError:  # the file has been truncated
            stubs = [None] * len(file_addrs)
        names = demangle_many(stub for stub in stubs if stub is not None)
        module = self._module
        functions = []
        for start, stub in zip(starts, stubs, strict=True):
            if stub is not None:
                name, full_name = names[stub]
                functions.append(self._stub(f"{name}@plt", full_name and f"{full_name}@plt"))
            else:
                frame = RawFrame(module.module_id, start)
                functions.append(unnamed_function(frame, module.name))
        return functions

    def _stub(self, name: str, full_name: str) -> Function:
        function = self._stub_functions.get((name, full_name))
        if function is None:
            function = self._names.function(name, "", FrameKind.NATIVE, full_name)
            self._stub_functions[name, full_name] = function
        return function
